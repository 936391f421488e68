"""What a listing that cannot be read now may tell of: boxes that nothing intends.

Rule of this file: what only a listing can tell stays as it was, or is not known. It never becomes
"nothing intends it" for want of a listing.
"""

from collections.abc import Iterator

from .config import HostRow, Model
from .history import History
from .intended import Deployment, box_deployment
from .scene import Scene


def host_and_port(base: str) -> tuple[str, int]:
    """Return the host and listen port of a canonical URL, port 0 for what is none."""
    host, _, port = base.removeprefix("http://").rpartition(":")
    return host.strip("[]"), int(port) if port.isascii() and port.isdigit() else 0


def once_discovered(scene: Scene, history: History) -> Iterator[Deployment]:
    """Yield what was discovered in a listing that is unread now: its verdict stands."""
    unread, config = scene.unread, scene.intended.config
    for key, known in history.keys.items() if unread else ():
        if known.discovered not in unread:
            continue
        host, port = host_and_port(key.base)
        if (model := _model(key.model, host, port, scene, history)) is not None:
            row = HostRow(model.model_name, port, model.model_name)
            yield box_deployment(config, model, host, row)


def may_be_listed(deployment: Deployment, scene: Scene, history: History) -> bool:
    """Tell whether a listing that is unread now may name the box of a row that nothing intends."""
    unread = scene.unread
    if not unread or not deployment.host:
        return False
    known = history.keys.get(deployment.key)
    if known is not None and known.discovered and known.discovered not in unread:
        return False
    host, port = deployment.host, deployment.listen_port
    return _model(deployment.model, host, port, scene, history) is not None


def _model(name: str, host: str, listen_port: int, scene: Scene, history: History) -> Model | None:
    """Return the model that could be discovered there if a listing named the box."""
    intended = scene.intended
    fleet = intended.config.fleet
    named = host in history.intended_hosts or host in intended.labels.retired_hosts
    if named or any(host in (one.name, *one.was) for one in intended.hosts.values()):
        return None
    if not fleet.vllm_api_salt or listen_port not in fleet.listen_ports:
        return None
    found = (one for one in intended.config.models if one.model_name == name and one.recipe)
    return next(found, None)
