#!/usr/bin/env bash
# The entrypoint of the RunPod image: bring the box to what llmao wants, then hand over to
# supervisord. `entrypoint.sh install` does the first half alone.
set -euo pipefail

export LLMAO_HOST=${LLMAO_HOST:-${RUNPOD_POD_ID:-}}
if [[ -z "$LLMAO_HOST" ]]; then
  echo "llmao-entrypoint: RunPod tells no RUNPOD_POD_ID: set LLMAO_HOST" >&2
fi

home=${LLMAO_HOME:-/opt/llmao}
if [[ "${1:-}" == install ]]; then
  shift
  exec python3 "$home/install_set.py" "$@"
fi

# A pod that ends is started again at once, and pays all the same: it stays up with the reason.
python3 "$home/install_set.py" ||
  echo "llmao-entrypoint: nothing is served; mend the cause, then: supervisorctl start llmao-install" >&2
exec supervisord --nodaemon --configuration "${LLMAO_SUPERVISORD_CONF:-/etc/supervisord.conf}"
