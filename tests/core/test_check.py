"""The rules that need more than one value to see."""

from typing import Any

import pytest
from attrs import evolve

from llmao_core.check import dropped_hosts, findings, reload_refusals
from llmao_core.check_auth import bind
from llmao_core.config import (
    AdminConfig,
    AuthConfig,
    BrakeConfig,
    CommercialProvider,
    Config,
    FleetConfig,
    GpuProvider,
    Host,
    HostRow,
    JournalConfig,
    LitellmConfig,
    Model,
    Recipe,
    ServerConfig,
    Source,
)
from llmao_core.places import Finding, Written, shown
from llmao_core.recipe_args import OWNED, owned
from llmao_core.secret import Secret
from llmao_core.urls import url_trouble

RECIPE = Recipe("org/m")
MODEL = Model("m", recipe=RECIPE, recipes={"fp8": evolve(RECIPE, model="org/m-fp8")})
BOUGHT = Model("c", provider="router", litellm_params={"model": "router/c"})
ROW = HostRow("m", 8001, "m")
GOOD = Config(
    litellm=LitellmConfig(master_key=Secret("k")),
    fleet=FleetConfig(
        key=(Secret("key-" * 8),),
        vllm_api_salt=(Secret("salt" * 8),),
        hosts=(Host("box-1", (ROW,)),),
    ),
    gpu_providers=(GpuProvider("vast", Secret("k")),),
    commercial=(CommercialProvider("router", "https://router.example/v1", Secret("k")),),
    models=(MODEL, BOUGHT),
)


HASH = "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g"
PASSWORD = AuthConfig("password", admins=(AdminConfig("alice", Secret(HASH)),))


def _found(config: Config) -> list[Finding]:
    return list(findings(config, Written(), ["vast", "runpod"]))


def _errors(config: Config) -> list[str]:
    return [shown(each.path) for each in _found(config) if not each.warning]


def _warnings(config: Config) -> list[str]:
    return [shown(each.path) for each in _found(config) if each.warning]


def _fleet(**fleet: Any) -> Config:
    return evolve(GOOD, fleet=evolve(GOOD.fleet, **fleet))


def _hosts(*hosts: Host) -> Config:
    return _fleet(hosts=hosts)


def _rows(*rows: HostRow) -> Config:
    return _hosts(Host("a", rows))


def _recipe(**recipe: Any) -> Config:
    made = evolve(RECIPE, **recipe)
    return evolve(GOOD, models=(evolve(MODEL, recipe=made, recipes={}), BOUGHT))


def _models(*models: Model) -> Config:
    return evolve(GOOD, models=models, fleet=evolve(GOOD.fleet, hosts=()))


def test_a_good_configuration_has_no_findings() -> None:
    """Nothing is said where nothing is wrong."""
    assert [] == _found(GOOD)


VLLM = "models[0].model_info.vllm"


