"""Whatever stands in the files: a ConfigError or a Config, and never a secret shown."""

from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from llmao_core.codec import load
from llmao_core.errors import ConfigError
from llmao_core.intended import build
from llmao_core.shapes import SecretRef, UnresolvedError
from llmao_core.source_file import File

SECRET = "Pl4nted-s3cret/+="
CONFIG = f"""\
server: {{host: 127.0.0.1, port: 8080, public_url: "https://llm.example.org"}}
litellm:
  master_key: "{SECRET}"
fleet:
  key: ["{SECRET}", "{SECRET}"]
  vllm_api_salt: {SECRET}
  selfhost_api_key: {SECRET}
  listen_ports: [8001, 8002, 8003]
  legacy_servers: [[203.0.113.10, 8003]]
  hosts:
    203.0.113.10:
      - [qwen3-8b, 8001]
      - {{model: qwen3-8b, port: 8002, name: b, recipe: fp8}}
    C.4711: {{rows: [[qwen3-8b, 8001, null, 41000]], own: false, was: [old]}}
providers:
  vast: {{api_key: "{SECRET}", webhook_token: "{SECRET}"}}
  router: {{commercial: true, api_base: https://r.example/v1, api_key: {{env: X}}}}
policy: {{delete_litellm: observe}}
auth:
  session_key: "{SECRET}{SECRET}"
  oidc: {{issuer: https://id.example, client_id: c, client_secret: "{SECRET}", admin_groups: [a]}}
  proxy: {{addresses: [10.0.0.1], admins: [alice]}}
api_tokens: [{{name: scraper, token: "{SECRET}"}}]
brake: {{fraction: 0.5, at_least: 3}}
"""
MODELS = """\
models:
  - model_name: qwen3-8b
    model_info: {vllm: {model: org/q, args: "--x 'y z'", max_model_len: 4096}}
    recipes: {fp8: {model: org/q-fp8}}
  - {model_name: c, provider: router, litellm_params: {model: r/c}}
"""
PIECES = [
    *(":", ": ", "-", "- ", ",", "[", "]", "{", "}", "\n", "\n  ", "#", "'", '"', "&a ", "*a"),
    *("!x ", "<<: ", "? ", "| ", "---\n", "\t", "null", "true", "on", "012", "1:30", ".nan"),
    *("1e999", "\x00", "9" * 30, "🦙", "CHANGE_ME", "env", "file"),
]

lines = st.integers(0, 40)
spots = st.integers(0, 1400)
edits = st.one_of(
    st.tuples(st.just("insert"), spots, st.sampled_from(PIECES)),
    st.tuples(st.just("cut"), spots, st.integers(1, 12)),
    st.tuples(st.just("drop"), lines, st.just(0)),
    st.tuples(st.just("double"), lines, st.just(0)),
    st.tuples(st.just("swap"), lines, lines),
    st.tuples(st.just("indent"), lines, st.integers(-4, 4)),
    st.tuples(st.just("truncate"), spots, st.just(0)),
)


def _edited(text: str, changes: list[tuple[str, int, Any]]) -> str:
    for kind, where, what in changes:
        if kind in ("insert", "cut", "truncate"):
            spot = where % (len(text) + 1)
            middle = str(what) if kind == "insert" else ""
            rest = text[spot:] if kind == "insert" else text[spot + int(what) :] if what else ""
            text = text[:spot] + middle + rest
            continue
        rows = text.split("\n")
        row = where % len(rows)
        if kind == "drop":
            del rows[row]
        elif kind == "double":
            rows.insert(row, rows[row])
        elif kind == "swap":
            other = int(what) % len(rows)
            rows[row], rows[other] = rows[other], rows[row]
        else:
            rows[row] = " " * int(what) + rows[row] if int(what) > 0 else rows[row][-int(what) :]
        text = "\n".join(rows)
    return text


def _resolve(ref: SecretRef) -> str:
    if ref.kind == "file":
        raise UnresolvedError("There is no such file.")
    return SECRET


def _survives(config: bytes, models: bytes) -> bool:
    """Load both; nothing but a ConfigError may come, and no word of it may hold the secret."""
    problem: ConfigError | None = None
    try:
        loaded = load(
            File("config.yaml", config), lambda path: File(path, models), _resolve, ["vast"]
        )
    except ConfigError as error:
        problem = error
    if problem is None:
        said = repr(loaded) + "".join(map(str, loaded.warnings))
        build(loaded.config)
    else:
        said = str(problem) + repr(problem.problems)
        assert any(not each.warning for each in problem.problems)
        assert problem.__context__ is None
    assert SECRET not in said
    assert SECRET[:10] not in said
    return True


def test_the_unedited_pair_loads() -> None:
    """The fuzz starts from something valid, or it would test nothing."""
    loaded = load(
        File("c", CONFIG.encode()), lambda path: File(path, MODELS.encode()), _resolve, ["vast"]
    )
    assert 2 == len(loaded.config.fleet.hosts)


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=300), st.binary(max_size=300))
@example(b"", b"")
@example(b"\xef\xbb\xbf", b"\x00")
@example(b"? ? ?", b"- - -")
def test_any_bytes(config: bytes, models: bytes) -> None:
    """Bytes that mean nothing are a clear error."""
    assert _survives(config, MODELS.encode())
    assert _survives(CONFIG.encode(), models)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(edits, min_size=1, max_size=4), st.lists(edits, max_size=3))
def test_a_valid_pair_badly_edited(
    first: list[tuple[str, int, object]], second: list[tuple[str, int, object]]
) -> None:
    """Slips of the hand, several at once, in both files."""
    assert _survives(_edited(CONFIG, first).encode(), _edited(MODELS, second).encode())


JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just(SECRET)
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["env", "file", "a", "rows", "model", "port"]), inner)
    ),
    max_leaves=6,
)
SPOTS = [
    *("litellm: {master_key: %s}", "fleet: {key: %s}", "fleet: {vllm_api_salt: %s}"),
    *("providers: {vast: {api_key: %s}}", "providers: {vast: {x_token: %s}}"),
    *("fleet: {selfhost_api_key: %s}", "fleet: {listen_ports: %s}", "server: {port: %s}"),
    *("fleet: {require_closed: %s}", "store: %s", "policy: %s", "policy: {add_litellm: %s}"),
    *(
        "auth: {mode: %s}",
        "auth: {admins: %s}",
        "auth: {oidc: %s}",
        "auth: {proxy: %s}",
        "auth: %s",
    ),
    *("auth: {admins: [{hash: %s}]}", "api_tokens: %s", "auth: {proxy: {addresses: %s}}"),
    *("brake: %s", "providers: %s", "providers: {vast: {interval_s: %s}}"),
    *("fleet: {canary: %s}", "litellm: {base_url: %s}", "fleet: {name: %s}", "server: %s"),
    *("fleet: {legacy_servers: [[a, %s]]}", "fleet: {hosts: {a: {own: %s}}}"),
    *(
        "server: {public_url: %s}",
        "api_tokens: [{name: x, token: %s}]",
        "journal: %s",
        "models_path: [%s]",
    ),
]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(SPOTS), JSON)
def test_any_value_anywhere(spot: str, value: object) -> None:
    """A value of any type in any place is a clear error, and a secret there is not shown."""
    assert _survives((spot % _flow(value)).encode(), b"")


def _flow(value: object) -> str:
    """Write a value as YAML in one line."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, str) and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    words: dict[object, str] = {None: "null", True: "true", False: "false"}
    return words.get(value, str(value))
