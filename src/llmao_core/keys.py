"""How a deployment is named: host names, base URLs and the key.

Rule of this file: two spellings of one thing become equal here, and nowhere else.
"""

import ipaddress
import re
from urllib.parse import urlsplit

from attrs import field, frozen

_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]{0,251}[a-z0-9_])?")
_ALMOST_ADDRESS = re.compile(r"\d+(\.\d+)+")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def host_name(text: str) -> str:
    """Return the one spelling of a host name; ValueError says what is wrong with it.

    Trimmed, lower case, `::ffff:` dropped, IPv6 compressed and without brackets.
    """
    name = text.strip().lower()
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        if not _HOST.fullmatch(name) or _ALMOST_ADDRESS.fullmatch(name) or ".." in name:
            raise ValueError(
                "a host is an address, a DNS name, a contract label or a pod id"
            ) from None
        return name
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def is_host(text: str) -> bool:
    """Tell whether this can name a host."""
    try:
        host_name(text)
    except ValueError:
        return False
    return True


def is_address(host: str) -> bool:
    """Tell whether a normalised host name is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_dialable(host: str) -> bool:
    """Tell whether a normalised host name can be dialled: an address or a DNS name.

    A name of one part is a contract or pod id, unless it is `localhost`; `c.4711` is a Vast
    contract label.
    """
    if is_address(host) or host == "localhost":
        return True
    return "." in host and not re.fullmatch(r"c\.\d+", host)


def _netloc(host: str, port: int | None) -> str:
    shown = f"[{host}]" if ":" in host else host
    return shown if port is None else f"{shown}:{port}"


def canonical_url(host: str, listen_port: int) -> str:
    """Return the identity of a server on a box: never dialled, never rendered."""
    return f"http://{_netloc(host, listen_port)}"


def endpoint_url(scheme: str, host: str, port: int) -> str:
    """Return the root to dial for one endpoint of a listing, normalised."""
    return normalise_base(f"{scheme}://{_netloc(host_name(host), port)}")


def normalise_base(url: str) -> str:
    """Return a base URL in its one spelling, without `/v1`, trailing `/` or default port.

    What cannot be parsed comes back trimmed, so that it equals only itself.
    """
    text = url.strip()
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return text
    if not parts.scheme or not host:
        return text
    try:
        host = host_name(host)
    except ValueError:
        host = host.lower()
    scheme = parts.scheme.lower()
    if port == _DEFAULT_PORTS.get(scheme):
        port = None
    path = parts.path.rstrip("/")
    path = path[: -len("/v1")].rstrip("/") if path.endswith("/v1") else path
    return f"{scheme}://{_netloc(host, port)}{path}"


@frozen(order=True, cache_hash=True)
class Key:
    """Identity of a deployment: canonical URL and model name.

    base: canonical URL, kept out of `repr` and `str`. shown: what people see instead,
    `host:listen_port` for a box and the provider's name for a commercial deployment.
    """

    base: str = field(repr=False)
    model: str
    shown: str = field(eq=False, order=False)

    def __str__(self) -> str:
        return f"{self.shown} {self.model}"

    @property
    def place(self) -> str:
        """Return the host of a box, or the provider's name."""
        return self.shown.rpartition(":")[0].strip("[]") or self.shown


def box_key(host: str, listen_port: int, model: str) -> Key:
    """Return the key of a model served by a box."""
    return Key(canonical_url(host, listen_port), model, _netloc(host, listen_port))


def commercial_key(provider: str, api_base: str, model: str) -> Key:
    """Return the key of a model served by a commercial provider."""
    return Key(normalise_base(api_base), model, provider)
