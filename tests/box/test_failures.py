"""Every failure of the runbook's table, provoked: what the box says, and what llmao knows of it."""

import json
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.web.worlds import FLEET_KEY, FakeDesk, desk_of, fleet

from llmao_core.config import Host, HostRow
from llmao_core.protocol import Unknown, WrongKey
from llmao_web.limit import BURST

from .lab import HOST, Machine, Served, TooLongError, answer, box_fleet, free_ports, llmao, scripted


def reply(*servers: Any) -> tuple[int, dict[str, str], bytes]:
    return 200, {"ETag": '"r1-abc"'}, answer(*servers)


# ---- asking


def test_a_wrong_key_stops_it(machine: Machine, served: Served) -> None:
    """403: no second try, and llmao counts who it was."""
    machine.set("FLEET_KEY", "another-key")
    code, said = machine.install()
    assert (1, []) == (code, machine.sleeps.waits)
    assert "refused: 403: The fleet key is missing or wrong: check FLEET_KEY." in said
    assert [WrongKey("127.0.0.1", HOST)] == served.desk.events
    assert "another-key" not in said


def test_many_wrong_keys_are_waited_out(machine: Machine, served: Served) -> None:
    """429: as long as Retry-After says; the limit never hits the right key."""
    machine.set("FLEET_KEY", "another-key")
    for _ in range(BURST):
        machine.install()
    machine.sleeps.most = 1
    with pytest.raises(TooLongError):
        machine.install()
    asked = machine.sleeps.waits[0]
    assert 0 < asked <= 3600
    assert int(asked) == asked
    machine.set("FLEET_KEY", FLEET_KEY)
    assert 0 == machine.install("--check")[0] - 3


def test_an_unknown_box_waits_until_it_is_approved(machine: Machine) -> None:
    """404: 30 s, backing off to 5 min; approval needs nobody on the box."""
    config = fleet(hosts=())
    desk = desk_of(config)

    def approve(waits: int) -> None:
        if waits == 6:
            approved = desk_of(box_fleet())
            desk.what, desk.told = approved.what, approved.told

    machine.sleeps.then = approve
    with llmao(desk, config) as running:
        machine.set("LLMAO_URL", running.url)
        code, said = machine.install()
    assert 0 == code
    assert [Unknown(HOST)] * 6 == [each for each in desk.events if isinstance(each, Unknown)]
    waits, expected = machine.sleeps.waits[:6], [30, 60, 120, 240, 300, 300]
    assert all(low <= wait <= 1.2 * low for low, wait in zip(expected, waits, strict=True))
    assert f"404: No host named {HOST!r}" in said
    assert "Approve it in llmao" in said
    assert ["qwen3-8b"] == list(machine.programs())


def test_llmao_down_is_waited_for(machine: Machine) -> None:
    """Nobody answers: again after 5 s, backing off to 5 min, for as long as it takes."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    machine.set("LLMAO_URL", f"http://127.0.0.1:{port}")
    with pytest.raises(TooLongError):
        machine.install()
    assert "cannot be reached (" in machine.capsys.readouterr().out
    waits = machine.sleeps.waits
    assert 5 <= waits[0] <= 6
    assert 300 <= waits[-1] <= 360


@pytest.mark.parametrize(
    ("status", "headers", "waits"),
    [
        (503, {"Retry-After": "7"}, 7.0),
        (429, {"Retry-After": "9"}, 9.0),
        (429, {"Retry-After": "99999"}, 3600.0),
        (503, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        (500, {}, None),
        (502, {}, None),
        (200, {}, None),
    ],
)
def test_what_passes_is_waited_out(
    machine: Machine, status: int, headers: dict[str, str], waits: float | None
) -> None:
    """As told, else 5 s; a page of a proxy in the place of an answer is no answer."""
    with scripted((status, headers, b"<html>"), reply()) as (url, _):
        machine.set("LLMAO_URL", url)
        assert 0 == machine.install()[0]
    [waited] = machine.sleeps.waits
    assert waited == waits if waits else 5 <= waited <= 6


@pytest.mark.parametrize("status", [400, 401, 403, 405, 418])
def test_what_does_not_pass_stops_it(machine: Machine, status: int) -> None:
    """With llmao's own sentence, cleaned and cut."""
    error = json.dumps({"error": {"code": "x", "message": "No.\x1b[31m" + "x" * 900}}).encode()
    with scripted((status, {}, error)) as (url, _):
        machine.set("LLMAO_URL", url)
        code, said = machine.install()
    assert (1, []) == (code, machine.sleeps.waits)
    assert f"refused: {status}: No.?[31mxxx" in said
    assert len(said) < 400


