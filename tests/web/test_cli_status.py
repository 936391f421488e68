"""`llmao status` and `llmao hash-password`."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from argon2 import PasswordHasher
from attrs import evolve
from click.testing import CliRunner, Result

from llmao_core.config import AuthConfig, Config, ServerConfig
from llmao_core.errors import LlmaoError
from llmao_web.app import create_app
from llmao_web.cli import main
from llmao_web.commands import status as status_command
from llmao_web.commands.moments import shown
from llmao_web.commands.serve import listen, url_of
from llmao_web.commands.status import Place, place_of

from .signing import ADMIN_TOKEN, READ_TOKEN, config_of
from .worlds import NOW, FakeDesk, a_plan, a_view, desk_of

ENV = {"LITELLM_MASTER_KEY": "sk-master"}
OPEN = config_of(AuthConfig("open"), public_url="")


def run(*args: object, env: dict[str, str] | None = None, **given: Any) -> Result:
    return CliRunner().invoke(
        main, [str(each) for each in args], env={**ENV, **(env or {})}, **given
    )


class Running:
    """llmao's web on a loopback port, in a thread, with a desk that a test fills."""

    def __init__(self, config: Config) -> None:
        self.desk: FakeDesk = desk_of(config)
        self.desk.seen, self.desk.planned = a_view(), a_plan()
        self.listening = listen("127.0.0.1", 0)
        self.url = url_of(self.listening)
        app = create_app(self.desk, config, self.desk.clock)
        self.server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
        self.thread = threading.Thread(
            target=self.server.run, kwargs={"sockets": [self.listening]}, daemon=True
        )

    def __enter__(self) -> "Running":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.listening.close()


@pytest.fixture(scope="module")
def guarded() -> Iterator[Running]:
    """Return an llmao that wants a token."""
    with Running(config_of()) as running:
        yield running


def token(text: str) -> dict[str, str]:
    return {"LLMAO_TOKEN": text}


def test_work_that_is_needed_is_said() -> None:
    """Exit 2, in lines with tabs when piped; in mode open nobody is asked for a token."""
    with Running(OPEN) as running:
        result = run("status", "--url", running.url)
        assert (2, "") == (result.exit_code, result.stderr)
        first, *lines = result.stdout.splitlines()
        assert f"# llmao at {running.url}, fleet main, {shown(NOW - 3)}" == first
        assert "MODEL\tSTATUS\tREPLICAS\tCONTEXT" == lines[0]
        assert "gemma4-26b\tAvailable\t1 healthy of 1\t32768" in lines
        worst_first = ["qwen3-8b", "gemma4-26b", "claude-x", "spare"]
        assert worst_first == [line.split("\t")[0] for line in lines[1:5]]
        assert "source runpod is stale: RunPod refused the key." in lines
        told = lines.index("! Nobody can call qwen3-8b.")
        remedy = running.desk.seen.items[0].remedy if running.desk.seen else ""
        assert f"    What to do: {remedy}" == lines[told + 1]
        assert "Work needed: 2." == lines[-1]
        running.desk.seen = evolve(a_view(), items=())
        calm = run("status", "--url", running.url)
        assert (0, "Nothing needs you.") == (calm.exit_code, calm.stdout.splitlines()[-1])


def test_a_model_that_orphans_serve_is_no_model_that_is_placed_nowhere() -> None:
    """Its callers are served, so it stands among the others by how it is."""
    order = [
        {"availability": "Unavailable", "replicas": {"deployments": ["x"]}},
        {"availability": "Degraded", "replicas": {"deployments": []}},
        {"availability": "Available", "replicas": {"deployments": ["y"]}},
        {"availability": "Unavailable", "replicas": {"deployments": []}},
    ]
    other_way = order[::-1]
    other_way.sort(key=status_command._how_bad)
    assert order == other_way


def test_an_llmao_of_another_fleet_is_warned_of(tmp_path: Path) -> None:
    """A fresh folder has the default port, and so has a demo: its answer is not about this one."""
    with Running(OPEN) as running:
        port = running.listening.getsockname()[1]
        for fleet, warned in (("fleet: {name: mine}", True), ("", False), ("fleet: 3", False)):
            path = configured(tmp_path, f"server: {{port: {port}}}\n{fleet}\n")
            result = run("status", "-c", path)
            assert (2, warned) == (result.exit_code, "warning: " in result.stderr), result.stderr
            if warned:
                assert f"{running.url} has the fleet main, and {path}" in result.stderr
                assert "names the fleet mine" in result.stderr
            assert "warning" not in result.stdout
        asked = run("status", "-c", path, "--url", running.url)
        assert "" == asked.stderr


def test_json_is_the_view(guarded: Running) -> None:
    """The same as the API answers."""
    result = run("status", "--json", "--url", guarded.url, env=token(ADMIN_TOKEN))
    assert 2 == result.exit_code
    view = json.loads(result.stdout)
    assert (5, "main", NOW - 3) == (len(view["deployments"]), view["fleet"], view["at"])


@pytest.mark.parametrize(
    ("env", "said"),
    [({}, "LLMAO_TOKEN"), (token("wrong"), "LLMAO_TOKEN"), (token(READ_TOKEN), "role admin")],
)
def test_a_token_that_does_not_do_is_said(guarded: Running, env: dict[str, str], said: str) -> None:
    """Exit 1, with what to do and without the token."""
    result = run("status", "--url", guarded.url, env=env)
    assert 1 == result.exit_code
    assert said in result.stderr
    assert not [each for each in env.values() if each in result.stderr]


