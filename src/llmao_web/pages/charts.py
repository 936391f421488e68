"""Capacity as small charts: lines in SVG, and the same figures as a table.

Rule of this file: geometry only. What was not measured is a gap in the line, never a zero.
"""

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from attrs import frozen

from llmao_web.shell.store import Sample

WIDTH, HEIGHT = 600, 100
POINTS = 200
TABLE_ROWS = 24
# A chart of less is nothing but its steps.
LEAST_S = 600.0
_MARGIN = 4


@frozen
class Line:
    """One line of a chart. path: for the attribute `d`; newest: None when nothing was measured."""

    label: str
    path: str
    newest: float | None
    most: float | None


@frozen
class Chart:
    """One chart. top: the value of its upper edge. unit: behind a figure; scale: 100 for %."""

    id: str
    title: str
    unit: str
    lines: tuple[Line, ...]
    top: float
    scale: float = 1.0

    def shown(self, value: float | None) -> str:
        """Return a figure with its unit, short."""
        if value is None:
            return "–"
        figure = value * self.scale
        digits = 0 if figure >= 100 or figure == int(figure) else 2 if figure < 1 else 1
        return f"{figure:,.{digits}f}{self.unit}"


@frozen
class Figures:
    """The mean of everything measured within one stretch of time, for one row of the table."""

    at: float
    running: float | None
    waiting: float | None
    kv_used: float | None
    tokens_per_s: float | None
    first_token_s: float | None


def begin(samples: Iterable[Sample], since: float, until: float) -> float:
    """Return where the charts begin: at the first sample when nothing was measured before it."""
    first = min((each.at for each in samples if each.at >= since), default=since)
    return max(since, min(first, until - LEAST_S))


def charts(samples: Sequence[Sample], since: float, until: float) -> tuple[Chart, ...]:
    """Return the charts of one server between two times."""
    pooled = pool(samples, since, until, POINTS)
    return (
        _chart(
            "requests", "Requests", "", pooled, since, until, running=_running, waiting=_waiting
        ),
        _chart("kv", "KV cache used", " %", pooled, since, until, most=1.0, scale=100.0, used=_kv),
        _chart("tokens", "Tokens per second", "", pooled, since, until, generated=_tokens),
        _chart("first", "Time to first token", " s", pooled, since, until, mean=_first),
    )


def table(samples: Sequence[Sample], since: float, until: float) -> tuple[Figures, ...]:
    """Return the same figures as rows, newest first; stretches without a sample are left out."""
    return tuple(reversed(pool(samples, since, until, TABLE_ROWS)))


def pool(
    samples: Iterable[Sample], since: float, until: float, stretches: int
) -> tuple[Figures, ...]:
    """Return the means of equal stretches of time, oldest first, empty ones left out."""
    length = max((until - since) / stretches, 1.0)
    pools: dict[int, list[Sample]] = {}
    for each in samples:
        if since <= each.at <= until:
            pools.setdefault(int((each.at - since) / length), []).append(each)
    return tuple(
        Figures(
            since + (place + 0.5) * length,
            _mean(each.running for each in some),
            _mean(each.waiting for each in some),
            _mean(each.kv_used for each in some),
            _mean(each.tokens_per_s for each in some),
            _mean(each.first_token_s for each in some),
        )
        for place, some in sorted(pools.items())
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _running(each: Figures) -> float | None:
    return each.running


def _waiting(each: Figures) -> float | None:
    return each.waiting


def _kv(each: Figures) -> float | None:
    return each.kv_used


def _tokens(each: Figures) -> float | None:
    return each.tokens_per_s


def _first(each: Figures) -> float | None:
    return each.first_token_s


def _chart(
    name: str,
    title: str,
    unit: str,
    pooled: Sequence[Figures],
    since: float,
    until: float,
    *,
    most: float | None = None,
    scale: float = 1.0,
    **lines: Callable[[Figures], float | None],
) -> Chart:
    series = {
        label: [(each.at, value) for each in pooled if (value := read(each)) is not None]
        for label, read in lines.items()
    }
    top = most or max((value for points in series.values() for _, value in points), default=0) or 1
    gap_s = 3 * max((until - since) / POINTS, 60.0)
    made = (
        Line(
            label,
            _path(points, since, until, top, gap_s),
            points[-1][1] if points else None,
            max((value for _, value in points), default=None),
        )
        for label, points in series.items()
    )
    return Chart(f"chart-{name}", title, unit, tuple(made), top, scale)


def _path(
    points: Sequence[tuple[float, float]], since: float, until: float, top: float, gap_s: float
) -> str:
    """Return the path of a line, lifted over every gap."""
    steps: list[str] = []
    before = None
    for at, value in points:
        x = (at - since) / (until - since) * WIDTH
        y = HEIGHT - min(max(value / top, 0.0), 1.0) * (HEIGHT - _MARGIN)
        move = before is None or at - before > gap_s
        steps.append(f"{'M' if move else 'L'}{x:.1f} {y:.1f}{'h0.1' if move else ''}")
        before = at
    return "".join(steps)
