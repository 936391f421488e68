"""The text of both files becomes one Config, or every problem with its place."""

from typing import Any

import pytest

from llmao_core.codec import Loaded, load
from llmao_core.config import (
    CommercialProvider,
    GpuProvider,
    Host,
    HostRow,
    NotifyConfig,
    Recipe,
    Source,
)
from llmao_core.errors import ConfigError, Problem
from llmao_core.secret import Secret
from llmao_core.shapes import SecretRef, UnresolvedError
from llmao_core.source_file import File
from llmao_core.yaml_nodes import MAX_BYTES, MAX_DEPTH, read

MODELS = """
models:
  - model_name: qwen3-8b
    litellm_params: {order: 1}
    model_info: {license: MIT, vllm: {model: org/qwen, args: "--quux 'b c'", max_model_len: 4096}}
"""
SECRETS = {"FLEET": "fleet-secret", "MASTER": "sk-master", "LATER": "CHANGE_ME_later", "EMPTY": ""}


def _resolve(ref: SecretRef) -> str:
    if ref.kind == "file" or ref.name not in SECRETS:
        raise UnresolvedError(f"No {ref.kind}.", "Make one.")
    return SECRETS[ref.name]


def _load(config: str | bytes = "", models: str | bytes = MODELS, **more: Any) -> Loaded:
    texts = [text.encode() if isinstance(text, str) else text for text in (config, models)]
    return load(
        File("config.yaml", texts[0]),
        lambda path: File(path, texts[1]),
        _resolve,
        more.pop("installed", ("vast", "runpod")),
        **more,
    )


def _problems(
    config: str | bytes = "", models: str | bytes = MODELS, **more: object
) -> list[Problem]:
    """Return the errors of what must not load."""
    with pytest.raises(ConfigError) as caught:
        _load(config, models, **more)
    return [each for each in caught.value.problems if not each.warning]


def _only(config: str | bytes = "", models: str | bytes = MODELS, **more: object) -> Problem:
    problems = _problems(config, models, **more)
    assert 1 == len(problems), problems
    return problems[0]


FULL = """
server: {port: 8080, public_url: "https://llm.example.org", trusted_proxies: [10.0.0.0/8]}
litellm: {master_key: {env: MASTER}, deployment_defaults: {timeout: 60}}
fleet:
  key: [{env: FLEET}, older]
  vllm_api_salt: salt-1
  listen_ports: [8001, 8002]
  legacy_servers: [["::ffff:203.0.113.10", 9000]]
  selfhost_api_key: shared
  require_closed: true
  canary: {enabled: false}
  hosts:
    203.0.113.10:
      - [qwen3-8b, 8001]
      - [qwen3-8b, 8002, other]
      - {model: qwen3-8b, port: 9000, name: third}
    C.4711: {rows: [[qwen3-8b, 8001, null, 41000]], was: ["[2001:DB8::1]"]}
    12345678: [[qwen3-8b, 8001]]
    1e10: []
providers:
  vast: {api_key: {env: MASTER}, interval_s: 60, label: mine, webhook_secret: s3cret}
  runpod:
  router: {commercial: true, api_base: "https://router.example/v1", api_key: k}
policy: {delete_litellm: observe}
notify: [{url: {env: HOOK}, kind: slack, on: [brake_on]}]
store: {env: FLEET_DB}
"""


def test_both_files_become_a_config() -> None:
    """Every form the pages of the documentation show is read as it is meant."""
    SECRETS["FLEET_DB"] = "postgresql://u:p@db/llmao"
    SECRETS["HOOK"] = "https://hooks.example/x?token=1"
    config = _load(FULL).config
    row = HostRow("qwen3-8b", 8001, "qwen3-8b")
    assert (
        Host(
            "203.0.113.10",
            (row, HostRow("qwen3-8b", 8002, "other"), HostRow("qwen3-8b", 9000, "third")),
        ),
        Host("c.4711", (HostRow("qwen3-8b", 8001, "qwen3-8b", None, 41000),), was=("2001:db8::1",)),
        Host("12345678", (row,)),
        Host("1e10", ()),
    ) == config.fleet.hosts
    assert (Secret("fleet-secret"), Secret("older")) == config.fleet.key
    assert frozenset({("203.0.113.10", 9000)}) == config.fleet.legacy_servers
    assert (True, False, (8001, 8002)) == (
        config.fleet.require_closed,
        config.fleet.canary.enabled,
        config.fleet.listen_ports,
    )
    vast = GpuProvider(
        "vast", Secret("sk-master"), 60, None, {"label": "mine", "webhook_secret": Secret("s3cret")}
    )
    assert (vast, GpuProvider("runpod")) == config.gpu_providers
    router = CommercialProvider("router", "https://router.example/v1", Secret("k"))
    assert (router,) == config.commercial
    hook = NotifyConfig(Secret("https://hooks.example/x?token=1"), "slack", ("brake_on",))
    assert (hook,) == config.notify
    assert "postgresql://u:p@db/llmao" == config.store
    assert "p@db" not in repr(config)


