"""Records of core as JSON and back, for the journal.

Rule of this file: by names of fields, what is a default left out, so that an older journal is
read by a newer llmao. What is read is hostile: a value that is not of its type is an error.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args, get_origin

from attrs import evolve, frozen
from cattrs import Converter
from cattrs.gen import make_dict_unstructure_fn

from llmao_core.actions import ActionKind, RowBody, Write
from llmao_core.config import Config, PolicyName
from llmao_core.errors import LlmaoError
from llmao_core.history import RowHistory
from llmao_core.intended import Approval, Intended, Labels, build
from llmao_core.keys import Key
from llmao_core.plan import Hold, Plan
from llmao_core.probes import Target
from llmao_core.secret import Secret
from llmao_core.snapshots import Row

from .journal_mask import Mask, approvals


class JournalError(LlmaoError):
    """A journal cannot be read, or not by this llmao."""


@frozen
class Decision:
    """One action of a plan without its sentences: two are equal when the same would be done.

    body: digest of what would be written, "" for a removal.
    """

    kind: ActionKind
    key: Key
    target: str
    rule: str
    policy: PolicyName
    hold: Hold
    released_by: str = ""
    body: str = ""


class Codec:
    """One direction or both; with a mask it writes what may be written, without one it reads."""

    def __init__(self, mask: Mask | None = None) -> None:
        self._converter = _converter()
        if mask is not None:
            _masked(self._converter, mask)

    def out(self, value: Any, kind: Any) -> Any:
        """Return a value as JSON."""
        return self._converter.unstructure(value, kind)

    def back(self, value: Any, kind: Any) -> Any:
        """Return a value of a type from JSON; JournalError when it is none."""
        try:
            return self._converter.structure(value, kind)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
            name = getattr(kind, "__name__", "value")
            raise JournalError(
                f"it holds a {name} that this llmao does not understand ({type(error).__name__})"
            ) from None

    def decisions(self, plan: Plan) -> tuple[Decision, ...]:
        """Return what a plan would do."""
        return tuple(
            Decision(
                each.kind,
                each.key,
                each.litellm_id,
                each.rule,
                each.policy,
                each.hold,
                each.released_by,
                digest(self.out(each.order.body, RowBody)) if each.order.body else "",
            )
            for each in plan.actions
        )

    def digest(self, plan: Plan) -> str:
        """Return a digest of all of a plan, its sentences included and its secrets left out."""
        return digest(self.out(plan, Plan))


def digest(value: Any) -> str:
    """Return 16 hex digits of some JSON."""
    return hashlib.sha256(dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def dumps(value: Any, *, sort_keys: bool = False) -> str:
    """Return JSON on one line; what is none is written as its text."""
    return json.dumps(value, separators=(",", ":"), default=str, sort_keys=sort_keys)


# ---- types


def _converter() -> Converter:
    made = Converter(
        omit_if_default=True,
        detailed_validation=False,
        unstruct_collection_overrides={frozenset: sorted},
    )
    for kind in (str, int, bool):
        made.register_structure_hook(kind, _exactly)
    made.register_structure_hook(float, _number)
    made.register_unstructure_hook_func(_is_json, dict)
    made.register_structure_hook_func(_is_json, _json)
    made.register_unstructure_hook_func(_is_closed, _itself)
    made.register_structure_hook_func(_is_closed, _closed)
    made.register_unstructure_hook(Key, _key_out)
    made.register_structure_hook(Key, _key_back)
    made.register_unstructure_hook(Target, list)
    made.register_structure_hook(Target, _target_back)
    made.register_unstructure_hook(Secret, _no_secret)
    made.register_structure_hook(Secret, _secret_back)
    made.register_unstructure_hook_factory(_is_table, lambda kind: _table_out(made, kind))
    made.register_structure_hook_factory(_is_table, lambda kind: _table_back(made, kind))
    made.register_unstructure_hook(RowBody, _body_out)
    made.register_unstructure_hook(Intended, lambda one: _intended_out(made, one))
    made.register_structure_hook(Intended, lambda value, _: _intended_back(made, value))
    return made


def _itself(value: Any) -> Any:
    return value


def _exactly(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(kind.__name__)
    return value


def _number(value: Any, _: Any) -> float:
    """Take an integer as it is: a sentence that shows it must not show `.0`."""
    if type(value) not in (int, float):
        raise TypeError("float")
    return value  # type: ignore[no-any-return]


def _json(value: Any, _: Any) -> Any:
    return _exactly(value, dict)


def _closed(value: Any, _: Any) -> Any:
    if value == "warn" or isinstance(value, bool):
        return value
    raise ValueError("require_closed")


def _key_out(key: Key) -> list[str]:
    return [key.base, key.model, key.shown]


def _key_back(value: Any, _: Any) -> Key:
    base, model, shown = _exactly(value, list)
    return Key(_exactly(base, str), _exactly(model, str), _exactly(shown, str))


def _target_back(value: Any, _: Any) -> Target:
    base, bearer_id = _exactly(value, list)
    return Target(_exactly(base, str), _exactly(bearer_id, str))


def _no_secret(_: Secret) -> str:
    raise TypeError("a secret is written through a mask only")


def _secret_back(value: Any, _: Any) -> Secret:
    return Secret(_exactly(value, str))


def _is_json(kind: Any) -> bool:
    return bool(kind == Mapping[str, Any])


def _is_closed(kind: Any) -> bool:
    return bool(kind == Literal["warn"] | bool)


def _is_table(kind: Any) -> bool:
    """Tell a mapping whose keys are no text from the others; it is written as pairs."""
    return get_origin(kind) is Mapping and get_args(kind)[0] is not str


def _table_out(made: Converter, kind: Any) -> Callable[[Any], Any]:
    key, value = get_args(kind)

    def out(table: Mapping[Any, Any]) -> list[Any]:
        return [
            [made.unstructure(one, key), made.unstructure(each, value)]
            for one, each in table.items()
        ]

    return out


def _table_back(made: Converter, kind: Any) -> Callable[[Any, Any], Any]:
    key, value = get_args(kind)

    def back(pairs: Any, _: Any) -> dict[Any, Any]:
        return {
            made.structure(one, key): made.structure(each, value)
            for one, each in _exactly(pairs, list)
        }

    return back


def _body_out(body: RowBody) -> dict[str, Any]:
    """Write a body for its digest: whether it has a key, not which."""
    return {
        "model_name": body.model_name,
        "api_base": body.api_base,
        "litellm_params": dict(body.litellm_params),
        "model_info": dict(body.model_info),
        "api_key": bool(body.api_key),
    }


# ---- what should exist: written as what it is built from


def _intended_out(made: Converter, intended: Intended) -> dict[str, Any]:
    return {
        "config": made.unstructure(intended.config, Config),
        "approvals": made.unstructure(approvals(intended)),
        "labels": made.unstructure(intended.labels, Labels),
    }


def _intended_back(made: Converter, value: Any) -> Intended:
    config = made.structure(value["config"], Config)
    approved = made.structure(value["approvals"], tuple[Approval, ...])
    return build(config, approved, made.structure(value["labels"], Labels))


# ---- masked


def _masked(made: Converter, mask: Mask) -> None:
    """Have everything that holds a secret, or is made from one, written through a mask."""
    row = make_dict_unstructure_fn(Row, made, _cattrs_omit_if_default=True)
    write = make_dict_unstructure_fn(Write, made, _cattrs_omit_if_default=True)
    known = make_dict_unstructure_fn(RowHistory, made, _cattrs_omit_if_default=True)
    placeholders = _converter()
    # the secrets of a masked configuration are placeholders already
    placeholders.register_unstructure_hook(Secret, Secret.reveal)
    made.register_unstructure_hook(Secret, mask.secret)
    made.register_unstructure_hook(
        Target, lambda target: [target.base, mask.bearer_id(target.bearer_id)]
    )
    made.register_unstructure_hook(Row, lambda one: row(mask.row(one)))
    made.register_unstructure_hook(Write, lambda one: write(evolve(one, hash=mask.hash(one.hash))))
    made.register_unstructure_hook(
        RowHistory, lambda one: known(evolve(one, hash=mask.hash(one.hash)))
    )
    made.register_unstructure_hook(Config, lambda one: placeholders.unstructure(mask.config(one)))
    made.register_unstructure_hook(RowBody, lambda body: _body_out(_masked_body(body, mask)))


def _masked_body(body: RowBody, mask: Mask) -> RowBody:
    info = {**body.model_info, "llmao_hash": mask.hash(str(body.model_info.get("llmao_hash")))}
    return evolve(body, litellm_params=mask.params(body.litellm_params), model_info=info)
