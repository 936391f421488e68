"""What section `notify` may say.

Rule of this file: pure; a generator of findings. No message repeats a URL, which is a secret.
"""

from collections.abc import Iterator
from urllib.parse import urlsplit

from .config import Config, NotifyConfig
from .item_kinds import ItemKind
from .places import Finding, Path
from .shapes import meant
from .urls import is_loopback, url_trouble

_EXAMPLE = "Write an https:// URL, {env: NAME} or {file: PATH}: whoever has it can post there."


def findings(config: Config) -> Iterator[Finding]:
    """Yield everything that cannot stand, or is worth a warning."""
    for index, receiver in enumerate(config.notify):
        yield from _url(receiver, ("notify", index, "url"))
        yield from _on(receiver, ("notify", index, "on"))


def _url(receiver: NotifyConfig, path: Path) -> Iterator[Finding]:
    url = receiver.url.reveal()
    if not url:
        yield Finding(path, "There is no URL to post to.", _EXAMPLE)
    elif trouble := url_trouble(url.partition("?")[0]):  # some receivers want a token in the query
        yield Finding(path, trouble, _EXAMPLE)
    elif urlsplit(url).scheme == "http" and not is_loopback(urlsplit(url).hostname or ""):
        yield Finding(
            path,
            "What llmao tells goes there in clear.",
            "Write https:// if the receiver can.",
            warning=True,
        )


def _on(receiver: NotifyConfig, path: Path) -> Iterator[Finding]:
    known = [kind.value for kind in ItemKind]
    for place, name in enumerate(receiver.on):
        if name not in known:
            remedy = meant(name, known) or f"Known: {', '.join(known)}."
            yield Finding((*path, place), "There is no such kind of attention item.", remedy)