def test_a_recipe_is_read_and_kept_as_written() -> None:
    """Arguments in a string are split like a shell; model_info keeps what was written."""
    model = _load().config.models[0]
    assert Recipe("org/qwen", args=("--quux", "b c"), max_model_len=4096) == model.recipe
    assert "--quux 'b c'" == model.model_info["vllm"]["args"]


def test_a_variant_overrides_fields_of_the_recipe() -> None:
    """What a variant does not name it takes from the recipe."""
    models = """
models:
  - model_name: m
    model_info: {vllm: {model: a/b, args: [--x, 2], vram_gb: 18, source: {kind: local}}}
    recipes: {fp8: {model: a/b-fp8, vram_gb: 9}}
"""
    model = _load(models=models).config.models[0]
    base = Recipe("a/b", args=("--x", "2"), vram_gb=18, source=Source("local"))
    assert base == model.recipe
    fp8 = Recipe("a/b-fp8", args=("--x", "2"), vram_gb=9, source=Source("local"))
    assert {"fp8": fp8} == dict(model.recipes)


def test_empty_files_are_the_defaults() -> None:
    """Nothing written means every default, with warnings about what is missing to be useful."""
    loaded = _load("", "")
    assert 8080 == loaded.config.server.port
    assert ("fleet.vllm_api_salt", "fleet.key") == tuple(each.path for each in loaded.warnings)


def test_all_problems_come_at_once_with_their_places() -> None:
    """Both files, wrong types beside broken rules: one run names them all, in order."""
    config = """\
srver: {}
server: {port: "80", hst: x}
fleet:
  vllm_api_salt: s
  health_fail_threshold: 1
  hosts:
    a: [[nope, 8001], [qwen3-8b, 9999]]
    A: [[qwen3-8b, 8001]]
    b: [[qwen3-8b]]
policy: {delete_litelm: auto, add_litellm: often}
policy: {}
"""
    models = MODELS + "    display: x\n  - model_name: other\n"
    found = [(each.file, each.line, each.column, each.path) for each in _problems(config, models)]
    assert [
        ("config.yaml", 1, 1, "srver"),
        ("config.yaml", 2, 10, "server.port"),
        ("config.yaml", 2, 22, "server.hst"),
        ("config.yaml", 5, 3, "fleet.health_fail_threshold"),
        ("config.yaml", 7, 9, "fleet.hosts.a[0]"),
        ("config.yaml", 7, 23, "fleet.hosts.a[1]"),
        ("config.yaml", 8, 5, "fleet.hosts.A"),
        ("config.yaml", 9, 9, "fleet.hosts.b[0]"),
        ("config.yaml", 10, 10, "policy.delete_litelm"),
        ("config.yaml", 10, 31, "policy.add_litellm"),
        ("config.yaml", 11, 1, "policy"),
        ("models.yaml", 6, 5, "models[0].display"),
        ("models.yaml", 7, 5, "models[1]"),
    ] == found


def test_an_unknown_key_asks_what_was_meant() -> None:
    """A slip names the key it resembles, at any depth."""
    assert "Did you mean `health_grace_s`?" == _only("fleet: {helth_grace_s: 3}").remedy
    assert "Did you mean `silent_s`?" == _only("fleet: {canary: {silent: 3}}").remedy
    assert (
        "Did you mean `vram_gb`?"
        == _only(models="models: [{model_name: m, model_info: {vllm: {model: x, vram: 3}}}]").remedy
    )
    assert "Known here:" in _only("fleet: {zzzz: 3}").remedy


