"""Installs the real parts or runs them in the foreground: `python -m tests.real.lab up`."""

import argparse
import contextlib
import os
import secrets
import signal
import sys
import time

from .install import LITELLM, install_litellm, install_model, install_vllm
from .litellm import LiteLLM
from .process import LabError
from .vllm import VLLM


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.real.lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    install = commands.add_parser("install", help="install what is missing, then end")
    install.add_argument("part", nargs="?", choices=("litellm", "vllm", "all"), default="all")
    up = commands.add_parser("up", help="run LiteLLM and vLLM until Ctrl-C")
    up.add_argument("--port", type=int, default=4000, help="of LiteLLM (4000)")
    up.add_argument("--workers", type=int, default=1, help="of LiteLLM (1)")
    up.add_argument("--master-key", help="of LiteLLM (a random one)")
    up.add_argument("--vllms", type=int, default=1, help="how many, 0 for none (1)")
    up.add_argument("--vllm-port", type=int, default=8001, help="same for all (8001)")
    up.add_argument("--bearer", help="same for all vLLM (a random one)")
    up.add_argument("--served", default="tiny", help="name of the model (tiny)")
    vllm = commands.add_parser("vllm", help="run one vLLM with the bearer $VLLM_API_KEY")
    vllm.add_argument("--host", default="127.0.0.2", help="where it listens (127.0.0.2)")
    vllm.add_argument("--port", type=int, default=8001, help="(8001)")
    for command in (install, up):
        command.add_argument("--litellm", default=LITELLM, help=f"its version ({LITELLM})")
    return parser.parse_args()


def _install(chosen: argparse.Namespace) -> None:
    if chosen.part in ("litellm", "all"):
        print("LiteLLM in", install_litellm(chosen.litellm))
    if chosen.part in ("vllm", "all"):
        print("vLLM in", install_vllm(), "and its model in", install_model())


def _wait_for_signal() -> None:
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(3600)


def _up(chosen: argparse.Namespace) -> None:
    bearer = chosen.bearer or "sk-" + secrets.token_hex(16)
    key = {"LITELLM_MASTER_KEY": chosen.master_key} if chosen.master_key else {}
    with contextlib.ExitStack() as stack:
        vllms = [
            VLLM(chosen.vllm_port, bearer, host=f"127.0.0.{2 + n}", served=chosen.served)
            for n in range(chosen.vllms)
        ]
        for vllm in vllms:
            stack.callback(vllm.close)
            vllm.start()  # they load while LiteLLM starts
        litellm = LiteLLM(chosen.port, chosen.workers, env=key, version=chosen.litellm)
        stack.enter_context(litellm)
        print(f"LiteLLM is at {litellm.url}. In another terminal:\n", flush=True)
        print(f"    export LITELLM_MASTER_KEY={litellm.master_key}\n", flush=True)
        for vllm in vllms:
            vllm.wait_ready()
            print(f"vLLM        {vllm.url} serves {vllm.served}, bearer {bearer}", flush=True)
        print("Ctrl-C ends everything.", flush=True)
        _wait_for_signal()


def _vllm(chosen: argparse.Namespace) -> None:
    bearer = os.environ.get("VLLM_API_KEY")
    if not bearer:
        raise LabError(
            "VLLM_API_KEY is not set: VLLM_API_KEY=$(llmao bearer 127.0.0.2 8001) make lab-vllm"
        )
    with contextlib.closing(VLLM(chosen.port, bearer, host=chosen.host)) as vllm:
        vllm.start()
        vllm.wait_ready()
        print(f"{vllm.url} serves {vllm.served}. Ctrl-C ends it.", flush=True)
        _wait_for_signal()


def main() -> None:
    """Run the command; trouble is one message and exit code 1."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: end in good order
    chosen = _arguments()
    try:
        {"install": _install, "up": _up, "vllm": _vllm}[chosen.command](chosen)
    except LabError as error:
        sys.exit(f"{error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
