"""What sections `auth` and `api_tokens` may say, from the file to the message."""

from typing import Any

import pytest

from llmao_core.codec import Loaded, load
from llmao_core.config import (
    AdminConfig,
    ApiToken,
    AuthConfig,
    OidcConfig,
    ProxyConfig,
)
from llmao_core.errors import ConfigError, Problem
from llmao_core.secret import Secret
from llmao_core.shapes import SecretRef, UnresolvedError
from llmao_core.source_file import File

HASH = "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g"
KEY = "k" * 32
BASE = """
litellm: {master_key: k}
fleet: {key: a-key-of-a-test-fleet-1, vllm_api_salt: a-salt-of-a-test-fleet-1}
server: {host: 0.0.0.0, public_url: "https://llm.example.org"}
"""
PASSWORD = f'auth: {{mode: password, admins: [{{name: alice, hash: "{HASH}"}}]}}'
OIDC = (
    "auth: {mode: oidc, oidc: {issuer: 'https://id.example', client_id: c, client_secret: s, "
    "admin_groups: [ops]}}"
)
PROXY = "auth: {mode: proxy, proxy: {addresses: [10.0.0.1, 'fd00::/8'], admins: [alice]}}"


def _resolve(ref: SecretRef) -> str:
    if ref.name == "KEY":
        return KEY
    raise UnresolvedError("There is no such file.")


def _load(text: str, base: str = BASE) -> Loaded:
    models = File("models.yaml", b"models: []")
    return load(File("config.yaml", (base + text).encode()), lambda _: models, _resolve)


def _problems(text: str, base: str = BASE) -> list[Problem]:
    try:
        return list(_load(text, base).warnings)
    except ConfigError as error:
        return list(error.problems)


@pytest.mark.parametrize(
    ("text", "auth"),
    [
        (PASSWORD, AuthConfig("password", admins=(AdminConfig("alice", Secret(HASH)),))),
        (
            OIDC,
            AuthConfig("oidc", oidc=OidcConfig("https://id.example", "c", Secret("s"), ("ops",))),
        ),
        (
            PROXY,
            AuthConfig("proxy", proxy=ProxyConfig(("10.0.0.1", "fd00::/8"), admins=("alice",))),
        ),
    ],
)
def test_every_mode_is_read(text: str, auth: AuthConfig) -> None:
    """As records, with the defaults of what is not written; without a warning."""
    loaded = _load(text)
    assert auth == loaded.config.auth
    assert () == loaded.warnings


def test_what_is_not_written_is_the_safe_choice() -> None:
    """Nobody without sign-in sees the models, and a token sees no more than a caller."""
    assert "signed_in" == AuthConfig().callers
    assert "caller" == ApiToken("x").role


def test_tokens_are_read() -> None:
    """A token or its hash, from the file or from elsewhere; shown by no repr."""
    text = (
        PASSWORD
        + """
api_tokens:
  - {name: a, token: {env: KEY}}
  - {name: b, role: admin, hash: '"""
        + "0" * 64
        + "'}"
    )
    config = _load(text).config
    assert (
        ApiToken("a", Secret(KEY)),
        ApiToken("b", hash=Secret("0" * 64), role="admin"),
    ) == config.api_tokens
    assert KEY not in repr(config)
    assert HASH not in repr(config)


