"""The same world without its secrets: what the journal may hold in place of what llmao knows.

Rule of this file: no secret and nothing made from one leaves it. A secret becomes a placeholder,
equal ones the same; fingerprints and hashes become what they would be if the placeholders were
the secrets, so that reconcile decides over the masked world as it did over the real one.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve

from llmao_core.bearer import derive
from llmao_core.config import Config, FleetConfig, HostRow, Json, LitellmConfig
from llmao_core.intended import (
    Approval,
    Deployment,
    Intended,
    bearers,
    box_deployment,
    build,
)
from llmao_core.records import Kind, View
from llmao_core.secret import Secret
from llmao_core.snapshots import Instance, Row, Snapshots

from .secrets_in import secrets_in

MOST_KNOWN = 500_000
_SECRET_WORDS = (
    "key", "secret", "token", "password", "credential", "auth", "cookie", "headers", "private",
    "certificate", "fingerprint",
)  # fmt: skip
_SHORTEST = 6
_SCRUBBED = "(secret)"
_BEARER = re.compile(r"sk-vllm-[A-Za-z0-9_-]{20,}")


class Mask:
    """Placeholders for secrets, and what is made from them, for one process's journal."""

    def __init__(self) -> None:
        self._placeholders: dict[Secret, str] = {}
        self._ids: dict[str, str] = {}
        self._hashes: dict[str, str] = {}
        self._configured: frozenset[str] = frozenset()
        self._strange: frozenset[str] = frozenset()
        self._looked: tuple[object, ...] = ()
        self._real: Intended | None = None
        self._masked: Intended | None = None

    # ---- one value

    def secret(self, secret: Secret) -> str:
        """Return the placeholder of a secret; an empty one stays empty."""
        if not secret:
            return ""
        return self._placeholders.setdefault(secret, f"masked-{len(self._placeholders)}")

    def bearer_id(self, real: str) -> str:
        """Return a bearer's fingerprint as the placeholders make it."""
        return self._ids.get(real, real)

    def hash(self, real: str) -> str:
        """Return the hash of a body as the placeholders make it."""
        return self._hashes.get(real, real)

    def params(self, params: Json) -> dict[str, Any]:
        """Return LiteLLM's parameters, what is secret by its name replaced."""
        return {name: self._param(name, value) for name, value in params.items()}

    def row(self, row: Row) -> Row:
        """Return a row with its parameters masked and its hash translated."""
        info = row.info
        if isinstance(stamped := info.get("llmao_hash"), str):
            info = {**info, "llmao_hash": self.hash(stamped)}
        return evolve(row, params=self.params(row.params), info=info, hash=self.hash(row.hash))

    def scrubbed(self, text: str) -> str:
        """Return JSON without the configuration's secrets, wherever they may have come from.

        Shorter than 6 characters is none: it may be a part of anything.
        """
        for secret in self._configured:
            if secret in text:
                text = text.replace(secret, _SCRUBBED)
        return _BEARER.sub(_SCRUBBED, text) if "sk-vllm-" in text else text

    def _param(self, name: str, value: Any) -> Any:
        if isinstance(value, Secret):
            return self.secret(value)
        if any(word in name.lower() for word in _SECRET_WORDS):
            return self._hidden(value)
        if isinstance(value, Mapping):
            return self.params(value)
        return value

    def _hidden(self, value: Any) -> Any:
        """Return a value without any text in it; numbers are no secrets."""
        if isinstance(value, str):
            return self.secret(Secret(value))
        if isinstance(value, Mapping):
            return {name: self._hidden(each) for name, each in value.items()}
        if isinstance(value, Sequence):
            return [self._hidden(each) for each in value]
        return value

    # ---- what should exist

    def config(self, config: Config) -> Config:
        """Return as much of a configuration as reconcile looks at, masked."""
        models = tuple(
            evolve(model, litellm_params=self.params(model.litellm_params))
            for model in config.models
        )
        commercial = tuple(
            evolve(one, api_key=self._secret(one.api_key)) for one in config.commercial
        )
        defaults = self.params(config.litellm.deployment_defaults)
        return Config(
            litellm=LitellmConfig(
                poll_interval_s=config.litellm.poll_interval_s, deployment_defaults=defaults
            ),
            fleet=self._fleet(config.fleet),
            commercial=commercial,
            models=models,
        )

    def _fleet(self, fleet: FleetConfig) -> FleetConfig:
        salts = tuple(Secret(self.secret(salt)) for salt in fleet.vllm_api_salt)
        return evolve(
            fleet,
            key=(),
            vllm_api_salt=salts,
            selfhost_api_key=self._secret(fleet.selfhost_api_key),
        )

    def _secret(self, secret: Secret | None) -> Secret | None:
        return None if secret is None else Secret(self.secret(secret))

    # ---- what is made from secrets

    def learn(self, snapshots: Snapshots, view: View) -> bool:
        """Learn what this pass made from secrets; tell whether anything was new.

        When it was, what was written before may be spelled otherwise: begin with a keyframe.
        """
        if len(self._ids) + len(self._hashes) > MOST_KNOWN:
            self._ids, self._hashes, self._real = {}, {}, None
        before = len(self._ids), len(self._hashes)
        if snapshots.intended is not None and snapshots.intended is not self._real:
            self._intend(snapshots.intended)
        self._look_for_strangers(snapshots, view)
        self._discover(view)
        return before != (len(self._ids), len(self._hashes))

    def _intend(self, intended: Intended) -> None:
        self._real = intended
        self._masked = build(self.config(intended.config), approvals(intended), intended.labels)
        self._pair(intended.deployments, self._masked.deployments)
        self._configured = frozenset(_spelled(intended.config))
        self._looked = ()

    def _pair(self, real: Iterable[Deployment], masked: Iterable[Deployment]) -> None:
        for one, other in zip(real, masked, strict=True):
            if one.bearer_id:
                self._ids[one.bearer_id] = other.bearer_id
            if one.body.hash:
                self._hashes[one.body.hash] = other.body.hash
            if one.previous is not None and other.previous is not None:
                self._pair((one.previous,), (other.previous,))
            self._pair(one.former, other.former)

    def _look_for_strangers(self, snapshots: Snapshots, view: View) -> None:
        """Find which server each fingerprint is of that nothing intended has."""
        probed = {target.bearer_id for target in snapshots.probes.reports}
        aimed = {spec.target.bearer_id for spec in view.targets}
        strange = frozenset(one for one in probed | aimed if one not in self._ids)
        looked = (snapshots.intended, snapshots.deployments.snapshot, snapshots.inventories)
        tried = len(looked) == len(self._looked) and all(map(_same, looked, self._looked))
        if not strange or (tried and strange <= self._strange):
            return
        self._strange, self._looked = strange, looked
        if self._real is not None and self._masked is not None:
            real, masked = self._real.config.fleet, self._masked.config.fleet
            for host, port in sorted(set(_servers(snapshots))):
                ids, others = _ids(real, host, port), _ids(masked, host, port)
                for one, other in zip(ids, others, strict=True):
                    if one in strange:
                        self._ids[one] = other

    def _discover(self, view: View) -> None:
        for record in view.records:
            one = record.deployment
            if record.kind is not Kind.DISCOVERED or one is None or one.body.hash in self._hashes:
                continue
            assert self._masked is not None
            config = self._masked.config
            model = next(each for each in config.models if each.model_name == one.model)
            row = HostRow(one.model, one.listen_port, one.model)
            self._pair((one,), (box_deployment(config, model, one.host, row),))


