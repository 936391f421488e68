"""The three Sieve families, swept: stale view, missed transition, crash between writes.

Rule of this file: systematic, nothing by chance. Each case is one short life in which one thing
happens and one thing goes wrong at one place; its name says which, and runs it again.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping

from attrs import evolve, frozen

from llmao_core.reconcile import reconcile
from llmao_core.testing.fake_vllm import Mode
from llmao_web.shell.loop import Reconcile

from .acts import Acts
from .boxes import Box
from .fleet import BY_ADDRESS, BY_CONTRACT, BY_LABEL, OWN, POD, with_hosts
from .invariants import Judge
from .person import drain
from .run import Result, begin, live, settle
from .world import Event, World

SEED = 1
# A world whose llmao has the real store.
SQL_SEED = 4
CRASH, KEPT, STALE, MISSED = "crash", "kept", "stale", "missed"
# What is kept while llmao is killed at each step of the real store.
KEPT_ACTS = ("approve", "drain", "delete")
BOOTED_S = 150.0
BETWEEN_S = 45.0
DOWN_S = 5.0
# Until all that an act leads to is written; a prune waits for three reads of the orphan, and a
# server that refuses our bearer is given the time to be told the new one.
WATCHED_S = 150.0
LATE_S = {"prune": 400.0, "delete refused": 600.0}
KEPT_S = 60.0
DRAINED_S = 30.0
FROZEN_S = 240.0
SOURCES = ("deployments", "health", "vast", "runpod", "boxes", "llmao")
Act = Callable[[Acts], None]
Middle = Callable[[Acts], Awaitable[None]]


@frozen
class Case:
    """One life. family: `crash`, `kept`, `stale` or `missed`. place: of the step that goes wrong.

    what: the act of a crash, over a store in memory or the real one, else the source that stands
    still. said: what happens, for people.
    """

    family: str
    what: str
    place: int
    said: str = ""

    @property
    def name(self) -> str:
        """Return what it can be lived again by."""
        return f"{self.family}/{self.what}/{self.place}"

    @classmethod
    def named(cls, name: str) -> "Case":
        """Return the case of a name; LookupError when there can be none."""
        family, _, rest = name.partition("/")
        what, _, place = rest.rpartition("/")
        known = _KNOWN.get(family, ())
        if what not in known or not place.isascii() or not place.isdigit():
            raise LookupError(name)
        if family in (STALE, MISSED) and int(place) >= len(STEPS):
            raise LookupError(name)
        return cls(family, what, int(place))


# ---- what happens


def _box(acts: Acts, host: str) -> Box:
    return next(box for box in acts.world.ground.boxes if box.host == host)


def _row(acts: Acts, host: str) -> str:
    for deployment in acts.world.intended().deployments:
        if deployment.host == host:
            return deployment.litellm_id
    raise LookupError(host)


def _server(acts: Acts, host: str, *steps: tuple[float, Mode]) -> None:
    acts.then(_box(acts, host).servers[8001], *steps)


def _drop_host(acts: Acts) -> None:
    """Take a host out of the configuration, and let its server die: its row is an orphan."""
    world = acts.world
    kept = tuple(host for host in world.config.fleet.hosts if host.name != OWN)
    world.config = with_hosts(world.config, kept)
    world.tell(OWN, "is taken out of the configuration, and dies")
    acts.reload()
    _server(acts, OWN, (0.0, Mode.REFUSES))


def _take_field(acts: Acts) -> None:
    """Have one field of a model's rows be written no more: neither by it nor by the defaults."""
    world = acts.world
    litellm = world.config.litellm
    kept = {name: each for name, each in litellm.deployment_defaults.items() if name != "timeout"}
    world.config = evolve(world.config, litellm=evolve(litellm, deployment_defaults=kept))
    acts.change_model("large", None)


def _drain(acts: Acts, host: str) -> None:
    """Let an admin drain a host, and take it back in the middle of what follows."""
    acts.world.spawn(_drained(acts.world, host))


async def _drained(world: World, host: str) -> None:
    await drain(world, host, drained=True)
    await world.run(DRAINED_S)
    await drain(world, host, drained=False)


