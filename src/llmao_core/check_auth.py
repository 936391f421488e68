"""What sections `auth` and `api_tokens` may say.

Rule of this file: pure; each rule is a generator of findings. No message repeats a value.
"""

import ipaddress
import re
from collections.abc import Collection, Iterator, Sequence
from urllib.parse import urlsplit

from .config import ApiToken, AuthConfig, Config, OidcConfig, ProxyConfig
from .places import Finding, Path, Written
from .secret import Secret
from .urls import is_loopback, url_trouble

SHORTEST_KEY = 32
SHORTEST_TOKEN = 16
LONGEST_NAME = 128

_AUTH: Path = ("auth",)
_ARGON2 = re.compile(
    r"\$argon2(id|i|d)\$v=19\$m=[0-9]{1,7},t=[0-9]{1,3},p=[0-9]{1,3}"
    r"\$[A-Za-z0-9+/]{11,128}\$[A-Za-z0-9+/]{16,256}"
)
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_NOT_FOR_NAMES = frozenset({"authorization", "cookie", "host", "x-forwarded-for", "forwarded"})
_SHA256 = re.compile(r"[0-9a-f]{64}")
# mode → the part of the section that only this mode reads
_OWN = {"password": "admins", "oidc": "oidc", "proxy": "proxy"}


def findings(config: Config, written: Written) -> Iterator[Finding]:
    """Yield everything that cannot stand, or is worth a warning."""
    auth = config.auth
    yield from bind(config)
    yield from _behind_a_proxy(config)
    yield from _sessions(auth)
    for mode, part in _OWN.items():
        path = (*_AUTH, part)
        given = getattr(auth, part)
        if written.broken.touches(*path):
            continue
        if mode == auth.mode and not given:
            yield Finding(path, f"Mode {mode} needs `auth.{part}`.", "Add it.")
        elif mode != auth.mode and given:
            what = f"This has no effect in mode {auth.mode}."
            yield Finding(path, what, f"Remove it, or set auth.mode to {mode}.", warning=True)
    yield from _admins(auth)
    if auth.oidc:
        yield from _oidc(auth.oidc, config)
    if auth.proxy:
        yield from _proxy(auth.proxy)
    yield from _tokens(config.api_tokens)


def bind(config: Config) -> Iterator[Finding]:
    """Yield what is wrong between who may sign in and where llmao listens."""
    if config.auth.mode == "open" and not is_loopback(config.server.host):
        yield Finding(
            ("server", "host"),
            "Without sign-in (mode open) llmao listens on a loopback address only.",
            "Set auth.mode to password, proxy or oidc, or server.host to 127.0.0.1.",
        )


def _behind_a_proxy(config: Config) -> Iterator[Finding]:
    host = _host_of(config.server.public_url)
    if config.auth.mode == "open" and host and not is_loopback(host):
        yield Finding(
            (*_AUTH, "mode"),
            "Without sign-in whoever a proxy lets through to llmao is an admin.",
            "Let the proxy at server.public_url pass on only /vllm/ and /box/, or set auth.mode.",
            warning=True,
        )


def _host_of(url: str) -> str:
    return "" if url_trouble(url) else urlsplit(url).hostname or ""


def _sessions(auth: AuthConfig) -> Iterator[Finding]:
    for name in ("session_idle_s", "session_max_s"):
        if not 60 <= getattr(auth, name) <= 31_536_000:
            yield Finding((*_AUTH, name), "This must be from a minute to a year.", "In seconds.")
    if auth.session_idle_s > auth.session_max_s:
        yield Finding((*_AUTH, "session_idle_s"), "This is longer than session_max_s.")
    key = auth.session_key
    if key and len(key.reveal()) < SHORTEST_KEY:
        yield Finding(
            (*_AUTH, "session_key"),
            f"This is shorter than {SHORTEST_KEY} characters.",
            "Make one with `openssl rand -hex 32`.",
        )


def _name_trouble(name: str) -> str:
    if not name or name != name.strip() or not name.isprintable():
        return "A name must not be empty, begin or end with a space, or hide characters."
    return f"This is longer than {LONGEST_NAME} characters." if len(name) > LONGEST_NAME else ""


def _names(names: Sequence[str], path: Path, field: str = "") -> Iterator[Finding]:
    """Yield names that are none, or stand twice. field: where in an item the name stands."""
    for index, name in enumerate(names):
        here = (*path, index, field) if field else (*path, index)
        if trouble := _name_trouble(name):
            yield Finding(here, trouble)
        elif name in names[:index]:
            yield Finding(here, "This name stands twice.", "Remove one of the two.")


