"""Whatever a server sends, there is a report, in time, and it claims no more than was said."""

import asyncio
import json
import socket

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.shell.probing import BEARER, LONG_S, Bench, report_of, spec
from tests.shell.raw_server import RawServer, http

from llmao_core.probes import ReplyKind, ServedModel
from llmao_core.secret import Secret
from llmao_web.shell.probe_http import MAX_BODY_BYTES, excerpt, mask
from llmao_web.shell.probe_steps import served_models

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
MEGABYTE = b"x" * 1_000_000

BROKEN: dict[str, bytes | None] = {
    "reset": None,
    "closed": b"",
    "half a status line": b"HTTP/1.1 2",
    "half a head": HEAD + b"Content-Type: text",
    "half a body": HEAD + b"Content-Length: 100\r\n\r\nhalf",
    "not HTTP": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "a negative length": HEAD + b"Content-Length: -5\r\n\r\nx",
    "a wordy length": HEAD + b"Content-Length: many\r\n\r\nx",
    "two lengths": HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    "length and chunks": HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx",
    "bad chunks": CHUNKED + b"zz\r\nx\r\n",
    "a huge chunk size": CHUNKED + b"f" * 400 + b"\r\n",
    "one long header": HEAD + b"X: " + MEGABYTE + b"\r\n\r\n",
    "a header without colon": HEAD + b"nonsense\r\n\r\n",
    "zero bytes": b"\x00" * 1000,
    "too long": HEAD + b"Content-Length: 3000000\r\n\r\n" + MEGABYTE * 3,
    "only interim answers": b"HTTP/1.1 100 Continue\r\n\r\n" * 20,
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_answer_is_a_value(name: str) -> None:
    """Every step says that the answer was broken; a reset after connecting is no refusal."""
    async with RawServer(lambda _: BROKEN[name]).serving() as server:
        report = await report_of(spec(server.base))
    assert report.identity is not None
    assert {ReplyKind.BROKEN} == {report.health.kind, report.identity.keyless.kind}
    assert (None, ()) == (report.identity.keyed, report.identity.served)
    assert report.metrics is None


ENDLESS = {
    "headers": (HEAD, b"X-More: and more\r\n" * 4000),
    "a body": (HEAD + b"\r\n", MEGABYTE),
    "chunks": (CHUNKED, b"f4240\r\n" + MEGABYTE + b"\r\n"),
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "a status line": (b"HTTP/1.1 200 ", MEGABYTE),
}


@pytest.mark.parametrize("name", ENDLESS)
async def test_an_endless_answer_ends(name: str) -> None:
    """It is cut off by its size or by the time-out, whichever comes first."""
    first, again = ENDLESS[name]
    loop = asyncio.get_running_loop()
    async with RawServer(lambda _: first, repeat=again).serving() as server:
        started = loop.time()
        report = await report_of(spec(server.base, identity=False, metrics=False), 2.0)
        took_s = loop.time() - started
    assert report.health.kind in (ReplyKind.BROKEN, ReplyKind.TIMED_OUT)
    assert took_s < 4.0


async def test_a_dripping_answer_is_timed_out() -> None:
    """A head that came in time does not buy the body more time."""
    begun = HEAD + b"Content-Length: 100\r\n\r\nx"
    async with RawServer(lambda _: begun, close=False).serving() as server:
        report = await report_of(spec(server.base, identity=False), 0.4)
    assert (ReplyKind.TIMED_OUT, 0) == (report.health.kind, report.health.status)
    assert "HTTP 200" in report.health.said


ODD = {
    "an odd status": (b"HTTP/1.1 299 Odd\r\nContent-Length: 0\r\n\r\n", 299),
    "an unknown status": (b"HTTP/1.1 799 Odd\r\nContent-Length: 0\r\n\r\n", 799),
    "an old version": (b"HTTP/1.0 503 Down\r\n\r\n", 503),
    "no UTF-8": (http(b"\xff\xfe\x00 no", "500 Oops"), 500),
    "says gzip": (http(b"plain", "500 Oops", "Content-Encoding: gzip"), 500),
    "a redirect": (http(b"", "302 Found", "Location: http://127.0.0.1:1/"), 302),
    "a wordy redirect": (http(b"", "302 Found", "Location: \x7f://["), 302),
}


@pytest.mark.parametrize("name", ODD)
async def test_an_odd_answer_is_reported_as_it_came(name: str) -> None:
    """A status is a status, whatever else is odd."""
    answer, status = ODD[name]
    async with RawServer(lambda _: answer).serving() as server:
        report = await report_of(spec(server.base, identity=False, metrics=False))
    assert (ReplyKind.ANSWERED, status) == (report.health.kind, report.health.status)
    assert report.health.said.isprintable()


async def test_a_reason_that_is_no_text_is_survived() -> None:
    """Bytes that are no UTF-8 in the status line break that answer and nothing else."""
    answer = b"HTTP/1.1 200 \xff\xfe\r\nContent-Length: 0\r\n\r\n"
    async with RawServer(lambda _: answer).serving() as server:
        report = await report_of(spec(server.base, identity=False, metrics=False))
    assert report.health.kind in (ReplyKind.BROKEN, ReplyKind.ANSWERED)


@pytest.mark.parametrize(
    ("base", "kind"),
    [
        ("http://127.0.0.6:1", ReplyKind.REFUSED),
        ("http://localhost:1", ReplyKind.REFUSED),
        ("http://", ReplyKind.NO_ROUTE),
        ("", ReplyKind.NO_ROUTE),
        ("C.4711", ReplyKind.NO_ROUTE),
        ("http://[::1", ReplyKind.NO_ROUTE),
        ("http://127.0.0.6:99999", ReplyKind.NO_ROUTE),
        ("ftp://127.0.0.6:1", ReplyKind.NO_ROUTE),
    ],
)
async def test_what_cannot_be_reached(base: str, kind: ReplyKind) -> None:
    """Refused, no such name, or nothing that could be dialled at all."""
    report = await report_of(spec(base))
    assert kind == report.health.kind


async def test_a_name_that_is_not_found() -> None:
    """The resolver's answer is told apart from every other trouble; nothing is looked up here."""

    class NoSuchName(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            raise httpx.ConnectError("no") from socket.gaierror(socket.EAI_NONAME, "not known")

    bench = Bench(transport=NoSuchName)
    asked = spec("http://nowhere.invalid:8001")
    report = (await bench.prober.probe_once((asked,))).reports[asked.target]
    assert report.health.kind is ReplyKind.DNS


LISTS = {
    "no JSON": b"<html>",
    "no UTF-8": b"\xff\xfe\x00",
    "a list": b"[]",
    "a number": b"1",
    "no data": b"{}",
    "data is text": b'{"data": "tiny"}',
    "data is an object": b'{"data": {"id": "tiny"}}',
    "entries are text": b'{"data": ["tiny"]}',
    "ids are numbers": b'{"data": [{"id": 1}, {"id": null}, {"id": ["tiny"]}]}',
    "ids are empty": b'{"data": [{"id": ""}]}',
    "ids are endless": b'{"data": [{"id": "' + b"x" * 100_000 + b'"}]}',
    "ids break lines": b'{"data": [{"id": "a\\nb"}, {"id": "\\u202ea"}]}',
    "deep": b"[" * 100_000,
    "a long number": b'{"data": ' + b"9" * 10_000 + b"}",
}


@pytest.mark.parametrize("name", LISTS)
async def test_a_list_of_models_that_is_none(name: str) -> None:
    """401 and then nonsense is a broken answer, which names no model and gets no more bearers."""

    def respond(request: bytes) -> bytes:
        with_bearer = b"authorization" in request.lower()
        return http(LISTS[name]) if with_bearer else http(b"", "401 Unauthorized")

    async with RawServer(respond).serving() as server:
        report = await report_of(spec(server.base))
    assert report.identity is not None
    assert report.identity.keyed is not None
    assert (ReplyKind.BROKEN, ()) == (report.identity.keyed.kind, report.identity.served)
    assert report.metrics is None


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"id": "a", "root": "/r", "max_model_len": 8}, ServedModel("a", "/r", 8)),
        ({"id": "a"}, ServedModel("a")),
        ({"id": "a", "root": 5, "max_model_len": "8"}, ServedModel("a")),
        ({"id": "a", "max_model_len": True}, ServedModel("a")),
        ({"id": "a", "max_model_len": -1}, ServedModel("a")),
        ({"id": "a", "max_model_len": 8.0}, ServedModel("a")),
        ({"id": "a", "max_model_len": 10**30}, ServedModel("a")),
        ({"id": "org/task-sk-model"}, ServedModel("org/task-sk-model")),
    ],
)
def test_an_entry_keeps_what_makes_sense(entry: dict[str, object], expected: ServedModel) -> None:
    """A name is a name; a length that is none is unknown."""
    body = json.dumps({"data": [entry, None, 7]}).encode()
    assert (expected,) == served_models(body, BEARER)