# One for every kind of action, and for what people have acknowledged.
ACTS: dict[str, Act] = {
    "add": lambda acts: acts.reboot(_box(acts, OWN), 1.0, 10.0),
    "delete": lambda acts: _server(acts, BY_CONTRACT, (0.0, Mode.REFUSES)),
    "delete announced": lambda acts: acts.announce(_box(acts, BY_LABEL), 20.0),
    "delete refused": lambda acts: _server(acts, POD, (0.0, Mode.WRONG_KEY)),
    "update moved": lambda acts: acts.remap(_box(acts, BY_LABEL), left_to_stranger=True),
    "update body": lambda acts: acts.change_model("small", 300),
    "update by hand": lambda acts: acts.edit_row(_row(acts, POD), "timeout"),
    "update blocked": lambda acts: acts.edit_row(_row(acts, POD), "block"),
    "replace": _take_field,
    "duplicate": lambda acts: acts.edit_row(_row(acts, BY_CONTRACT), "copy"),
    "prune": _drop_host,
    "reboot": lambda acts: acts.ask_reboot(_box(acts, POD), 10.0),
    "put back": lambda acts: acts.edit_row(_row(acts, BY_ADDRESS), "delete"),
    "put all back": lambda acts: acts.empty_litellm(),
    "approve": lambda acts: acts.come(30.0),
    "drain": lambda acts: _drain(acts, BY_ADDRESS),
}  # fmt: skip
_KNOWN: Mapping[str, Collection[str]] = {
    CRASH: ACTS, KEPT: KEPT_ACTS, STALE: SOURCES, MISSED: SOURCES,
}  # fmt: skip

# Each step undoes or follows the one before, so that hiding one hides a whole transition.
STEPS: tuple[tuple[str, Act], ...] = (
    ("a server dies", lambda a: _server(a, BY_ADDRESS, (0.0, Mode.REFUSES))),
    ("and serves again", lambda a: _server(a, BY_ADDRESS, (0.0, Mode.SERVES))),
    ("ports move", lambda a: a.remap(_box(a, BY_LABEL), left_to_stranger=True)),
    ("and move again", lambda a: a.remap(_box(a, BY_LABEL), left_to_stranger=False)),
    ("a pod reboots", lambda a: a.reboot(_box(a, POD), 5.0, 15.0)),
    ("and reboots again", lambda a: a.reboot(_box(a, POD), 5.0, 15.0)),
    ("a box is rented anew", lambda a: a.rent_anew(_box(a, BY_LABEL), 15.0, 10.0)),
    ("a row is deleted", lambda a: a.edit_row(_row(a, OWN), "delete")),
    ("a row is copied", lambda a: a.edit_row(_row(a, BY_CONTRACT), "copy")),
    ("a row is moved", lambda a: a.edit_row(_row(a, BY_CONTRACT), "move")),
    ("a row is blocked", lambda a: a.edit_row(_row(a, POD), "block")),
    ("a bearer is refused", lambda a: _server(a, POD, (0.0, Mode.WRONG_KEY))),
    ("and accepted again", lambda a: _server(a, POD, (0.0, Mode.SERVES))),
    ("a server hangs", lambda a: _server(a, OWN, (0.0, Mode.HANGS))),
    ("and answers again", lambda a: _server(a, OWN, (0.0, Mode.SERVES))),
    ("an engine freezes", lambda a: _server(a, BY_CONTRACT, (0.0, Mode.FROZEN))),
    ("and restarts", lambda a: _server(a, BY_CONTRACT, (0.0, Mode.LOADING), (15.0, Mode.SERVES))),
    ("a model changes", lambda a: a.change_model("small", 300)),
    ("and changes back", lambda a: a.change_model("small", 600)),
    ("an address is shared", lambda a: a.share_address(60.0)),
    ("a restart is announced", lambda a: a.announce(_box(a, BY_LABEL), 15.0)),
    ("a listing omits a box", lambda a: a.omit(_box(a, BY_CONTRACT), 4)),
    ("all rows are lost", lambda a: a.empty_litellm()),
)  # fmt: skip


# ---- which cases there are


def crashes(act: str, family: str = CRASH) -> Iterator[Case]:
    """Yield a case for every step of every write that an act leads to.

    family: CRASH, or KEPT for the steps of the real store alone.
    """
    names: list[str] = []
    first = Case(family, act, 0)
    _live_case(first, _watched(first, names.append))
    for place, name in enumerate(names):
        yield Case(family, act, place, f"{act}; llmao is killed at: {name}")


