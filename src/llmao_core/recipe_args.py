"""What stands in a recipe's `args`, as vLLM's own parser would take it.

Rule of this file: a spelling that vLLM might take for an option counts as that option. Measured:
its parser takes `--max_model_len`, `--x=y` and unambiguous abbreviations.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

OWNED = (
    "--port",
    "--host",
    "--api-key",
    "--served-model-name",
    "--config",
    "--middleware",
    "--uds",
    "--root-path",
    "--ssl-keyfile",
    "--ssl-certfile",
    "--ssl-ca-certs",
    "--ssl-cert-reqs",
)
_CALLER_VISIBLE = (
    "--reasoning-parser",
    "--tool-call-parser",
    "--enable-auto-tool-choice",
    "--chat-template",
    "--max-model-len",
)


def option(arg: str) -> str:
    """Return the option an argument names, in one spelling; "" when it names none."""
    name = re.split(r"[=\s.]", arg.strip(), maxsplit=1)[0].replace("_", "-").lower()
    return name if len(name) > 2 and name.startswith("--") else ""


def owned(arg: str) -> str:
    """Return the option of llmao's own that an argument is or abbreviates, "" for none."""
    name = option(arg)
    if name.startswith("--ssl-"):
        return "--ssl-*"
    return next((each for each in OWNED if name and each.startswith(name)), "")


def caller_visible(args: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the options whose effect a caller sees, each with its values."""
    return dict(_visible(args))


def _visible(args: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for index, arg in enumerate(args):
        name = option(arg)
        full = next(
            (each for each in _CALLER_VISIBLE if len(name) > 5 and each.startswith(name)), ""
        )
        if not full:
            continue
        if "=" in arg:
            yield full, (arg.split("=", 1)[1],)
            continue
        following = args[index + 1 : index + 2]
        yield full, tuple(each for each in following if not each.startswith("-"))