def test_a_repeated_key_is_an_error() -> None:
    """Plain YAML keeps the last one in silence; that is how a fleet loses half its hosts."""
    problem = _only("fleet:\n  vllm_api_salt: s\n  hosts:\n    a: []\n  hosts: {}\n")
    assert (5, 3, "fleet.hosts") == (problem.line, problem.column, problem.path)
    assert "line 3" in problem.what


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("server: {port: 012}", "Write plain digits"),
        ("fleet: {health_grace_s: 1:30}", "Write plain digits"),
        ("fleet: {health_grace_s: 1_200}", "Write plain digits"),
        ("server: {port: '8080'}", "Write plain digits"),
        ("fleet: {canary: {enabled: on}}", "Write true or false."),
        ("fleet: {canary: {enabled: 1}}", ""),
        ("server: {port: true}", "Write a number."),
        ("server: {port: 80.5}", "Write a number."),
        ("server: {port: }", "Give a value."),
        ("fleet: {name: 2024}", "Put it in quotes."),
        ("fleet: {name: 1.10}", "Put it in quotes."),
        ("brake: {fraction: .nan}", "Write a number."),
        ("brake: {window_s: .inf}", "Write a number."),
        ("brake: {window_s: 1e999}", "Write a number."),
        ("fleet: {listen_ports: 8001}", "Write it as [a, b]."),
        ("fleet: {name: !!int '3'}", "Write the value plainly"),
        ("fleet: {name: !!python/name:os.system x}", "Write the value plainly"),
        ("fleet: {<<: {name: x}}", "Write the keys out."),
        ("fleet: {[a]: x}", "Put text with brackets into quotes."),
        ("fleet: {require_closed: warning}", ""),
        ("server: 3", ""),
        ("fleet: {hosts: [a]}", ""),
        ("fleet: {hosts: {a: }}", "Write [[MODEL, PORT]]."),
        (
            "fleet: {hosts: {a: [[qwen3-8b, 8001, a, 1, 2]]}, vllm_api_salt: s}",
            "Write [MODEL, PORT]",
        ),
        ("fleet: {hosts: {'a b': []}}", "A host is an address"),
        ("api_tokens: [text]", ""),
        ("models_path: [a]", "Put it in quotes."),
    ],
)
def test_what_looks_like_something_else_is_refused(text: str, remedy: str) -> None:
    """Nothing is converted on the quiet: the type is said, and what to write instead."""
    problem = _only(text)
    assert problem.remedy.startswith(remedy), problem
    assert (True, 1) == (problem.column > 0, problem.line)


@pytest.mark.parametrize(
    "text", ["yes", "off", "2024-01-01", "1:30", "012", "0x10", "C.4711", "1_0"]
)
def test_yaml_1_1_does_not_turn_text_into_something_else(text: str) -> None:
    """What is text to a reader is text."""
    models = f"models: [{{model_name: m, provider: r, litellm_params: {{model: x, a: {text}}}}}]"
    config = "providers: {r: {commercial: true, api_base: 'https://r.example'}}"
    assert text == _load(config, models).config.models[0].litellm_params["a"]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\xff\xfea\x00", "not UTF-8"),
        ("server: ü".encode("latin-1"), "not UTF-8"),
        (b"a: \x01", "A character here"),
        (b"server: {port: 1", "not YAML"),
        (b"server:\n\tport: 1", "not YAML"),
        (b"a: @x", "not YAML"),
        (b"- a", "Expected a mapping, found a list"),
        (b"text", "Expected a mapping, found text"),
        (b"a: 1\n---\nb: 2", "second document"),
        (b"a: *b", "alias"),
        (b"a: &a [*a]", "alias"),
        (b"a: " + b"[" * 500, "nested more than"),
        (b"a: " + b"[" * 5000, "nest"),
        (b" " * (MAX_BYTES + 1), "larger than"),
        (
            b"a: &a [1,1,1,1,1,1,1,1,1,1]\n"
            + b"".join(
                b"%c: &%c [%s]\n" % (c + 1, c + 1, b",".join([b"*%c" % c] * 10))
                for c in range(ord("a"), ord("h"))
            ),
            "aliases written out",
        ),
    ],
)
def test_a_file_that_cannot_be_followed(content: bytes, what: str) -> None:
    """One clear problem, for either file, and no traceback."""
    assert what in _only(content).what
    assert what in _problems("", content)[0].what


def test_nesting_up_to_the_limit_is_read() -> None:
    """The limit is a limit, not a wall before what people write."""
    text = "a: " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)
    assert () == read("x", text.encode()).findings


def test_an_alias_is_what_it_stands_for() -> None:
    """Anchors, which people use for recipes, are read."""
    assert {"a": [1], "b": [1]} == read("x", b"a: &x [1]\nb: *x\n").data


def test_a_byte_order_mark_is_no_text() -> None:
    """What some editors put in front of a file is passed over."""
    assert 81 == _load(b"\xef\xbb\xbfserver: {port: 81}").config.server.port


# ---- secrets


@pytest.mark.parametrize("text", ["CHANGE_ME", "CHANGE_ME_please", "''", "~", "{env: LATER}", "[]"])
def test_a_placeholder_counts_as_not_set(text: str) -> None:
    """What an example file holds is no key."""
    assert () == _load(f"fleet: {{key: {text}}}").config.fleet.key


def test_a_previous_secret_that_is_not_set_is_none() -> None:
    """[current, CHANGE_ME] is the current one alone; without a current one it is an error."""
    assert (Secret("a"),) == _load("fleet: {key: [a, CHANGE_ME]}").config.fleet.key
    assert "fleet.key" == _only("fleet: {key: [CHANGE_ME, a]}").path
    assert "fleet.key" == _only("fleet: {key: [a, b, c]}").path