def views(family: str, source: str) -> Iterator[Case]:
    """Yield a case for every step at which a source stands still.

    family: STALE goes on standing still for FROZEN_S, MISSED ends with the step after it.
    """
    for place, (name, _) in enumerate(STEPS):
        yield Case(family, source, place, f"{name}; {source} stands still")


def all_cases() -> Iterator[Case]:
    """Yield the cases of all three families; crashes over both stores."""
    for act in ACTS:
        yield from crashes(act)
    for act in KEPT_ACTS:
        yield from crashes(act, KEPT)
    for family in (STALE, MISSED):
        for source in SOURCES:
            yield from views(family, source)


def run_case(
    case: Case, *, rule: Reconcile = reconcile, say: Callable[[Event], None] = lambda _event: None
) -> Result:
    """Live one case and judge it."""
    middle = _hiding(case) if case.family in (STALE, MISSED) else _crashing(case)
    return _live_case(case, middle, rule, say)


def _live_case(
    case: Case,
    middle: Middle,
    rule: Reconcile = reconcile,
    say: Callable[[Event], None] = lambda _event: None,
) -> Result:
    """Boot a world, let something happen in it, and let it settle."""

    async def life(world: World, acts: Acts, judge: Judge) -> None:
        world.wire.remembers = case.family in (STALE, MISSED)
        begin(world, acts, judge)
        await world.run(BOOTED_S)
        await middle(acts)
        await settle(world, acts, judge)

    seed = SQL_SEED if case.family == KEPT else SEED
    return live(seed, life, f"llmao sim --case {case.name!r}", rule=rule, say=say)


# ---- crash


def _watched(case: Case, note: Callable[[str], None]) -> Middle:
    """Let an act happen, and note each step of the writes that follow."""

    async def middle(acts: Acts) -> None:
        acts.world.llmao.at_step = lambda name: note(name) if _writes(case, name) else None
        ACTS[case.what](acts)
        await acts.world.run(_watched_s(case))
        acts.world.llmao.at_step = lambda _name: None

    return middle


def _crashing(case: Case) -> Middle:
    left = [case.place]

    async def middle(acts: Acts) -> None:
        def at_step(name: str) -> bool:
            left[0] -= _writes(case, name)
            return _writes(case, name) and left[0] == -1 and _die(acts, name)

        acts.world.llmao.at_step = at_step
        ACTS[case.what](acts)
        await acts.world.run(_watched_s(case))

    return middle


def _watched_s(case: Case) -> float:
    if case.family == KEPT:
        return KEPT_S
    return LATE_S.get(case.what, WATCHED_S)


def _die(acts: Acts, name: str) -> bool:
    acts.world.tell("", f"llmao is killed at: {name}")
    acts.world.after(DOWN_S, acts.world.llmao.start)
    return True


def _writes(case: Case, name: str) -> bool:
    """Tell whether a step belongs to a write, of LiteLLM, of a provider or of the store."""
    if case.family == KEPT:
        return "store" in name
    asks = "/health" in name
    return not asks and any(word in name for word in ("POST", "PATCH", "PUT", "store"))


# ---- stale view, missed transition


def _hiding(case: Case) -> Middle:
    """Let a source stand still while steps happen; only what lies around it is lived."""

    async def middle(acts: Acts) -> None:
        before, after = case.place - case.place % 2, case.place + 2
        for _, act in STEPS[before : case.place]:
            act(acts)
            await acts.world.run(BETWEEN_S)
        _stand_still(acts, case.what)
        for _, act in STEPS[case.place : after]:
            act(acts)
            await acts.world.run(BETWEEN_S)
        if case.family == STALE:
            await acts.world.run(FROZEN_S)
        _go_on(acts, case.what)
        await acts.world.run(BETWEEN_S)

    return middle


def _stand_still(acts: Acts, source: str) -> None:
    acts.world.tell("", f"{source} stands still")
    if source == "llmao":
        acts.world.llmao.kill()
    else:
        acts.world.wire.frozen.add(source)


def _go_on(acts: Acts, source: str) -> None:
    acts.world.tell("", f"{source} goes on")
    acts.world.wire.frozen.clear()
    acts.world.llmao.start()
