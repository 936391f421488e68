"""The log of probes: bounded, newest first, and only of what is aimed at."""

import httpx
from tests.shell.probing import Bench, spec

from llmao_core.probes import ProbeReport, Reply, ReplyKind, Target
from llmao_core.testing.clock import VirtualClock
from llmao_web.shell.probe import Prober
from llmao_web.shell.probe_log import KEPT, ProbeLog

ONE, OTHER = Target("http://127.0.0.2:1", "a"), Target("http://127.0.0.3:1", "a")


def report(at: float) -> ProbeReport:
    """Return a probe that ends otherwise than the one before it."""
    return ProbeReport(at, 0.1, Reply(ReplyKind.ANSWERED, 200 + int(at) % 2))


def test_the_newest_are_kept_and_come_first() -> None:
    """However many there were."""
    log = ProbeLog()
    for at in range(KEPT + 5):
        log.add(ONE, report(at))
    assert [float(at) for at in range(KEPT + 4, 4, -1)] == [each.at for each in log.of(ONE)]
    assert () == log.of(OTHER)


def test_probes_that_end_alike_are_one_line() -> None:
    """It says how many there were and since when, so that a dead server's log reaches back."""
    log = ProbeLog()
    for at in (1.0, 2.0, 4.0):
        log.add(ONE, ProbeReport(at, 0.1, Reply(ReplyKind.REFUSED)))
    log.add(ONE, report(5.0))
    newest, dead = log.of(ONE)
    assert (1, 5.0, 5.0) == (newest.times, newest.first, newest.at)
    assert (3, 1.0, 4.0) == (dead.times, dead.first, dead.at)


def test_what_is_not_aimed_at_any_more_is_forgotten() -> None:
    """So that its size follows the fleet's."""
    log = ProbeLog()
    log.add(ONE, report(1))
    log.add(OTHER, report(2))
    log.retain({OTHER})
    assert () == log.of(ONE)
    assert 1 == len(log.of(OTHER))


async def test_the_prober_notes_what_it_reports() -> None:
    """Each step with how it ended, and nothing of what it did not ask."""
    log = ProbeLog()
    wire = httpx.MockTransport(lambda _: httpx.Response(401))
    bench = Bench(VirtualClock())
    bench.prober = Prober(VirtualClock(), lambda: wire, bench._changed, 5.0, 5.0, log=log)
    asked = spec("http://127.0.0.2:1", metrics=False)
    async with bench.running():
        bench.prober.aim((asked,))
        await bench.until(lambda probes: probes.reports)
    (probed,) = log.of(asked.target)
    assert ["health", "models without a key", "models"] == [each.what for each in probed.steps]
    assert {401} == {each.reply.status for each in probed.steps}