def _admins(auth: AuthConfig) -> Iterator[Finding]:
    path = (*_AUTH, "admins")
    yield from _names([admin.name for admin in auth.admins], path, "name")
    for index, admin in enumerate(auth.admins):
        if not _ARGON2.fullmatch(admin.hash.reveal()):
            yield Finding(
                (*path, index, "hash"),
                "This is no argon2 hash.",
                "Make one with `llmao hash-password`.",
            )


def _oidc(oidc: OidcConfig, config: Config) -> Iterator[Finding]:
    path = (*_AUTH, "oidc")
    if trouble := url_trouble(oidc.issuer):
        yield Finding((*path, "issuer"), trouble, "Write it like https://id.example.org.")
    elif oidc.issuer.startswith("http:") and not is_loopback(_host_of(oidc.issuer)):
        yield Finding((*path, "issuer"), "An OpenID provider is asked over https only.")
    if not oidc.client_id:
        yield Finding((*path, "client_id"), "This is not set.")
    if not oidc.client_secret:
        yield Finding((*path, "client_secret"), "This is not set.")
    if "openid" not in oidc.scopes:
        yield Finding((*path, "scopes"), "Without the scope openid nobody is named.", "Add it.")
    yield from _names(oidc.admin_groups, (*path, "admin_groups"))
    for name in ("name_claim", "groups_claim"):
        if not getattr(oidc, name):
            yield Finding((*path, name), "This is not set.")
    if not oidc.admin_groups:
        yield _no_admins((*path, "admin_groups"))
    if not config.server.public_url:
        yield Finding(
            ("server", "public_url"),
            "Mode oidc needs the address the provider sends people back to.",
            "Write it like https://llm.example.org.",
        )


def _no_admins(path: Path) -> Finding:
    return Finding(path, "Nobody is an admin.", "Name a group.", warning=True)


def _proxy(proxy: ProxyConfig) -> Iterator[Finding]:
    path = (*_AUTH, "proxy")
    if not proxy.addresses:
        yield Finding((*path, "addresses"), "No proxy is named, so nobody can sign in.", "Add one.")
    for index, each in enumerate(proxy.addresses):
        yield from _network(each, (*path, "addresses", index))
    for name in ("user_header", "groups_header"):
        header = getattr(proxy, name)
        if not _HEADER.fullmatch(header) or header.lower() in _NOT_FOR_NAMES:
            yield Finding(
                (*path, name), "This header cannot name anybody.", "Write it like X-Forwarded-User."
            )
    if proxy.user_header.lower() == proxy.groups_header.lower():
        yield Finding((*path, "groups_header"), "This is the header with the user's name.")
    yield from _names(proxy.admins, (*path, "admins"))
    yield from _names(proxy.admin_groups, (*path, "admin_groups"))
    if not proxy.admins and not proxy.admin_groups:
        yield _no_admins((*path, "admin_groups"))


def _network(text: str, path: Path) -> Iterator[Finding]:
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        yield Finding(
            path,
            "This is no network.",
            "Write an address or a CIDR such as 10.0.0.0/8, host bits zero.",
        )
        return
    if not network.prefixlen:
        yield Finding(path, "This trusts everybody's headers.", "Name the proxy's own address.")


def _tokens(tokens: Collection[ApiToken]) -> Iterator[Finding]:
    path: Path = ("api_tokens",)
    yield from _names([each.name for each in tokens], path, "name")
    for index, each in enumerate(tokens):
        if bool(each.token) == bool(each.hash):
            yield Finding((*path, index), "A token is given by `token` or by `hash`, one of them.")
        elif each.token:
            yield from _token(each.token, (*path, index, "token"))
        elif each.hash and not _SHA256.fullmatch(each.hash.reveal()):
            yield Finding(
                (*path, index, "hash"),
                "This is no SHA-256 in small hex digits.",
                "Make one with `printf %s TOKEN | sha256sum`.",
            )


def _token(token: Secret, path: Path) -> Iterator[Finding]:
    text = token.reveal()
    if len(text) < SHORTEST_TOKEN or not text.isascii() or " " in text:
        yield Finding(
            path,
            f"A token has at least {SHORTEST_TOKEN} characters, plain ASCII without spaces.",
            "Make one with `openssl rand -hex 32`.",
        )
