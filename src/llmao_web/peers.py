"""Which address a request comes from, and whose word about that is taken.

Rule of this file: a header is a claim; it counts only when the TCP peer is a proxy of ours.
"""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from llmao_core.keys import host_name, is_address

Networks = tuple[IPv4Network | IPv6Network, ...]
NAMES_CACHED = 4096
_MOST_HOPS = 32


def networks(texts: Iterable[str]) -> Networks:
    """Return networks from checked text."""
    return tuple(ip_network(text) for text in texts)


def is_within(address: str, among: Networks) -> bool:
    """Tell whether an address lies in one of the networks; False for what is no address."""
    return is_address(address) and any(ip_address(address) in network for network in among)


def peer_of(scope: Any) -> str:
    """Return the normalised address of the TCP peer, "" when there is none."""
    client = scope.get("client")
    return normal(client[0]) if client else ""


def caller_of(scope: Any, proxies: Networks) -> str:
    """Return the address a person calls from, as far as our own proxies say."""
    address = peer_of(scope)
    hops = header_of(scope, b"x-forwarded-for").split(",")[-_MOST_HOPS:]
    while hops and is_within(address, proxies):
        said = normal(hops.pop().strip())
        if not is_address(said):
            break
        address = said
    return address


def shared_by(address: str) -> str:
    """Return what is counted as one caller: an IPv4 address, or a /64 that one line is given."""
    bare = address.partition("%")[0]
    if is_address(bare) and isinstance(ip_address(bare), IPv6Address):
        return str(ip_network(f"{bare}/64", strict=False))
    return address


def values_of(scope: Any, name: bytes) -> list[str]:
    """Return every value of a header, as text."""
    return [_text(value) for each, value in scope["headers"] if each == name]


def header_of(scope: Any, name: bytes) -> str:
    """Return a header as text, repeated ones joined; "" when absent."""
    return ",".join(values_of(scope, name))


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


@lru_cache(NAMES_CACHED)
def normal(host: str) -> str:
    """Return the one spelling of a host; what can be none comes back trimmed, in lower case."""
    try:
        return host_name(host)
    except ValueError:
        return host.strip().lower()