@pytest.mark.parametrize(
    ("path", "config"),
    [
        # ports and rows
        ("fleet.hosts.a[0]", _rows(HostRow("m", 9000, "m"))),
        ("fleet.hosts.a[0]", _rows(HostRow("m", 0, "m"))),
        ("fleet.hosts.a[0]", _rows(evolve(ROW, public_port=70000))),
        ("fleet.hosts.a[1]", _rows(ROW, HostRow("m", 8001, "n"))),
        ("fleet.hosts.a[1]", _rows(ROW, HostRow("m", 8002, "m"))),
        ("fleet.hosts.a[1]", _rows(ROW, HostRow("m", 8002, "M"))),
        ("fleet.hosts.a[0]", _rows(HostRow("nope", 8001, "m"))),
        ("fleet.hosts.a[0]", _rows(HostRow("c", 8001, "m"))),
        ("fleet.hosts.a[0]", _rows(evolve(ROW, recipe="int4"))),
        *(
            ("fleet.hosts.a[0]", _rows(evolve(ROW, name=name)))
            for name in ("", "a b", "a/b", "../x", ".x", "a:b", "a%b", "[x]", "a\n", "ä", "x" * 65,
                         "llmao-install")
        ),
        ("fleet.listen_ports", evolve(_hosts(), fleet=evolve(_hosts().fleet, listen_ports=()))),
        ("fleet.listen_ports[1]", _fleet(listen_ports=(8001, 8001))),
        ("fleet.listen_ports[1]", _fleet(listen_ports=(8001, 65536))),
        # names of hosts
        ("fleet.hosts.a", _hosts(Host("a", ()), Host("a", ()))),
        ("fleet.hosts.b.was[0]", _hosts(Host("a", ()), Host("b", (), was=("a",)))),
        ("fleet.hosts.b", _hosts(Host("a", (), was=("b",)), Host("b", ()))),
        ("fleet.hosts.a.was[0]", _hosts(Host("a", (), was=("a",)))),
        ("fleet.hosts.c.4711", _hosts(Host("c.4711", (), own=True))),
        # secrets
        ("fleet.vllm_api_salt", _fleet(vllm_api_salt=())),
        ("fleet.selfhost_api_key", _fleet(legacy_servers=frozenset({("box-1", 8001)}))),
        ("fleet.key", _fleet(key=(Secret("schlüssel"),))),
        ("fleet.name", _fleet(name="a b")),
        # numbers
        ("fleet.health_fail_threshold", _fleet(health_fail_threshold=1)),
        ("fleet.health_interval_s", _fleet(health_interval_s=0)),
        ("fleet.health_timeout_s", _fleet(health_timeout_s=-1)),
        ("fleet.skew_interval_s", _fleet(skew_interval_s=1e12)),
        ("fleet.litellm_health_interval_s", _fleet(litellm_health_interval_s=-1)),
        ("brake.fraction", evolve(GOOD, brake=BrakeConfig(fraction=1.5))),
        ("brake.at_least", evolve(GOOD, brake=BrakeConfig(at_least=0))),
        ("brake.window_s", evolve(GOOD, brake=BrakeConfig(window_s=0))),
        ("server.port", evolve(GOOD, server=ServerConfig(port=65536))),
        ("journal.keep_days", evolve(GOOD, journal=JournalConfig(keep_days=0))),
        # server, sign-in, policy, store
        ("server.public_url", evolve(GOOD, server=ServerConfig(public_url="llm.example.org"))),
        ("server.trusted_proxies[0]", evolve(GOOD, server=ServerConfig(trusted_proxies=("x",)))),
        ("server.host", evolve(GOOD, server=ServerConfig(host="0.0.0.0"))),
        ("policy.explode", evolve(GOOD, policy={"explode": "auto"})),
        ("policy.reboot_box", evolve(GOOD, policy={"reboot_box": "auto"})),
        ("store", evolve(GOOD, store="mysql://x")),
        ("store", evolve(GOOD, store="postgres://llmao@db/llmao")),
        ("store", evolve(GOOD, store="sqlite:///")),
        ("store", evolve(GOOD, store="sqlite:///a\0b")),
        ("store", evolve(GOOD, store="postgresql://llmao:p@:w@db:x/llmao")),
        ("store", evolve(GOOD, store="postgresql://llmao@db")),
        ("litellm.base_url", evolve(GOOD, litellm=LitellmConfig("ftp://x", Secret("k")))),
        (
            "litellm.deployment_defaults.api_key",
            evolve(GOOD, litellm=LitellmConfig(deployment_defaults={"api_key": "k"})),
        ),
        # providers
        ("providers.vost", evolve(GOOD, gpu_providers=(GpuProvider("vost"),))),
        ("providers.vast.interval_s", evolve(GOOD, gpu_providers=(GpuProvider("vast", None, 0),))),
        (
            "providers.router.api_base",
            evolve(GOOD, commercial=(CommercialProvider("router", "https://u:p@x"),)),
        ),
        # models
        ("models[1].model_name", _models(MODEL, MODEL)),
        ("models[1].model_name", _models(BOUGHT, BOUGHT)),
        ("models[0].model_name", _models(evolve(MODEL, model_name=""))),
        ("models[0]", _models(Model("m"))),
        ("models[0].provider", _models(evolve(BOUGHT, provider="rooter"))),
        ("models[0].provider", _models(evolve(BOUGHT, provider="vast"))),
        ("models[0].provider", _models(evolve(BOUGHT, recipe=RECIPE, litellm_params={}))),
        ("models[0].litellm_params.model", _models(evolve(BOUGHT, litellm_params={}))),
        ("models[0].litellm_params.model", _models(evolve(MODEL, litellm_params={"model": "x"}))),
        ("models[0].litellm_params.api_key",
         _models(evolve(MODEL, litellm_params={"api_key": ""}))),
        ("models[0].litellm_params.api_base",
         _models(evolve(MODEL, litellm_params={"api_base": 1}))),
        ("models[0].litellm_params.aws_secret", _models(
            evolve(MODEL, litellm_params={"aws_secret": "x"}))),
        ("models[0].litellm_params.rpm", _models(evolve(MODEL, litellm_params={"rpm": None}))),
        ("models[0].model_info.id", _models(evolve(MODEL, model_info={"id": "x"}))),
        ("models[0].recipes", _models(evolve(BOUGHT, recipes={"a": RECIPE}))),
        # recipes
        (f"{VLLM}.model", _recipe(model="")),
        (f"{VLLM}.model", _recipe(model="--help")),
        (f"{VLLM}.served_model_name", _recipe(served_model_name="a b")),
        (f"{VLLM}.max_model_len", _recipe(max_model_len=0)),
        (f"{VLLM}.vram_gb", _recipe(vram_gb=-1)),
        (f"{VLLM}.gpu_memory_utilization", _recipe(gpu_memory_utilization=1.5)),
        (f"{VLLM}.args", _recipe(args=("--port", "1"))),
        (f"{VLLM}.args", _recipe(args=("",))),
        (f"{VLLM}.args", _recipe(args=("--x=a\nb",))),
    ],
)  # fmt: skip
def test_what_cannot_stand(path: str, config: Config) -> None:
    """Each rule is broken once, and names the path it is about and nothing else."""
    assert [path] == _errors(config)