def test_the_key_does_not_follow_a_redirect(machine: Machine) -> None:
    """To wherever it leads."""
    with (
        scripted((200, {}, b"")) as (elsewhere, thief),
        scripted((302, {"Location": f"{elsewhere}/vllm/config"}, b"")) as (url, _),
    ):
        machine.set("LLMAO_URL", url)
        code, said = machine.install()
    assert (1, []) == (code, thief.seen)
    assert "LLMAO_URL leads elsewhere" in said


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate for 127.0.0.1 that nobody has signed, and what serves with it."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out",
         certificate],
        check=True,
        capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context


def test_tls_that_does_not_verify_is_never_spoken_to(
    machine: Machine, certificate: tuple[Path, ssl.SSLContext]
) -> None:
    """Waited for like an outage; nothing is sent, and nothing turns the check off."""
    machine.sleeps.most = 2
    with scripted(reply(), tls=certificate[1]) as (url, script):
        machine.set("LLMAO_URL", url)
        with pytest.raises(TooLongError):
            machine.install()
    assert "the certificate of 127.0.0.1 does not verify (self" in machine.capsys.readouterr().out
    assert [] == script.seen


def test_a_private_authority_can_be_named(
    machine: Machine, certificate: tuple[Path, ssl.SSLContext]
) -> None:
    """As everywhere, with SSL_CERT_FILE."""
    machine.set("SSL_CERT_FILE", str(certificate[0]))
    with scripted(reply(), tls=certificate[1]) as (url, script):
        machine.set("LLMAO_URL", url)
        assert (0, []) == (machine.install()[0], machine.sleeps.waits)
    assert ["GET", "HEAD"] == [asked[0] for asked in script.seen]


def test_what_a_box_says_of_itself(machine: Machine) -> None:
    """Key and name; no name where it has none, and then llmao looks at the address."""
    with scripted(reply()) as (url, script):
        machine.set("LLMAO_URL", url + "/below/")
        machine.set("LLMAO_HOST", " C.4711\n")
        machine.install()
        machine.set("LLMAO_HOST", "")
        machine.install()
    assert ["C.4711", "C.4711", None, None] == [
        headers.get("X-LLMAO-Host") for _, _, headers, _ in script.seen
    ]
    assert {"/below/vllm/config"} == {path for _, path, _, _ in script.seen}
    assert {f"Bearer {FLEET_KEY}"} == {each[2]["Authorization"] for each in script.seen}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("FLEET_KEY", "", "FLEET_KEY is not set"),
        ("FLEET_KEY", "CHANGE_ME", "FLEET_KEY is not set"),
        ("FLEET_KEY", "a\nX-Other: b", "FLEET_KEY is not set"),
        ("LLMAO_HOST", "a\rb", "LLMAO_HOST is no name"),
        ("LLMAO_URL", "", "LLMAO_URL must be like"),
        ("LLMAO_URL", "llm.example.org", "LLMAO_URL must be like"),
        ("LLMAO_URL", "ftp://llm.example.org", "LLMAO_URL must be like"),
        ("LLMAO_URL", "https://user:pass@llm.example.org", "LLMAO_URL must be like"),
        ("LLMAO_URL", "https://llm.example.org:x", "LLMAO_URL is no address"),
        ("LLMAO_URL", "http://llm.example.org", "LLMAO_URL must be https"),
        ("LLMAO_URL", "http://127.0.0.1.example.org", "LLMAO_URL must be https"),
        ("LLMAO_URL", "http://10.0.0.7", "LLMAO_URL must be https"),
        ("PATH", "/nowhere", "there is no vllm on PATH"),
    ],
)
def test_a_template_that_lacks_something(
    machine: Machine, name: str, value: str, said: str
) -> None:
    """Said at once, by the name of what is missing."""
    machine.set("LLMAO_URL", "http://127.0.0.1:9")
    machine.set(name, value)
    code, told = machine.install()
    assert (1, []) == (code, machine.sleeps.waits)
    assert f"refused: {said}" in told
    assert "pass@" not in told