@pytest.mark.parametrize(
    "given",
    [
        "8675309",
        "8675309.5",
        "[8675309]",
        "{8675309: x}",
        "{evn: s8675309}",
        "{env: [s8675309]}",
        "{env: s8675309, file: x}",
        "' s8675309'",
        '"s8675309\\nX"',
        "!s8675309 x",
        "*s8675309",
        "{ {s8675309} }",
        "[a, b, s8675309]",
        "{env: s8675309}",
        "{file: s8675309}",
        "true",
    ],
)
@pytest.mark.parametrize(
    "where",
    [
        "litellm: {master_key: %s}",
        "fleet: {vllm_api_salt: %s}",
        "fleet: {key: %s}",
        "fleet: {selfhost_api_key: %s}",
        "providers: {vast: {api_key: %s}}",
    ],
)
def test_a_secret_of_the_wrong_form_is_not_repeated(where: str, given: str) -> None:
    """The problem says where and what is expected, and nothing of what stands there."""
    with pytest.raises(ConfigError) as caught:
        _load(where % given)
    assert "8675309" not in str(caught.value)
    assert "8675309" not in repr(caught.value.problems)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("failure", [OSError("s8675309"), KeyError("s8675309"), ValueError()])
def test_whatever_the_lookup_raises_is_a_problem(failure: Exception) -> None:
    """A reader of secrets that fails strangely gives a problem without its words."""

    def fails(_: SecretRef) -> str:
        raise failure

    with pytest.raises(ConfigError) as caught:
        load(File("c", b"fleet: {key: {env: X}}"), lambda path: File(path, b""), fails)
    assert "8675309" not in str(caught.value)
    assert "fleet.key" == caught.value.problems[-1].path


def test_an_empty_secret_is_not_taken_for_one() -> None:
    """A variable that is set to nothing is a mistake, not a key."""
    assert "empty" in _only("fleet: {key: {env: EMPTY}}").what


def test_models_yaml_takes_no_secrets() -> None:
    """A reference there stays what it is and is refused where a key would go."""
    problem = _only(
        "providers: {r: {commercial: true, api_base: 'https://r.example'}}",
        "models: [{model_name: m, provider: r, litellm_params: {model: x, api_key: {env: FLEET}}}]",
    )
    assert "models[0].litellm_params.api_key" == problem.path


# ---- around it


def test_a_models_file_that_cannot_be_opened_is_one_problem() -> None:
    """Rows that name its models are not blamed for it."""

    def missing(path: str) -> File:
        raise ConfigError([Problem("There is no such file.", file=path)])

    config = b"fleet: {vllm_api_salt: s, hosts: {a: [[m, 8001]]}}\nmodels_path: elsewhere.yaml"
    with pytest.raises(ConfigError) as caught:
        load(File("config.yaml", config), missing, _resolve)
    errors = [each for each in caught.value.problems if not each.warning]
    assert ["elsewhere.yaml"] == [each.file for each in errors]


def test_a_plugins_problem_gets_its_place() -> None:
    """A plugin gives a path; file, line and column are found for it."""
    problem = _only(
        "providers:\n  vast:\n    label: 3\n",
        plugin_check=lambda _: (Problem("Bad label.", path="providers.vast.label"),),
    )
    assert ("config.yaml", 3, 5) == (problem.file, problem.line, problem.column)


def test_a_plugin_does_not_blame_what_could_not_be_read() -> None:
    """One mistake, one problem."""
    problem = _only(
        "litellm: {master_key: {env: NOT_SET}}",
        plugin_check=lambda _: (Problem("No key.", path="litellm.master_key"),),
    )
    assert "No env." == problem.what


def test_many_problems_are_cut_short() -> None:
    """A wrong file of a million lines does not print a million problems."""
    problems = _problems("\n".join(f"k{number}: 1" for number in range(5000)))
    assert len(problems) < 250
    assert "more problems" in problems[-1].what


def test_one_wrong_value_does_not_blame_what_rests_on_it() -> None:
    """Unreadable listen_ports make no row's port wrong; an unreadable recipe is still a recipe."""
    config = "fleet: {vllm_api_salt: s, listen_ports: x, hosts: {a: [[m, 9000]]}}"
    models = "models: [{model_name: m, model_info: {vllm: {model: 3}}}]"
    assert [
        "fleet.listen_ports",
        "models[0].model_info.vllm.model",
    ] == [each.path for each in _problems(config, models)]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: [b, c\nd: e\n", "did not find expected ',' or ']'"),
        ("a: !s3cret!x y\n", "found undefined tag handle"),
        ("a: 's3cret", "found unexpected end of stream"),
    ],
)
def test_what_yaml_expected_is_said_and_what_stands_there_is_not(text: str, what: str) -> None:
    """A sign is no secret; a word of the file may be one."""
    problem = _only(text)
    assert f"This is not YAML: {what}." == problem.what
    assert "s3cret" not in str(problem)
