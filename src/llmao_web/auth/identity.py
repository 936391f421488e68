"""Who a request is from, by the mode of sign-in.

Rule of this file: one function per mode, from a request to a User or None; it signs nobody in
and answers nothing.
"""

import hashlib
import re
from collections.abc import Callable
from typing import Any

from llmao_core.config import AuthConfig, ProxyConfig
from llmao_core.urls import is_loopback
from llmao_web.peers import header_of, is_within, networks, peer_of, values_of
from llmao_web.people import User

from .guards import TurnedAwayError
from .session import Session

OPERATOR = User("operator", admin=True)
LONGEST_NAME = 128
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?")
_PROXIED = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip")

# A scope and the session of its cookie → who asks; None for who is not signed in.
Identify = Callable[[Any, Session | None], User | None]


def identifying(auth: AuthConfig) -> Identify:
    """Return how requests are told apart in this mode."""
    if auth.mode == "open":
        return _everybody
    if auth.proxy and auth.mode == "proxy":
        return _by_headers(auth.proxy)

    def by_session(_: Any, session: Session | None) -> User | None:
        if session is None or session.basis != basis_of(auth, session.name):
            return None
        return User(session.name, session.admin)

    return by_session


def basis_of(auth: AuthConfig, name: str) -> str:
    """Return a fingerprint of what a sign-in under this name rests on, "" for nothing.

    It changes with the password, and with the provider and its groups of admins.
    """
    if auth.mode == "oidc" and auth.oidc:
        rests_on = [auth.oidc.issuer, auth.oidc.client_id, *sorted(auth.oidc.admin_groups)]
    else:
        rests_on = [admin.hash.reveal() for admin in auth.admins if admin.name == name]
    if not name or not rests_on:
        return ""
    text = "\x00".join([auth.mode, name, *rests_on])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _everybody(scope: Any, _: Session | None) -> User:
    """Return the operator, for what came from this machine and was meant for it.

    A page elsewhere can have its own name lead here (DNS rebinding); the name it was called by
    gives that away, as a proxy's headers give away that somebody else is asking.
    """
    if not is_loopback(peer_of(scope)):
        raise TurnedAwayError(
            status_code=403,
            detail="Without sign-in llmao answers this machine only. Set auth.mode in config.yaml.",
        )
    if not is_loopback(_named(header_of(scope, b"host"))):
        raise TurnedAwayError(
            status_code=403,
            detail="Without sign-in llmao answers at 127.0.0.1, localhost and [::1] only. To use "
            "another name, set auth.mode in config.yaml.",
        )
    if any(values_of(scope, name) for name in _PROXIED):
        raise TurnedAwayError(
            status_code=403,
            detail="This came through a proxy, and without sign-in anybody could. Set auth.mode "
            "in config.yaml.",
        )
    return OPERATOR


def _named(host: str) -> str:
    """Return a Host header without its port, "" for what is none."""
    found = _HOST.fullmatch(host)
    return found[1] if found else ""


def _by_headers(proxy: ProxyConfig) -> Identify:
    among = networks(proxy.addresses)
    user_header = proxy.user_header.lower().encode()
    groups_header = proxy.groups_header.lower().encode()

    def by_headers(scope: Any, _: Session | None) -> User | None:
        if not is_within(peer_of(scope), among):
            return None
        # a second value is one that the proxy let through from somebody else
        names, groups = values_of(scope, user_header), values_of(scope, groups_header)
        if len(names) != 1 or len(groups) > 1 or not is_name(names[0]):
            return None
        member_of = {each.strip() for each in groups[0].split(",")} if groups else set()
        admin = names[0] in proxy.admins or bool(member_of & set(proxy.admin_groups))
        return User(names[0], admin)

    return by_headers


def is_name(text: str) -> bool:
    """Tell whether somebody can be called this."""
    return bool(text) and text == text.strip() and len(text) <= LONGEST_NAME and text.isprintable()