def test_all_that_a_template_lacks_is_said_at_once(machine: Machine) -> None:
    """Nobody starts a rented box three times to learn of three settings."""
    for name in ("LLMAO_URL", "FLEET_KEY"):
        machine.set(name, "")
    machine.set("PATH", "/nowhere")
    _, told = machine.install()
    assert 3 == sum(one in told for one in ("LLMAO_URL must", "FLEET_KEY is", "no vllm on PATH"))


def test_an_older_template_is_understood(machine: Machine) -> None:
    """It calls the address by another name."""
    with scripted(reply()) as (url, _):
        machine.set("ASFQUART_URL", url)
        assert 0 == machine.install()[0]


def test_keys_in_any_script(machine: Machine) -> None:
    """A fleet key need not be ASCII; it is sent as UTF-8."""
    machine.set("FLEET_KEY", "schlüssel→")
    with scripted(reply()) as (url, script):
        machine.set("LLMAO_URL", url)
        assert 0 == machine.install()[0]
    sent = script.seen[0][2]["Authorization"]
    assert "Bearer schlüssel→" == sent.encode("latin-1").decode()


# ---- fitting


def big_fleet(**recipe: Any) -> FakeDesk:
    return desk_of(box_fleet(**recipe))


def refused(machine: Machine, desk: FakeDesk, *options: str) -> str:
    """Return what the installer says; it must have refused and changed nothing."""
    with llmao(desk, fleet()) as running:
        machine.set("LLMAO_URL", running.url)
        code, said = machine.install(*options)
    assert 1 == code
    assert {} == machine.programs()
    assert not (machine.data / "llmao-revision").exists()
    return said


def test_a_disk_too_small(machine: Machine) -> None:
    """Before a byte of weights is pulled, with need and have."""
    said = refused(machine, big_fleet(disk_gb=900_000))
    assert "this does not fit here:\n  disk " in said
    assert "needs 900000.0 GB more; " in said
    assert f"GB are free in {machine.folder}" in said


def test_what_is_in_the_cache_needs_no_disk(machine: Machine) -> None:
    """A second boot on a full disk is no failure."""
    blobs = machine.data / "huggingface/hub/models--Qwen--Qwen3-8B/blobs"
    blobs.mkdir(parents=True)
    with (blobs / "aa").open("wb") as weights:
        weights.truncate(2_000_000_000)
    free = "needs 899998.0 GB more; "
    assert free in refused(machine, big_fleet(disk_gb=900_000))


def test_a_card_too_small(machine: Machine) -> None:
    """With need and have."""
    said = refused(machine, big_fleet(vram_gb=60))
    assert "qwen3-8b                 needs 60.0 GB; the largest card has 23.7 GB to share" in said


def test_more_cards_than_there_are(machine: Machine) -> None:
    """Tensor parallel over what is not there."""
    said = refused(machine, big_fleet(args=("--tensor-parallel-size", "2")))
    assert "needs 2 free cards" in said


def test_no_nvidia_smi_is_a_warning(machine: Machine, served: Served) -> None:
    """A machine of our own may have other cards."""
    (machine.bin / "nvidia-smi").unlink()
    code, said = machine.install()
    assert 0 == code
    assert "warning: there is no nvidia-smi" in said
    assert "CUDA_VISIBLE_DEVICES" not in machine.programs()["qwen3-8b"]