WRONG = [
    ("auth: {mode: magic}", "auth.mode", "open, password"),
    ("auth: {mode: pasword}", "auth.mode", "Did you mean `password`?"),
    ("auth: {mode: password, admin: []}", "auth.admin", "Did you mean `admins`?"),
    ("auth: {mode: password}", "auth.admins", "needs"),
    ("auth: {mode: oidc}", "auth.oidc", "needs"),
    ("auth: {mode: proxy}", "auth.proxy", "needs"),
    ("auth: {mode: open}", "server.host", "loopback"),
    (
        "auth: {mode: password, admins: [{name: a, hash: secret}]}",
        "auth.admins[0].hash",
        "hash-pass",
    ),
    ("auth: {mode: password, admins: [{name: a}]}", "auth.admins[0].hash", "missing"),
    (
        f"auth: {{mode: password, admins: [{{name: '', hash: '{HASH}'}}]}}",
        "auth.admins[0].name",
        "",
    ),
    (
        "auth: {mode: password, admins: [{name: a, hash: HASH}, {name: a, hash: HASH}]}".replace(
            "HASH", f"'{HASH}'"
        ),
        "auth.admins[1].name",
        "twice",
    ),
    (PASSWORD[:-1] + ", session_key: short}", "auth.session_key", "openssl"),
    (PASSWORD[:-1] + ", session_idle_s: 5}", "auth.session_idle_s", "minute"),
    (PASSWORD[:-1] + ", session_idle_s: 9e4}", "auth.session_idle_s", "longer than"),
    (PASSWORD[:-1] + ", callers: all}", "auth.callers", "signed_in, everybody"),
    (OIDC.replace("https:", "http:"), "auth.oidc.issuer", "https only"),
    (OIDC.replace("'https://id.example'", "id"), "auth.oidc.issuer", "https://"),
    (OIDC.replace("client_secret: s", "client_secret: CHANGE_ME"), "auth.oidc.client_secret", ""),
    (OIDC.replace("admin_groups: [ops]", "scopes: [email]"), "auth.oidc.scopes", "openid"),
    (OIDC.replace("client_id: c, ", ""), "auth.oidc.client_id", "missing"),
    (OIDC.replace("client_id", "client_idd"), "auth.oidc.client_idd", "Did you mean `client_id`?"),
    (PROXY.replace("10.0.0.1", "10.0.0.1/8"), "auth.proxy.addresses[0]", "host bits"),
    (PROXY.replace("10.0.0.1", "0.0.0.0/0"), "auth.proxy.addresses[0]", "everybody"),
    (PROXY.replace("10.0.0.1", "proxy.example"), "auth.proxy.addresses[0]", "CIDR"),
    (PROXY.replace("[10.0.0.1, 'fd00::/8']", "[]"), "auth.proxy.addresses", "nobody"),
    (PROXY[:-2] + ", user_header: 'X User'}}", "auth.proxy.user_header", "X-Forwarded-User"),
    (PROXY[:-2] + ", user_header: Cookie}}", "auth.proxy.user_header", ""),
    (PROXY[:-2] + ", groups_header: x-forwarded-user}}", "auth.proxy.groups_header", ""),
    ("api_tokens: [{name: a}]", "api_tokens[0]", "`hash`"),
    ("api_tokens: [{name: a, token: short}]", "api_tokens[0].token", "openssl"),
    (f"api_tokens: [{{name: a, token: '{KEY} x'}}]", "api_tokens[0].token", "openssl"),
    ("api_tokens: [{name: a, hash: abc}]", "api_tokens[0].hash", "sha256sum"),
    (f"api_tokens: [{{name: a, token: {KEY}, role: read}}]", "api_tokens[0].role", "caller, admin"),
    (f"api_tokens: [{{token: {KEY}}}]", "api_tokens[0].name", "missing"),
    (f"api_tokens: [{{name: a, tokn: {KEY}}}]", "api_tokens[0].tokn", "Did you mean `token`?"),
]


@pytest.mark.parametrize(("text", "path", "said"), WRONG, ids=[path for _, path, _ in WRONG])
def test_what_cannot_stand_is_refused(text: str, path: str, said: str) -> None:
    """At its path, with what would be right."""
    extra = "" if text.startswith("auth") else f"\n{PASSWORD}"
    found = [each for each in _problems(text + extra) if not each.warning and each.path == path]
    assert [True] == [said in f"{each.what} {each.remedy}" for each in found], _problems(text)
    assert all(each.line for each in found)


def test_every_problem_is_said_at_once() -> None:
    """Of one section, with unknown keys beside wrong values; and nothing twice."""
    text = """
auth:
  mode: oidc
  calers: everybody
  session_max_s: soon
  oidc: {issuer: 3, client_id: c, scope: [openid]}
  admins: [{name: a, hash: x, role: y}, {hash: x}]
"""
    paths = sorted(each.path for each in _problems(text))
    assert [
        "auth.admins[0].role",
        "auth.admins[1].name",
        "auth.calers",
        "auth.oidc.client_secret",
        "auth.oidc.issuer",
        "auth.oidc.scope",
        "auth.session_max_s",
    ] == paths


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (PASSWORD, None),
        (PASSWORD[:-1] + ", proxy: {addresses: [10.0.0.1], admins: [a]}}", "auth.proxy"),
        (OIDC.replace("admin_groups: [ops]", "admin_groups: []"), "auth.oidc.admin_groups"),
        (PROXY.replace("admins: [alice]", "admins: []"), "auth.proxy.admin_groups"),
    ],
)
def test_what_is_worth_a_warning(text: str, path: str | None) -> None:
    """It can be used, and a person should know."""
    found = _problems(text)
    assert ([path] if path else []) == [each.path for each in found]
    assert all(each.warning for each in found)


def test_a_provider_needs_an_address_to_send_people_back_to() -> None:
    """Mode oidc without server.public_url cannot work."""
    base = BASE.replace(', public_url: "https://llm.example.org"', "")
    assert ["server.public_url"] == [each.path for each in _problems(OIDC, base)]


def test_no_message_repeats_a_secret() -> None:
    """Whatever is wrong with it."""
    secret = "hunter2-hunter2"
    texts: list[Any] = [
        f"auth: {{mode: password, admins: [{{name: a, hash: {secret}}}]}}",
        f"auth: {{mode: password, session_key: {secret}}}",
        f"auth: {{mode: {secret}}}",
        f"auth: {{oidc: {{client_secret: {secret}, issuer: {secret}}}}}",
        f"api_tokens: [{{name: a, hash: {secret}}}, {{name: b, token: {secret}}}]",
    ]
    for text in texts:
        assert secret not in str(_problems(text))
