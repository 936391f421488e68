#!/usr/bin/env bash
# Vast runs this once per instance, from PROVISIONING_SCRIPT. It installs the supervisor program
# llmao-install, which brings the box to what llmao wants at this and every later start of
# supervisord. It prints no secret and puts none into arguments; the one file that holds the fleet
# key is readable by root alone.
set -euo pipefail
umask 077

die() {
  echo "llmao-provision: $*" >&2
  exit 1
}

: "${LLMAO_URL:=${ASFQUART_URL:-}}"
: "${LLMAO_HOST_BY:=address}"
[[ -n "$LLMAO_URL" ]] || die "LLMAO_URL is not set: put it into the template"
[[ -n "${FLEET_KEY:-}" ]] || die "FLEET_KEY is not set: put it into the template"
[[ "${LLMAO_INSTALLER_SHA256:-}" =~ ^[0-9a-f]{64}$ ]] ||
  die "LLMAO_INSTALLER_SHA256 is not set: llmao's admin page shows it"

if [[ -n "${LLMAO_HOST:-}" ]]; then
  host=$LLMAO_HOST
else
  case "$LLMAO_HOST_BY" in
    address) host=${PUBLIC_IPADDR:-} ;;
    label) host=${VAST_CONTAINERLABEL:-} ;;
    *) die "LLMAO_HOST_BY is $LLMAO_HOST_BY: write address or label" ;;
  esac
fi
host=${host//[[:space:]]/}
[[ -n "$host" ]] || die "Vast tells no name by $LLMAO_HOST_BY: set LLMAO_HOST_BY to the other one"

home=${LLMAO_HOME:-/opt/llmao}
units=${LLMAO_UNITS:-/etc/supervisor/conf.d}
data=${DATA_DIRECTORY:-/workspace}
mkdir -p "$home" "$units" "$data/logs"

# ---- the installer, from llmao itself or from a pinned commit
installer=$home/install_set.py
from=${LLMAO_INSTALLER_URL:-${LLMAO_URL%/}/box/install_set.py}
curl --fail --silent --show-error --location --retry 8 --retry-connrefused --max-time 60 \
  --output "$installer.new" "$from" || die "$from cannot be fetched"
have=$(sha256sum "$installer.new" | cut -d ' ' -f 1)
if [[ "$have" != "$LLMAO_INSTALLER_SHA256" ]]; then
  rm -f "$installer.new"
  die "the installer at $from has SHA-256 $have, the template pins $LLMAO_INSTALLER_SHA256: nothing is run"
fi
mv -f "$installer.new" "$installer"

# ---- what later starts need; supervisord's environment may be another one after a reboot
write() { printf 'export %s=%q\n' "$1" "$2"; }
{
  write FLEET_KEY "$FLEET_KEY"
  write LLMAO_URL "$LLMAO_URL"
  write LLMAO_HOST "$host"
  write DATA_DIRECTORY "$data"
  write HF_HOME "${HF_HOME:-$data/huggingface}"
  [[ -z "${HF_TOKEN:-}" ]] || write HF_TOKEN "$HF_TOKEN"
} >"$home/env"

cat >"$home/llmao-install" <<'EOF'
#!/usr/bin/env bash
# Brings this box to what llmao wants: supervisorctl start llmao-install
set -euo pipefail
home=$(dirname "$(readlink -f "$0")")
# where Vast's own images keep vLLM
if [[ -r /venv/main/bin/activate ]]; then
  set +u # it is not ours, and may look at variables that are not there
  # shellcheck source=/dev/null
  . /venv/main/bin/activate
  set -u
fi
# shellcheck source=/dev/null
. "$home/env"
exec python3 "$home/install_set.py" --units UNITS "$@"
EOF
printf -v quoted '%q' "$units"
script=$(<"$home/llmao-install")
printf '%s\n' "${script/UNITS/"$quoted"}" >"$home/llmao-install"
chmod 700 "$home/llmao-install"

cat >"$units/.llmao-install.conf.new" <<EOF
; Written by llmao's provision.sh.
[program:llmao-install]
command=$home/llmao-install
autostart=true
autorestart=false
startsecs=0
stopasgroup=true
killasgroup=true
redirect_stderr=true
stdout_logfile=$data/logs/llmao-install.log
EOF
mv -f "$units/.llmao-install.conf.new" "$units/llmao-install.conf"

supervisorctl reread || die "supervisor does not take llmao-install over: see above"
supervisorctl update llmao-install
echo "llmao-provision: done; this box is $host, see $data/logs/llmao-install.log"