def test_an_llmao_that_is_not_there_is_said() -> None:
    """Exit 1; so is one that has not finished a pass, or something else that answers there."""
    listening = listen("127.0.0.1", 0)
    url = url_of(listening)
    listening.close()
    gone = run("status", "--url", url)
    assert (1, True) == (gone.exit_code, f"No llmao answers at {url} (" in gone.stderr)
    assert "`llmao serve`" in gone.stderr
    with Running(OPEN) as running:
        running.desk.seen = None
        early = run("status", "--url", running.url)
        assert (1, True) == (early.exit_code, "first pass" in early.stderr)
        other = run("status", "--url", f"{running.url}/static/llmao.css")
        assert (1, True) == (other.exit_code, "404" in other.stderr)


@pytest.mark.parametrize(
    "view",
    [
        None,
        [],
        {},
        {"models": [], "items": [], "sources": 3},
        {"models": [1], "items": [], "sources": [], "at": 1, "fleet": "main"},
        {"models": [], "items": [], "sources": [], "at": 1},
        {"models": [], "items": [], "sources": [], "at": None, "fleet": "main"},
    ],
)
def test_an_answer_that_is_no_view_is_refused(view: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever listens there."""
    import httpx

    monkeypatch.setattr(httpx, "get", lambda *_, **__: httpx.Response(200, json=view))
    with pytest.raises(LlmaoError, match=r"at http://127\.0\.0\.1:1 is not llmao"):
        status_command.ask(Place("http://127.0.0.1:1"))


def test_what_is_printed_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    """Names come from listings, and whoever rents there can choose them."""
    item = {"kind": "down", "sentence": "\x1b[2Jgone", "remedy": "\x1b[2Jlook"}
    source = {"name": "vast\x1b[1m", "state": "stale", "trouble": None}
    model = {"name": "m\x07", "availability": "A", "replicas": None, "context": None}
    status_command.show({"models": [model], "items": [item], "sources": [source]})
    assert not {"\x1b", "\x07"} & set(capsys.readouterr().out)


@pytest.mark.parametrize(
    "url", ["http://llm.example.org", "ftp://x", "x", "https://u:p@llm.example.org", "https://x/?a"]
)
def test_a_token_is_never_sent_in_clear_or_to_no_url(url: str) -> None:
    """It is refused before anything is asked."""
    result = run("status", "--url", url, env=token(ADMIN_TOKEN))
    assert 1 == result.exit_code
    assert ADMIN_TOKEN not in result.output


CONFIG = """
server: {public_url: "https://llm.example.org", host: 127.0.0.1, port: 9123}
litellm: {master_key: k}
fleet: {key: key, vllm_api_salt: salt}
api_tokens:
  - {name: portal, token: "caller-token-0123456789"}
  - {name: me, role: admin, token: "admin-token-0123456789"}
"""
BY_PASSWORD = """
auth:
  mode: password
  admins:
    - name: alice
      hash: "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g"
"""


def configured(folder: Path, text: str) -> Path:
    (folder / "models.yaml").write_text("models: []\n")
    path = folder / "config.yaml"
    path.write_text(text)
    return path


def test_where_to_ask_stands_in_the_configuration(tmp_path: Path) -> None:
    """public_url with a token of the file; loopback in mode open; --url with neither."""
    path = configured(tmp_path, CONFIG + BY_PASSWORD)
    place = place_of(path, None)
    assert ("https://llm.example.org", "admin-token-0123456789") == (
        place.url,
        place.token.reveal() if place.token else "",
    )
    assert Place("https://other.example") == place_of(path, "https://other.example")
    configured(tmp_path, CONFIG)
    assert "http://127.0.0.1:9123" == place_of(path, None).url
    assert "admin-token" not in repr(place)


# ---- hash-password


def test_a_password_is_hashed_for_the_file() -> None:
    """From a pipe its first line; the hash is what the sign-in takes, and new each time."""
    first, second = (run("hash-password", input="correct horse battery\nx\n") for _ in range(2))
    assert 0 == first.exit_code
    assert first.stdout != second.stdout
    assert PasswordHasher().verify(first.stdout.strip(), "correct horse battery")
    told = json.loads(run("hash-password", "--json", input="correct horse battery\n").stdout)
    assert PasswordHasher().verify(told["hash"], "correct horse battery")


@pytest.mark.parametrize("text", ["", "\n", "short\n", "a" * 1025 + "\n"])
def test_a_password_that_is_too_short_is_refused(text: str) -> None:
    """And not repeated."""
    result = run("hash-password", input=text)
    assert (1, "") == (result.exit_code, result.stdout)
    assert "12 to 1024" in result.stderr


def test_what_it_prints_passes_the_check(tmp_path: Path) -> None:
    """The two commands agree."""
    made = run("hash-password", input="correct horse battery\n").stdout.strip()
    text = CONFIG + f'auth: {{mode: password, admins: [{{name: alice, hash: "{made}"}}]}}\n'
    result = run("check", "-c", configured(tmp_path, text))
    assert 0 == result.exit_code, result.output


def test_the_default_server_is_loopback() -> None:
    """A place to ask without any configuration."""
    assert "http://127.0.0.1:8080" == status_command._configured(Config(server=ServerConfig()))
