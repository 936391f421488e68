"""What `plan` and `explain` share: one look at everything, and how an action is said.

Rule of this file: it reads and changes nothing.
"""

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmao_core.actions import ActionKind
from llmao_core.plan import Action, Hold

from .common import loaded, plugins, print_problems

if TYPE_CHECKING:
    from llmao_web.shell.once import Looked

SIGNS = {
    ActionKind.ADD_LITELLM: "+",
    ActionKind.UPDATE_LITELLM: "~",
    ActionKind.REPLACE_LITELLM: "~",
    ActionKind.DELETE_LITELLM: "-",
    ActionKind.DELETE_DUPLICATE: "-",
    ActionKind.PRUNE_ORPHAN: "-",
    ActionKind.REBOOT_BOX: "!",
}


def look(config_path: Path) -> "Looked":
    """Read every source and probe every target once; warnings go to standard error."""
    from llmao_web import logs
    from llmao_web.shell.clock import SystemClock
    from llmao_web.shell.ledger import Kept
    from llmao_web.shell.once import look_once
    from llmao_web.shell.opening import looked_into
    from llmao_web.shell.store import MemoryStore

    host = plugins()
    given = loaded(config_path, host)
    mask = logs.Mask()
    mask.learn(given.config)
    logs.configure(mask, level=logging.CRITICAL)
    print_problems(given.warnings, err=True)

    async def looked() -> "Looked":
        clock = SystemClock()
        async with looked_into(given.config.store, config_path.parent, clock) as store:
            # What was decided and is not configured is in the store; the look writes nothing.
            kept = await store.kept() if store else Kept()
        return await look_once(given.config, host, clock, MemoryStore(kept=kept))

    return asyncio.run(looked())


def held(action: Action) -> str:
    """Return why an action does not run by itself, "" when it does."""
    return waits(action.runs, action.policy, action.released_by, action.hold)


def waits(runs: bool, policy: str, released_by: str, hold: Hold) -> str:
    """Return why an action with these fields does not run by itself, "" when it does."""
    if runs:
        return ""
    if policy != "auto" and not released_by:
        return {"observe": "observed only", "needs_human": "waits for a person"}[policy]
    return hold.value if hold is not Hold.NOT_HELD else "held"


def action_json(action: Action) -> dict[str, Any]:
    """Return an action as JSON; no body, which holds a bearer."""
    return {
        "kind": action.kind.value,
        "key": {"shown": action.key.shown, "model": action.key.model},
        "litellm_id": action.litellm_id,
        "rule": action.rule,
        "reason": action.reason,
        "evidence": list(action.evidence),
        "policy": action.policy,
        "runs": action.runs,
        "held": held(action),
    }