def test_an_empty_list_serves_nothing() -> None:
    """It is a list of models all the same."""
    assert () == served_models(b'{"data": []}', BEARER)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["data", "id", "root", "max_model_len"]), inner)
    ),
)


@given(JSON.map(lambda value: json.dumps(value).encode()) | st.binary())
def test_any_body_is_read(body: bytes) -> None:
    """Never an exception, and nothing but whole names."""
    served = served_models(body, BEARER)
    assert all(model.id and model.id.isprintable() for model in served or ())


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_make_a_report(answer: bytes, as_http: bool) -> None:
    """Random bytes, as they are or after a good status line."""

    async def probe() -> ReplyKind:
        sent = HEAD + answer if as_http else answer
        async with RawServer(lambda _: sent).serving() as server:
            return (await report_of(spec(server.base), LONG_S)).health.kind

    assert asyncio.run(probe()) in (ReplyKind.BROKEN, ReplyKind.ANSWERED)


@given(st.text(), st.text(), st.integers(0, 9000))
def test_an_excerpt_is_short_and_holds_no_bearer(before: str, after: str, pad: int) -> None:
    """Wherever the bearer stands, no part of it that is long enough to matter is left."""
    said = mask(" " * pad + before + BEARER.reveal() + after, BEARER)
    assert "sk-vllm" not in said.replace(before, "").replace(after, "")
    assert len(said) <= 200


@pytest.mark.parametrize("pad", [3980, 3995, 7980, 7995, 31_980, 31_995])
def test_half_a_bearer_is_not_left_where_reading_ends(pad: int) -> None:
    """A bearer of another make, cut by the end of what is read, leaves no piece."""
    body = b" " * pad + b"legacy-0123456789abcdef and more"
    assert "legacy" not in excerpt(body, Secret("legacy-0123456789abcdef"))


def test_the_cap_is_a_megabyte() -> None:
    """What is read of one answer is bounded."""
    assert MAX_BODY_BYTES == 1_000_000