@pytest.mark.parametrize(
    ("path", "config"),
    [
        ("fleet.hosts.a[0]", _rows(evolve(ROW, public_port=41000))),
        ("fleet.key", _fleet(key=())),
        ("fleet.key", _fleet(key=(Secret("change-me"),))),
        ("fleet.key", _fleet(key=(Secret("key-" * 8), Secret("your_fleet_key_please")))),
        ("fleet.vllm_api_salt", _fleet(vllm_api_salt=(Secret("a" * 15),))),
        ("fleet.vllm_api_salt", _fleet(vllm_api_salt=(), hosts=())),
        (
            "fleet.legacy_servers",
            _fleet(legacy_servers=frozenset({("gone", 1)}), selfhost_api_key=Secret("k")),
        ),
        (
            "server.public_url",
            evolve(GOOD, auth=PASSWORD, server=ServerConfig(public_url="http://llm.example")),
        ),
        ("auth.mode", evolve(GOOD, server=ServerConfig(public_url="https://llm.example"))),
        (f"{VLLM}.source.kind", _recipe(source=Source("url"))),
        (f"{VLLM}.mode", _recipe(mode="embedding")),
        (f"{VLLM}.args", _recipe(args=("--max-model-len=4096",))),
        (f"{VLLM}.args", _recipe(args=("--hf-token=x",))),
        ("models[0].model_info.hf_token", _models(evolve(MODEL, model_info={"hf_token": "x"}))),
    ],
)
def test_what_is_worth_a_warning(path: str, config: Config) -> None:
    """It can be used, and a person should know."""
    assert ([], [path]) == (_errors(config), _warnings(config))


