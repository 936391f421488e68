"""The files a new installation begins with: a pair of configuration, and what git is to ignore.

Rule of this file: secrets are made here and shown nowhere; a file that exists is never touched.
"""

import os
import secrets
from pathlib import Path

from llmao_core.errors import ConfigError, Problem

CONFIG = """\
# llmao's configuration. Check it with `llmao check`; a running llmao takes changes on SIGHUP.
# A secret is text, {env: NAME} or {file: PATH}.

server:
  host: 127.0.0.1
  port: 8080
  public_url: http://127.0.0.1:8080       # what boxes call; https://… once they are elsewhere

litellm:
  base_url: http://127.0.0.1:4000
  master_key: {env: LITELLM_MASTER_KEY}   # or the key of a proxy_admin user

fleet:
  name: @FLEET@                # stands in each of its rows in LiteLLM: one llmao, one name
  key: "@FLEET_KEY@"                # what a box asks with; the same on every box
  vllm_api_salt: "@SALT@"           # every server's bearer derives from it: keep it
  listen_ports: [8001, 8002, 8003]
  hosts: {}
  # hosts:                          # address, Vast label or RunPod pod id: [[MODEL, PORT], …]
  #   203.0.113.10:
  #     - [qwen3-0.6b, 8001]
  #   C.1234567: [[qwen3-0.6b, 8001]]

# Where boxes are rented. A section without api_key is not read.
# providers:
#   vast: {api_key: {env: VAST_API_KEY}}
#   runpod: {api_key: {env: RUNPOD_API_KEY}}
#   openrouter:                     # a provider of models
#     commercial: true
#     api_base: https://openrouter.ai/api/v1
#     api_key: {env: OPENROUTER_API_KEY}

auth: {mode: open}                  # no sign-in; llmao then listens on loopback only
# auth:                             # with one: password, oidc or proxy
#   mode: password
#   session_key: {env: LLMAO_SESSION_KEY}   # sessions outlive a restart: openssl rand -hex 32
#   admins: [{name: alice, hash: HASH}]     # from `llmao hash-password`
# api_tokens:                       # for /api/v1 and `llmao status`
#   - {name: scripts, role: admin, token: {env: LLMAO_TOKEN}}
policy: {}                          # e.g. {delete_litellm: observe}: shown, never done

store: sqlite:///llmao.db
journal: {path: journal/, keep_days: 14, max_mb: 2000}
models_path: models.yaml
"""

MODELS = """\
# The models callers can ask for. One with model_info.vllm is served on our boxes.

models:
  - model_name: qwen3-0.6b
    display_name: Qwen3 0.6B
    model_info:
      license: Apache-2.0
      vllm:
        model: Qwen/Qwen3-0.6B
        args: ["--reasoning-parser", "qwen3"]
        max_model_len: 16384
        vram_gb: 6
        disk_gb: 5

  # - model_name: claude-x            # at a commercial provider of config.yaml
  #   provider: openrouter
  #   litellm_params: {model: openrouter/anthropic/claude-x}
"""


GITIGNORE = """\
# Secrets, and what llmao keeps. models.yaml holds no secret.
/@CONFIG@
/llmao.db*
/journal/
"""


def write_gitignore(config: Path) -> bool:
    """Write a .gitignore that leaves the secrets out; tell whether, one that is there stays."""
    try:
        with config.with_name(".gitignore").open("x", encoding="utf-8") as file:
            file.write(GITIGNORE.replace("@CONFIG@", config.name))
    except OSError:
        return False
    return True


def write(config: Path) -> Path:
    """Write a configuration and models.yaml beside it, 0600, or neither; return the second.

    ConfigError: one of them is there.
    """
    folder, models = config.parent, config.with_name("models.yaml")
    if there := [path for path in (config, models) if path.exists() or path.is_symlink()]:
        raise ConfigError([_kept(path) for path in there])
    text = CONFIG.replace("@FLEET@", f"fleet-{secrets.token_hex(3)}")
    text = text.replace("@FLEET_KEY@", secrets.token_urlsafe(32))
    text = text.replace("@SALT@", secrets.token_urlsafe(32))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_new(config, text)
        try:
            _write_new(models, MODELS)
        except OSError:
            config.unlink()
            raise
    except FileExistsError as error:
        problem = _kept(Path(error.filename or folder))
    except OSError as error:
        remedy = "Name a folder this user may write to."
        problem = Problem(f"It cannot be written: {error.strerror}.", remedy, file=str(folder))
    else:
        return models
    raise ConfigError([problem])


def _kept(path: Path) -> Problem:
    return Problem("The file exists and is left as it is.", "Name another folder.", file=str(path))


def _write_new(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