def test_an_nvidia_smi_that_knows_no_memory_is_a_warning(machine: Machine, served: Served) -> None:
    """Some cards share the machine's memory."""
    machine.program("nvidia-smi", "#!/bin/sh\necho '0, [N/A]'\n")
    code, said = machine.install()
    assert (0, True) == (code, "warning: nvidia-smi tells no memory" in said)


@pytest.mark.parametrize("answers", ["echo broken driver; exit 9", "exit 0"])
def test_an_nvidia_smi_that_fails_is_a_failure(machine: Machine, answers: str) -> None:
    """The cards are there and cannot be used: no vLLM would start."""
    machine.program("nvidia-smi", f"#!/bin/sh\n{answers}\n")
    assert "nvidia-smi failed: " in refused(machine, big_fleet())


def test_a_port_that_is_taken(machine: Machine) -> None:
    """As by the nginx of RunPod's own images on 8001."""
    with socket.create_server(("0.0.0.0", 0)) as other:
        port = other.getsockname()[1]
        host = Host(HOST, (HostRow("qwen3-8b", port, "qwen3-8b"),))
        said = refused(machine, desk_of(fleet(hosts=(host,), listen_ports=(port,))))
    assert f"needs port {port}; another program has it" in said


def test_a_port_that_is_bound_and_does_not_listen(machine: Machine) -> None:
    """A vLLM that loads: started beside it, the second would be deaf for ever."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("0.0.0.0", 0))
        port = other.getsockname()[1]
        host = Host(HOST, (HostRow("qwen3-8b", port, "qwen3-8b"),))
        said = refused(machine, desk_of(fleet(hosts=(host,), listen_ports=(port,))))
    assert f"needs port {port}" in said


def test_weights_that_are_not_there(machine: Machine) -> None:
    """A local model is a folder that must exist."""
    with scripted(reply({"model": "/no/such/model", "source": {"kind": "local"}})) as (url, _):
        machine.set("LLMAO_URL", url)
        code, said = machine.install()
    assert (1, True) == (code, "needs the folder /no/such/model" in said)


def test_everything_that_does_not_fit_is_told_at_once(machine: Machine) -> None:
    """One rented box, one look."""
    one = {"vram_gb": 500, "disk_gb": 900_000}
    with scripted(reply(one, {"args": ["-tp", "8"]})) as (url, _):
        machine.set("LLMAO_URL", url)
        _, said = machine.install()
    assert 4 == len(said[said.index("refused") :].splitlines())


# ---- names, arguments and keys that bite

HARD = [
    "a b",
    "100%",
    "it's",
    'say "x"',
    "a ;b",
    "a #b",
    "ünïcødé 名前",
    "--x=%(ENV_HOME)s",
    "back\\",
]


def test_hard_arguments_and_keys_arrive(machine: Machine) -> None:
    """Blanks, `%`, quotes, `;` and unicode, through file and shell to vLLM's own arguments."""
    key = "sk-a%%20,1 x;y#z=="
    with scripted(reply({"args": HARD, "api_key": key, "port": free_ports(1)[0]})) as (url, _):
        machine.set("LLMAO_URL", url)
        with machine.supervisord():
            code, said = machine.install()
            assert 0 == code, said
            log = machine.data / "logs" / "s0.log"
            for _ in range(100):
                if "stub" in (log.read_text() if log.exists() else ""):
                    break
                threading.Event().wait(0.1)
            environ = Path(f"/proc/{machine.pid('vllm-s0')}/environ").read_bytes()
    assert repr(HARD)[1:] in log.read_text()
    assert f"\0VLLM_API_KEY={key}\0".encode() in b"\0" + environ
    assert key not in said + log.read_text()


def test_a_key_that_cannot_be_told_is_refused(machine: Machine) -> None:
    """And not printed, on the way."""
    secret = 'sk-with"quote'
    with scripted(reply({"api_key": secret})) as (url, _):
        machine.set("LLMAO_URL", url)
        code, said = machine.install()
    assert (1, True) == (code, "change fleet.selfhost_api_key" in said)
    assert secret not in said