@pytest.mark.parametrize(
    "config",
    [
        _fleet(
            legacy_servers=frozenset({("a", 9000)}),
            selfhost_api_key=Secret("k"),
            vllm_api_salt=(Secret("salt" * 8),),
            hosts=(Host("a", (HostRow("m", 9000, "m"), HostRow("m", 8001, "n"))),),
        ),
        _rows(evolve(ROW, recipe="fp8")),
        _hosts(Host("203.0.113.10", (ROW,), own=True), Host("b", (ROW,), was=("c",))),
        _models(MODEL, evolve(BOUGHT, model_name="m")),
        evolve(GOOD, server=ServerConfig(host="::1", public_url="http://localhost:8080")),
        evolve(GOOD, server=ServerConfig(host="0.0.0.0"), auth=PASSWORD),
        evolve(GOOD, policy={"reboot_box": "observe", "add_litellm": "needs_human"}),
        evolve(GOOD, gpu_providers=(GpuProvider("runpod"),)),
        evolve(GOOD, store="postgresql://llmao:pw@db/llmao"),
        evolve(GOOD, store="postgresql://llmao@one:5432,two:5432/llmao?sslmode=require"),
        evolve(GOOD, store="postgresql:///llmao?host=/run/postgresql"),
        evolve(GOOD, store="sqlite:////var/lib/llmao/llmao.db"),
        _fleet(litellm_health_interval_s=0, health_fail_threshold=2),
        evolve(GOOD, models=(evolve(MODEL, model_info={"mode": "embedding", "max_tokens": 5,
                                                       "input_cost_per_token": 0.1},
                                    recipe=evolve(RECIPE, mode="embedding"), recipes={}),)),
    ],
)  # fmt: skip
def test_what_may_stand(config: Config) -> None:
    """The other side of the rules: what they must not refuse."""
    assert [] == _found(config)


# ---- arguments


@pytest.mark.parametrize(
    "arg",
    [
        *OWNED,
        "--port=8001",
        "--port 8001",
        "--api_key",
        "--API-KEY=x",
        "--api",
        "--api-k=x",
        "--po",
        "--ho=0.0.0.0",
        "--served_model_name",
        "--served",
        "--conf",
        "--config=f.yaml",
        "--middle",
        "--root_path",
        "--ud",
        "--ssl",
        "--ssl_keyfile=x",
        "--ssl-anything",
        " --port",
        "--port.x",
    ],
)
def test_an_argument_of_llmaos_own_in_any_spelling(arg: str) -> None:
    """Underscores, `=`, case and abbreviations: vLLM's parser would take them all."""
    assert owned(arg)


@pytest.mark.parametrize(
    "arg",
    [
        "--reasoning-parser",
        "--config-format",
        "--api-server-count=2",
        "--hf-overrides",
        "--port-range-of-nothing",
        "-tp",
        "8001",
        "gemma",
        "--",
        "-",
        "",
        "port",
        "--tool-call-parser=--port",
    ],
)
def test_other_arguments_are_let_through(arg: str) -> None:
    """A longer option is another option; a value is no option."""
    assert "" == owned(arg)


# ---- variants


@pytest.mark.parametrize(
    ("field", "variant"),
    [
        ("max_model_len", {"max_model_len": 1024}),
        ("mode", {"mode": "completion"}),
        ("served_model_name", {"served_model_name": "other"}),
        ("args", {"args": ("--reasoning-parser", "b")}),
        ("args", {"args": ("--reasoning_parser=b",)}),
        ("args", {"args": ()}),
        ("args", {"args": ("--reasoning-parser", "a", "--enable-auto-tool-choice")}),
    ],
)
def test_a_variant_must_not_differ_in_what_callers_see(field: str, variant: dict[str, Any]) -> None:
    """Callers are promised one contract for one name."""
    base = evolve(RECIPE, max_model_len=4096, args=("--reasoning-parser", "a"))
    model = evolve(MODEL, recipe=base, recipes={"v": evolve(base, **variant)})
    assert [f"models[0].recipes.v.{field}"] == _errors(_models(model))


def test_a_variant_may_differ_in_everything_else() -> None:
    """Weights, memory and other arguments are what variants are for."""
    base = evolve(RECIPE, args=("--reasoning-parser", "a"), vram_gb=40)
    other = Recipe(
        "org/m-fp8",
        args=("--quantization", "fp8", "--reasoning_parser=a"),
        vram_gb=20,
        served_model_name="m",
    )
    assert [] == _found(_models(evolve(MODEL, recipe=base, recipes={"fp8": other})))


# ---- URLs, sign-in, reload


