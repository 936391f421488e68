"""The office: what an admin can do, each deed kept in the ledger before it is answered.

Rule of this file: a deed repeated is the same deed once. It asks and never decides: what a press
lets run is decided by the next pass, which sees it as a request.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from llmao_core.actions import ActionKind
from llmao_core.check import dropped_hosts, reload_refusals
from llmao_core.config import Config, HostRow
from llmao_core.errors import ConfigError
from llmao_core.keys import Key
from llmao_core.plan import Action, Hold, Policy
from llmao_core.reboot import ask as ask_reboot
from llmao_core.reboot import no_order, reboot_key, take_back
from llmao_core.snapshots import Request, RequestKind

from .archive import Archive, Checked, digest_of, listed
from .asking import (
    LONGEST_LABEL,
    LONGEST_NOTE,
    Refusal,
    checked_host,
    checked_rows,
    checked_text,
)
from .board import REQUESTS_KEPT, Board
from .clock import Clock
from .leader import Leadership
from .ledger import CALLED_OFF, Entry, EntryKind, Kept, row_detail
from .presses import pressed
from .reload import Reloader
from .store import Store, Wanted

REQUEST_COUNTS_S = 600.0
CHECK_AGAIN_S = 300.0
REFUSALS_KEPT_PER_HOUR = 60
_HOUR_S = 3600.0


class Office(Archive):
    """Everything an admin can do, and what only admins are shown.

    keep: writes entries and applies them at once. reload: reads the files and puts them in
    force; tells whether they are. ask: has LiteLLM check one id now. Deeds return a sentence;
    they raise Refusal when nothing was done, and StoreError when it could not be kept.
    """

    def __init__(
        self,
        board: Board,
        store: Store,
        clock: Clock,
        reloader: Reloader,
        *,
        keep: Callable[..., Awaitable[None]],
        kept: Callable[[], Kept],
        reload: Callable[[], Awaitable[bool]],
        read: Callable[[], Awaitable[Config]],
        ask: Callable[[str], None],
        leadership: Callable[[], Leadership],
    ) -> None:
        super().__init__(board, store, reloader, kept)
        self._clock = clock
        self._keep = keep
        self._reload = reload
        self._read = read
        self._ask = ask
        self.leadership = leadership
        self._one_check = asyncio.Lock()
        self._refusals: deque[float] = deque(maxlen=REFUSALS_KEPT_PER_HOUR)

    # ---- hosts

    async def approve(self, host: str, rows: Sequence[HostRow], by: str) -> str:
        """Make a host part of what is intended, at once."""
        host = checked_host(host)
        rows = checked_rows(self._reloader.config, host, rows)
        retired = host in self._kept().labels.retired_hosts
        if not retired and any(
            (each.host, each.rows) == (host, rows) for each in self._kept().approvals
        ):
            return f"{host} is approved so already."
        entries = [
            self._entry(by, EntryKind.APPROVED, host, rows=[row_detail(row) for row in rows])
        ]
        if retired:
            entries.insert(0, self._entry(by, EntryKind.UNRETIRED, host))
        await self._keep(*entries)
        served = ", ".join(f"{row.model} at {row.port}" for row in rows)
        return f"{host} is approved: {served}. It gets its configuration when it asks next."

    async def withdraw(self, host: str, by: str) -> str:
        """Take an approval back; its routes go when its servers no longer answer."""
        host = checked_host(host)
        if self._is_configured(host):
            raise Refusal(f"{host} stands in fleet.hosts of config.yaml: remove it there.")
        if not self._is_approved(host):
            return f"{host} is not approved."
        await self._keep(self._entry(by, EntryKind.WITHDRAWN, host))
        return f"The approval of {host} is withdrawn."

    async def label(self, host: str, label: str, note: str, by: str) -> str:
        """Say what a host is called and what others should know of it; empty texts forget."""
        host = self._known(host)
        label = checked_text(label, "The label", LONGEST_LABEL)
        note = checked_text(note, "The note", LONGEST_NOTE, lines=True)
        before = self.notes().get(host)
        if (label, note) == ((before.label, before.note) if before else ("", "")):
            return f"{host} is labelled so already."
        await self._keep(self._entry(by, EntryKind.LABELLED, host, label=label, note=note))
        return f"{host} is labelled." if label or note else f"{host} has no label any more."

    async def drain(self, host: str, by: str) -> str:
        """Take a host's routes out and keep them out."""
        host = self._known(host)
        if host in self._kept().labels.drained_hosts:
            return f"{host} is drained already."
        await self._keep(self._entry(by, EntryKind.DRAINED, host))
        return f"{host} is being drained: its routes go, and none is added until you undrain it."

    async def undrain(self, host: str, by: str) -> str:
        """Let a host's routes come back."""
        host = checked_host(host)
        if host not in self._kept().labels.drained_hosts:
            return f"{host} is not drained."
        await self._keep(self._entry(by, EntryKind.UNDRAINED, host))
        return f"{host} is no longer drained: its servers are added as they prove themselves."

    async def drain_key(self, litellm_id: str, by: str) -> str:
        """Take one deployment's route out and keep it out."""
        key = self._record(litellm_id).key
        if key in self._kept().labels.drained_keys:
            return f"{key} is drained already."
        await self._keep(self._entry(by, EntryKind.DRAINED, key=key))
        return f"{key} is being drained: its route goes, and is not added until you undrain it."

    async def undrain_key(self, litellm_id: str, by: str) -> str:
        """Let one deployment's route come back."""
        labels = self._kept().labels
        key = self._drained_key(litellm_id)
        out = self._out_with(litellm_id)
        if key is None or key not in labels.drained_keys:
            if out:
                raise Refusal(f"{key} is not drained alone: {out}.")
            return "It is not drained."
        await self._keep(self._entry(by, EntryKind.UNDRAINED, key=key))
        if out:
            return f"{key} is no longer drained alone, and stays out: {out}."
        return f"{key} is no longer drained: it is added once it proves itself."

    def _out_with(self, litellm_id: str) -> str:
        """Return how the whole host of a deployment is kept out and what undoes it, "" if not."""
        try:
            host = self._record(litellm_id).host
        except Refusal:
            return ""
        labels = self._kept().labels
        if host in labels.retired_hosts:
            return f"{host} is retired as a whole; take it back on the page of {host}"
        if host in labels.drained_hosts:
            return f"{host} is drained as a whole; press Undrain on the page of {host}"
        return ""

    async def retire(self, host: str, by: str) -> str:
        """Drain a host that is leaving, hide it, and keep what is known of it."""
        host = self._known(host)
        if host in self._kept().labels.retired_hosts:
            return f"{host} is retired already."
        remembered = self._remembered(host, self._clock.now())
        entries = [self._entry(by, EntryKind.RETIRED, host, **remembered)]
        if self._is_approved(host) and not self._is_configured(host):
            entries.append(self._entry(by, EntryKind.WITHDRAWN, host))
        await self._keep(*entries)
        # Hidden is not ended: the provider goes on sending its bill.
        rented = listed(self._board.view(), host)
        bill = f" It is still rented: end that at {rented.provider}." if rented else ""
        if self._is_configured(host):
            return f"{host} is retired. Now delete its lines from fleet.hosts in config.yaml.{bill}"
        return f"{host} is retired: its routes go, and it is hidden.{bill}"

    async def unretire(self, host: str, by: str) -> str:
        """Show a host again and let it serve, if something still intends it."""
        host = checked_host(host)
        if host not in self._kept().labels.retired_hosts:
            return f"{host} is not retired."
        await self._keep(self._entry(by, EntryKind.UNRETIRED, host))
        if self._is_configured(host):
            return f"{host} is no longer retired."
        return f"{host} is no longer retired. Approve it if it is to serve."

    async def reboot(self, host: str, by: str) -> str:
        """Have a box's provider reboot it, its routes drained first."""
        host = self._known(host)
        view = listed(self._view(), host)
        if view is None:
            raise Refusal(f"No listing names {host}, so nobody can be asked to reboot it.")
        if told := no_order(view):
            raise Refusal(told)
        config, key = self._reloader.config, reboot_key(host)
        if Policy.of(config.policy, config.brake).kinds[ActionKind.REBOOT_BOX] == "observe":
            raise Refusal("The policy for reboot_box is observe: it is never run.")
        if view.rebooting or self._is_asked(key):
            return f"{host} is being rebooted already."
        await self._asked(
            self._entry(by, EntryKind.PRESSED, host, what=ActionKind.REBOOT_BOX.value),
            ask_reboot(view, by, self._clock.now()),
        )
        return f"A reboot of {host} was asked for: its page shows it until it is over."

    async def cancel_reboot(self, host: str, by: str) -> str:
        """Call off a reboot that its provider was not told of yet; its routes come back."""
        host = self._known(host)
        view, key = listed(self._view(), host), reboot_key(host)
        if view is None or not (view.rebooting or self._is_asked(key)):
            return f"{host} is not being rebooted."
        order = self._board.last_try(key, ActionKind.REBOOT_BOX)
        if view.reboot_since is not None or (order is not None and order.outcome is None):
            told = f"Too late: {view.provider} was told to reboot {host}."
            raise Refusal(f"{told} Its routes come back as its servers prove themselves again.")
        entry = self._entry(by, EntryKind.PRESSED, host, what=CALLED_OFF)
        await self._asked(entry, take_back(host, by, self._clock.now()))
        return (
            f"The reboot of {host} is called off, unless {view.provider} is told this very moment: "
            "its page shows that. Its routes come back as its servers prove themselves."
        )

    def _is_asked(self, key: Key) -> bool:
        """Tell whether a reboot was asked for, and not called off, that no pass has seen yet."""
        seen_at = self._view().at
        asked = [one for one in self._board.requests() if one.key == key and one.at >= seen_at]
        return bool(asked) and asked[-1].request is RequestKind.RUN

    def reboots(self) -> Mapping[str, str]:
        """Return what the reboots under way wait for, a sentence by host."""
        view = self._board.view()
        return {one.name: one.rebooting for one in view.hosts if one.rebooting} if view else {}

    # ---- the plan

    async def press(self, digest: str, by: str) -> str:
        """Let one action run that waits for a person or is held.

        digest: of the evidence it was shown with; the request lapses with it, or in ten minutes.
        """
        if any(digest and each.digest == digest for each in self._board.requests()):
            return "It was asked for already."
        action = self._action(digest)
        if action.runs:
            return f"{_said(action)} runs by itself."
        if action.policy == "observe":
            raise Refusal(f"The policy for {action.kind.value} is observe: it is never run.")
        detail = {"what": action.kind.value, "rule": action.rule, "reason": action.reason}
        await self._asked(
            self._entry(by, EntryKind.PRESSED, key=action.key, **detail),
            Request(
                RequestKind.RUN,
                by,
                *self._while(),
                key=action.key,
                kind=action.kind,
                digest=digest,
            ),
        )
        return f"{_said(action)} is released."

    async def release_brake(self, by: str) -> str:
        """Let run what the brake holds, for ten minutes."""
        kind = RequestKind.RELEASE_BRAKE
        if any(each.request is kind for each in self._board.requests()):
            return "The brake is released already."
        held = sum(action.hold is Hold.BRAKE for action in self._plan().actions)
        if not held:
            raise Refusal("The brake holds nothing now.")
        await self._asked(
            self._entry(by, EntryKind.PRESSED, what=kind.value, held=held),
            Request(kind, by, *self._while()),
        )
        return f"The brake is released for {held} removals, for ten minutes."

    # ---- configuration

    async def check_config(self, by: str) -> str:
        """Read the configuration files and say what is wrong; nothing is put in force."""
        try:
            new = await self._read()
        except ConfigError as error:
            said = [str(problem) for problem in error.problems if not problem.warning]
        else:
            old = self._reloader.config
            said = [str(problem) for problem in reload_refusals(old, new)]
            if dropped := dropped_hosts(old, new, old.brake):
                said.append(f"It drops {len(dropped)} hosts: a reload asks for a confirmation.")
        await self._keep(self._entry(by, EntryKind.CONFIG_CHECKED, said=said))
        self._checked = Checked(self._clock.now(), by, tuple(said))
        if said:
            raise Refusal("A reload would not take these files as they are: see below.")
        return "The files are good."

    async def reload(self, by: str) -> str:
        """Read the configuration files and put them in force, as far as they can be."""
        taken = await self._reload()
        trouble = self._board.trouble("config")
        said = trouble.message.split("\n") if trouble else []
        waits = self._reloader.pending is not None
        outcome = "waits" if waits else "taken" if taken else "not taken"
        await self._keep(self._entry(by, EntryKind.RELOADED, outcome=outcome, said=said))
        if waits:
            raise Refusal(
                "The changed configuration drops most hosts, or the last, and waits: confirm it "
                "below."
            )
        if not taken:
            raise Refusal("The changed configuration was not taken; what is wrong is shown below.")
        return (
            "The configuration is in force, but for what is shown below."
            if said
            else ("The configuration is in force.")
        )

    async def confirm_reload(self, shown: str, by: str) -> str:
        """Put in force what waits for a confirmation. shown: digest of the hosts it drops."""
        pending = self._reloader.pending
        if pending is None:
            raise Refusal("No configuration waits for a confirmation.")
        hosts = list(pending.dropped)
        entry = self._entry(by, EntryKind.RELOADED, outcome="confirmed", dropped=hosts)
        meant = shown == digest_of(hosts)
        if meant:
            await self._keep(entry)
        if not meant or self._reloader.pending is not pending:
            raise Refusal("The files were read again since: look at the hosts once more.")
        self._reloader.confirm()
        dropped = "1 host was" if len(hosts) == 1 else f"{len(hosts)} hosts were"
        return f"The configuration is in force; {dropped} dropped."

    # ---- LiteLLM

    async def check_now(self, litellm_id: str, by: str) -> str:
        """Have LiteLLM check one deployment, which costs tokens; again after five minutes."""
        async with self._one_check:
            record = self._record(litellm_id)
            if record.row is None:
                raise Refusal(f"{record.key} is not in LiteLLM, so LiteLLM cannot check it.")
            wait_s = await self._check_again_s(record.key)
            if wait_s > 0:
                raise Refusal(
                    f"LiteLLM was asked about {record.key} lately, and each check costs tokens:"
                    f" again in {wait_s:.0f} s."
                )
            await self._keep(self._entry(by, EntryKind.CHECKED, record.host, key=record.key))
            self._ask(record.row.id)
        return f"LiteLLM is checking {record.key}; its answer appears with the deployment."

    async def refused(self, by: str, what: str) -> None:
        """Note that somebody asked for what is not theirs; a flood is noted once a minute."""
        now = self._clock.now()
        if len(self._refusals) == REFUSALS_KEPT_PER_HOUR and now - self._refusals[0] < _HOUR_S:
            return
        self._refusals.append(now)
        await self._keep(self._entry(by or "anybody", EntryKind.REFUSED, what=what))

    async def signed_in(self, by: str, mode: str) -> None:
        """Note that an admin signed in, in this mode of auth."""
        await self._keep(self._entry(by, EntryKind.SIGNED_IN, mode=mode))

    # ---- keeping

    def _entry(
        self, by: str, kind: EntryKind, host: str = "", *, key: Key | None = None, **detail: Any
    ) -> Entry:
        return Entry(self._clock.now(), by, kind, host, key, detail)

    def _while(self) -> tuple[float, float]:
        now = self._clock.now()
        return now, now + REQUEST_COUNTS_S

    async def _asked(self, entry: Entry, request: Request) -> None:
        if len(self._board.requests()) >= REQUESTS_KEPT:
            raise Refusal("Too many requests are waiting; try again in some minutes.")
        await self._keep(pressed(entry, request))
        self._board.request(request)

    async def _check_again_s(self, key: Key) -> float:
        wanted = Wanted(frozenset({EntryKind.CHECKED}), key=key, limit=1)
        last = await self._store.entries(wanted)
        return last[0].entry.at + CHECK_AGAIN_S - self._clock.now() if last else 0.0


def _said(action: Action) -> str:
    return f"{action.key}: “{action.kind.words}”"
