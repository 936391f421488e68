"""The log: one line for each event, and no secret in any."""

import asyncio
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from attrs import evolve

from llmao_core.config import GpuProvider
from llmao_core.secret import Secret
from llmao_web.logs import MASK, TOGETHER_S, Mask, configure
from llmao_web.shell.secrets_in import secrets_in

from .worlds import FLEET_KEY, OLD_KEY, SALT, fleet


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Counting(io.StringIO):
    """A stream that counts its writes."""

    writes = 0

    def write(self, text: str) -> int:
        self.writes += 1
        return super().write(text)


LAST_WORDS = """
import asyncio, structlog
from llmao_web.logs import Mask, configure
configure(Mask())
log = structlog.get_logger()
async def main():
    log.info("in the loop")
asyncio.run(main())
log.info("after it")"""


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    """Leave logging as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:], root.level = handlers, level


def refuse(local: str) -> None:
    raise ValueError(f"refused s3cret-value {len(local)}")


def log_to(stream: io.StringIO, *secrets: str) -> Any:
    mask = Mask()
    mask.learn([Secret(secret) for secret in secrets])
    configure(mask, stream)
    return structlog.get_logger("test")


def test_lines_are_json_when_nobody_is_watching() -> None:
    """One object for each event, with level and time."""
    out = io.StringIO()
    log_to(out).info("box fetch", host="a", status=200)
    line = json.loads(out.getvalue())
    assert ("box fetch", "a", 200, "info") == tuple(
        line[name] for name in ("event", "host", "status", "level")
    )
    assert line["timestamp"].endswith("Z")


def test_lines_are_readable_on_a_terminal() -> None:
    """No JSON, the same facts."""
    out = Terminal()
    log_to(out).info("box fetch", host="a")
    assert "box fetch" in out.getvalue()
    assert "{" not in out.getvalue()


LEAKS: list[dict[str, Any]] = [
    {"event": "s3cret-value"},
    {"event": "x", "field": "before s3cret-value after"},
    {"event": "x", "field": {"deep": ["s3cret-value"]}},
    {"event": "x", "field": b"s3cret-value"},
    {"event": "x", "field": "https://x/?key=s3cret-value"},
    {"event": "x", "s3cret-value": 1},
]


@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_configured_secret_is_masked_wherever_it_stands(
    leak: dict[str, Any], stream: type[io.StringIO]
) -> None:
    """In messages, fields, keys, however deep."""
    out = stream()
    log_to(out, "s3cret-value").info(**leak)
    assert "s3cret-value" not in out.getvalue()
    assert out.getvalue()


@pytest.mark.parametrize("secret", ['quo"te\\back', "schlüssel→", "a/b+c d", "line\nbreak"])
def test_a_secret_is_masked_however_it_is_spelt(secret: str) -> None:
    """JSON, repr and URL change its letters."""
    out = io.StringIO()
    log = log_to(out, secret)
    log.info("x", plain=secret, shown=repr(secret), nested=json.dumps(secret))
    for spelling in (secret, json.dumps(secret)[1:-1], repr(secret)[1:-1]):
        assert spelling not in out.getvalue()


def test_a_secret_in_an_exception_is_masked_and_locals_are_not_shown() -> None:
    """Tracebacks are text too."""
    for out in (io.StringIO(), Terminal()):
        log = log_to(out, "s3cret-value")
        try:
            refuse("local-" + "variable")
        except ValueError:
            log.exception("it failed")
        assert "ValueError: refused" in out.getvalue()
        assert "s3cret-value" not in out.getvalue()
        assert "local-variable" not in out.getvalue()


def test_authorization_is_never_logged() -> None:
    """As a field, in headers of either shape, or in a sentence; a bearer of ours by its shape."""
    out = io.StringIO()
    log = log_to(out)
    log.info("x", Authorization="Bearer abc1", headers={"authorization": "Basic abc2"})
    log.info("x", headers=[(b"Authorization", b"Bearer abc3"), ("host", "h")])
    log.info("sent Authorization: Bearer abc4, and sk-vllm-abc5abc5abc5 as well")
    assert not [each for each in ("abc1", "abc2", "abc3", "abc4", "abc5") if each in out.getvalue()]
    assert '"host"' in out.getvalue()


def test_a_secret_object_is_masked_unlearnt() -> None:
    """Even one that no configuration has."""
    out = io.StringIO()
    log_to(out).info("x", key=Secret("never-learnt"), more=[Secret("never-learnt")])
    assert [MASK, [MASK]] == [json.loads(out.getvalue())[name] for name in ("key", "more")]


def test_the_standard_library_logs_the_same_way() -> None:
    """Servers and clients are masked too."""
    out = io.StringIO()
    log_to(out, "s3cret-value")
    logging.getLogger("uvicorn.error").warning("refused %s", "s3cret-value")
    assert f"refused {MASK}" == json.loads(out.getvalue())["event"]


def test_chatty_libraries_are_quiet() -> None:
    """httpx logs every URL, and a provider's may hold a key."""
    out = io.StringIO()
    log_to(out)
    logging.getLogger("httpx").info("HTTP Request: GET https://x/?api_key=1")
    assert "" == out.getvalue()


def test_every_secret_of_a_configuration_is_found() -> None:
    """Keys in lists, provider keys, and what stands in a plugin's own section."""
    provider = GpuProvider("vast", Secret("vast-key"), section={"deep": [{"x": Secret("inside")}]})
    config = evolve(fleet(), gpu_providers=(provider,))
    found = {secret.reveal() for secret in secrets_in(config)}
    assert {FLEET_KEY, OLD_KEY, SALT, "vast-key", "inside"} <= found


def test_a_short_value_is_not_searched_for() -> None:
    """Masking every `a` would leave no log to read."""
    mask = Mask()
    mask.learn([Secret(""), Secret("a")])
    assert "a b" == mask.text("a b")


async def test_lines_said_together_are_written_together_and_in_order() -> None:
    """One write for what both loggers say within a moment, and none is lost."""
    out = Counting()
    log = log_to(out)
    log.info("first")
    logging.getLogger("other").warning("second")
    log.info("third")
    assert "" == out.getvalue()
    async with asyncio.timeout(10):
        while not out.writes:
            await asyncio.sleep(TOGETHER_S)
    said = [json.loads(line)["event"] for line in out.getvalue().splitlines()]
    assert (["first", "second", "third"], 1) == (said, out.writes)


def test_the_last_lines_are_written_when_the_process_ends() -> None:
    """Whatever ends the loop, and whoever speaks after it."""
    done = subprocess.run(
        [sys.executable, "-c", LAST_WORDS], check=True, capture_output=True, text=True
    )
    assert ["in the loop", "after it"] == [
        json.loads(line)["event"] for line in done.stderr.splitlines()
    ]


def test_the_last_line_of_all_may_be_said_in_the_loop() -> None:
    """Nothing follows it, so that only the end of the process writes it."""
    words = LAST_WORDS.rpartition("\n")[0]
    done = subprocess.run([sys.executable, "-c", words], check=True, capture_output=True, text=True)
    assert "in the loop" == json.loads(done.stderr)["event"]


async def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    """A full disk is no reason to leave a box without an answer, or to say so without end."""
    out = Counting()
    log = log_to(out)
    out.close()
    log.info("lost")
    await asyncio.sleep(2 * TOGETHER_S)
    log.info("lost too")
