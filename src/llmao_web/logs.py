"""How llmao logs: structlog for all, JSON lines for machines and readable lines on a terminal.

Rule of this file: no secret gets through. `Secret` objects and Authorization headers are masked
where they stand, and every finished line is searched for the configured values.
"""

import asyncio
import atexit
import contextlib
import json
import logging
import re
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, TextIO, cast
from urllib.parse import quote

import structlog
from litestar.exceptions import SerializationException
from litestar.serialization import encode_json
from structlog.typing import EventDict, Processor, WrappedLogger

from llmao_core.secret import Secret

from .shell.secrets_in import secrets_in

MASK = "•••"
# A fleet that boots says thousands of lines a second, and a write of its own for each costs as
# much as the answer to the box.
TOGETHER_S = 0.02
_SHORTEST = 4
_SHAPES = (r"sk-vllm-[A-Za-z0-9_-]{8,}", r"(?i:\bbearer\s+)(?!\(HTTP \d)[^\s\"',]+")
_HIDDEN = ("authorization", "proxy-authorization")
_LENGTHS = frozenset(map(len, _HIDDEN))
_PLAIN = frozenset({str, int, float, bool, type(None)})
_QUIET = ("httpx", "httpcore", "asyncio", "uvicorn.access")


class Mask:
    """Takes known secret values out of text; learns more of them as configuration is reloaded."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._pattern = _pattern(self._values)

    def learn(self, source: object) -> None:
        """Remember every secret in a record such as Config; shorter than 4 characters is none."""
        for secret in secrets_in(source):
            self._values |= _spellings(secret.reveal())
        self._pattern = _pattern(self._values)

    def text(self, text: str) -> str:
        """Return the text without any secret known."""
        # a plain search costs a tenth of the pattern, and nearly every line is clean
        lower = text.lower()
        if "sk-vllm-" in lower or "bearer" in lower or any(each in text for each in self._values):
            return self._pattern.sub(MASK, text)
        return text


class Together:
    """A stream that writes in one piece what is said within TOGETHER_S.

    Where no event loop runs it writes right away, and what is left when the process ends. A log
    that cannot be written stops nothing.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._waiting: deque[str] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        atexit.register(self.write_out)

    def write(self, text: str) -> int:
        """Take some text; it stands in the stream TOGETHER_S later."""
        self._waiting.append(text)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.write_out()
            return len(text)
        if loop is not self._loop:
            self._loop = loop
            loop.call_later(TOGETHER_S, self.write_out)
        return len(text)

    def flush(self) -> None:
        """Do nothing: whoever logs flushes each line."""

    def write_out(self) -> None:
        """Write everything that waits."""
        self._loop = None
        texts: list[str] = []
        with contextlib.suppress(IndexError):  # another thread may take the last one
            while self._waiting:
                texts.append(self._waiting.popleft())
        with contextlib.suppress(OSError, ValueError):
            self._stream.write("".join(texts))
            self._stream.flush()


def configure(mask: Mask, stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Set up structlog and the standard library's logging for the whole process.

    stream: standard error when None. Lines are JSON unless the stream is a terminal.
    """
    given = stream or sys.stderr
    out = cast("TextIO", Together(given))
    render = [*_rendering(terminal=given.isatty()), _masked_by(mask)]
    shared: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        mask_event,
    ]
    structlog.configure(
        processors=[*shared, *render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(out),
    )
    _configure_standard(out, level, shared, render)


def _configure_standard(
    out: TextIO, level: int, shared: list[Processor], render: list[Processor]
) -> None:
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _rendering(*, terminal: bool) -> list[Processor]:
    if terminal:
        plain = structlog.dev.plain_traceback  # the default prints local variables
        return [structlog.dev.ConsoleRenderer(exception_formatter=plain)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(_json)]


def mask_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Mask Secret objects and Authorization headers, however deep they stand."""
    for name, value in event.items():
        if type(value) not in _PLAIN or (len(name) in _LENGTHS and _is_authorization(name)):
            event[name] = _masked(name, value)
    return event


def _masked(name: object, value: Any) -> Any:
    if _is_authorization(name) or isinstance(value, Secret):
        return MASK
    if isinstance(value, Mapping):
        return {str(key): _masked(key, each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        pair = len(value) == 2 and _is_authorization(value[0])
        return [value[0], MASK] if pair else [_masked("", each) for each in value]
    return value


def _is_authorization(name: object) -> bool:
    if isinstance(name, bytes):
        name = name.decode("latin-1")
    return isinstance(name, str) and name.lower() in _HIDDEN


def _json(event: EventDict, **given: Any) -> str:
    """Encode quickly, or with what structlog gives for things that JSON has no word for."""
    try:
        return encode_json(event).decode()
    except SerializationException:
        return json.dumps(event, **given)


def _masked_by(mask: Mask) -> Processor:
    def mask_line(_logger: WrappedLogger, _method: str, line: Any) -> str:
        return mask.text(str(line))

    return mask_line


def _spellings(value: str) -> set[str]:
    """Return a value as it stands, in JSON, in a repr and in a URL."""
    if len(value) < _SHORTEST:
        return set()
    as_json = (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    return {value, *as_json, repr(value)[1:-1], quote(value, safe="")}


def _pattern(values: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(values, key=lambda value: (-len(value), value))
    return re.compile("|".join([*_SHAPES, *map(re.escape, longest_first)]))