def _spelled(config: Config) -> Iterator[str]:
    """Yield the secrets of a configuration as JSON spells them."""
    for secret in secrets_in(config):
        if len(secret.reveal()) >= _SHORTEST:
            yield json.dumps(secret.reveal())[1:-1]


def _same(one: object, other: object) -> bool:
    return one is other


def approvals(intended: Intended) -> tuple[Approval, ...]:
    """Return what `build` needs of approvals; who approved decides nothing."""
    return tuple(
        Approval(host, intended.hosts[host].rows, "", 0.0) for host in sorted(intended.approved)
    )


def _ids(fleet: FleetConfig, host: str, port: int) -> Iterator[str]:
    """Yield the fingerprint of every bearer a server may have, in one order."""
    for bearer, salt in bearers(fleet, host, port):
        yield bearer.fingerprint(salt)
    for salt in fleet.vllm_api_salt:
        yield derive(salt, host, port).fingerprint(salt)


def _servers(snapshots: Snapshots) -> Iterator[tuple[str, int]]:
    """Yield every server that a listing or a row names, whoever intends it."""
    for reading in snapshots.inventories.values():
        for instance in reading.snapshot.body.instances if reading.snapshot else ():
            for name in _names(instance):
                yield from ((name, port) for port in instance.endpoints)
    read = snapshots.deployments.snapshot
    for row in read.body.rows if read else ():
        host, _, port = row.llmao_key.removeprefix("http://").rpartition(":")
        if host and port.isascii() and port.isdigit():
            yield host.strip("[]"), int(port)


def _names(instance: Instance) -> tuple[str, ...]:
    return (*instance.names, instance.id.lower(), *instance.addresses)