@pytest.mark.parametrize(
    "url",
    ["", "x", "//x", "http://", "ftp://x", "http://u:p@x", "http://x?a", "http://x#a", "http://[::1",
     "http://x:99999", "http://a b", "https://x\n"],
)  # fmt: skip
def test_what_is_no_url_to_call(url: str) -> None:
    """Each is refused, without repeating what may hold a password."""
    assert url_trouble(url)
    assert "u:p" not in url_trouble(url)


@pytest.mark.parametrize("url", ["http://x", "https://x:1/a/b", "http://[::1]:8080/"])
def test_what_is_a_url_to_call(url: str) -> None:
    """Scheme, host and perhaps a port and a path."""
    assert "" == url_trouble(url)


@pytest.mark.parametrize(
    ("good", "mode", "host"),
    [
        (True, "open", "127.0.0.1"),
        (True, "open", "127.9.9.9"),
        (True, "open", "localhost"),
        (True, "open", "::1"),
        (False, "open", "0.0.0.0"),
        (False, "open", "::"),
        (False, "open", "10.0.0.1"),
        (False, "open", "llm.example.org"),
        (True, "proxy", "0.0.0.0"),
    ],
)
def test_without_sign_in_only_this_machine_may_call(good: bool, mode: Any, host: str) -> None:
    """Mode open goes with a loopback bind and no other."""
    config = Config(server=ServerConfig(host=host), auth=AuthConfig(mode))
    assert good == (not list(bind(config)))


@pytest.mark.parametrize(
    ("path", "changed"),
    [
        ("server", evolve(GOOD, server=ServerConfig(port=1))),
        ("store", evolve(GOOD, store="sqlite:///other.db")),
        ("journal", evolve(GOOD, journal=JournalConfig(keep_days=1))),
        ("auth", evolve(GOOD, auth=evolve(PASSWORD, session_idle_s=60))),
    ],
)
def test_what_a_reload_cannot_change(path: str, changed: Config) -> None:
    """Each is refused by name, in either direction."""
    assert (path,) == tuple(each.path for each in reload_refusals(GOOD, changed))
    assert (path,) == tuple(each.path for each in reload_refusals(changed, GOOD))


def test_a_reload_may_change_the_rest() -> None:
    """Hosts, models, policy, secrets: that is what a reload is for."""
    changed = evolve(
        _hosts(), models=(), policy={"add_litellm": "observe"}, litellm=LitellmConfig()
    )
    assert () == reload_refusals(GOOD, changed)


def _fleet_of(*names: str) -> Config:
    return _hosts(*(Host(name, (ROW,)) for name in names))


@pytest.mark.parametrize(
    ("dropped", "old", "new"),
    [
        ((), "abcdef", "abcdef"),
        ((), "abcdef", "abcd"),  # two: under at_least
        ((), "abcdef", "def"),  # half: not more than the fraction
        (("a", "b", "c", "d"), "abcdef", "ef"),
        (("a", "b", "c", "d"), "abcdef", "efgh"),
        (("a", "b", "c"), "abc", ""),
        (("a", "b"), "ab", ""),
        (("a",), "a", ""),
        ((), "a", "b"),  # replaced: who empties a fleet by mistake names no other host
        ((), "", "abc"),
    ],
)
def test_dropping_most_hosts_is_named(dropped: tuple[str, ...], old: str, new: str) -> None:
    """Three or more and over half, or the last ones: a person is shown the names."""
    assert dropped == dropped_hosts(_fleet_of(*old), _fleet_of(*new), BrakeConfig())


def test_a_renamed_host_is_not_dropped_and_an_emptied_one_is() -> None:
    """`was` keeps a host; a host without its rows serves as little as one that is gone."""
    old = _fleet_of("a", "b", "c", "d")
    renamed = _hosts(*(Host(f"new-{name}", (ROW,), was=(name,)) for name in "abcd"))
    emptied = _hosts(*(Host(name, ()) for name in "abcd"))
    assert () == dropped_hosts(old, renamed, BrakeConfig())
    assert ("a", "b", "c", "d") == dropped_hosts(old, emptied, BrakeConfig())
