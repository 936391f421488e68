"""What is a URL to call, and what only this machine can reach.

Rule of this file: text in, a sentence or a truth out; no URL is repeated.
"""

import ipaddress
from urllib.parse import urlsplit


def url_trouble(url: str) -> str:
    """Return what is wrong with an http URL, "" for nothing; the URL itself is not repeated."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "This is no URL."
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or " " in url:
        return "This is no http:// or https:// URL."
    if parts.username is not None or parts.password is not None:
        return "A user name or password must not stand in a URL."
    if parts.query or parts.fragment:
        return "This URL must end with its path: no `?` and no `#`."
    return ""


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach what is bound to, or called at, this host."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
