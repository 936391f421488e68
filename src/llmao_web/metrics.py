"""`GET /metrics`: what the last pass concluded and what llmao counted, as Prometheus reads it.

Rule of this file: it asks nobody and computes nothing but sums. Open to everybody, like
`/healthz`: no secret, no host, no address; labels come from closed lists and from configuration.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from llmao_core.plan import Hold, Plan
from llmao_core.records import Availability, HostView, ItemKind, Lifecycle, SourceView, View

from .desk import Clock, Desk


def metrics(desk: Desk, clock: Clock, counted: CollectorRegistry | None = None) -> HTTPRouteHandler:
    """Return the handler. counted: the shell's own counters, when there is a shell."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Everything(desk, clock, counted))

    @get("/metrics")
    async def show_metrics(request: Request[Any, Any, Any]) -> Response[bytes]:
        """Return the text that Prometheus asked for."""
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
        headers = {"cache-control": "no-store"}
        return Response(encode(registry), media_type=media_type, headers=headers)

    return show_metrics


class _Everything:
    """What prometheus_client collects at each scrape."""

    def __init__(self, desk: Desk, clock: Clock, counted: CollectorRegistry | None) -> None:
        self._desk = desk
        self._clock = clock
        self._counted = counted

    def collect(self) -> Iterator[Metric]:
        """Yield every metric; those of a view only once there is one."""
        if self._counted:
            yield from self._counted.collect()
        ready = "1 once every source was tried and it is known who leads."
        yield _gauge("llmao_ready", ready, {(): self._desk.ready()[0]})
        view, plan = self._desk.view(), self._desk.plan()
        if view:
            yield from of_view(view, self._clock.now())
        if plan:
            yield from of_plan(plan)


def of_view(view: View, now: float) -> Iterator[Metric]:
    """Yield what one view shows at this time."""
    yield _gauge("llmao_view_age_seconds", "Age of the last good pass.", {(): now - view.at})
    yield from _sources(view.sources, now)
    lives = Counter(record.lifecycle for record in view.records)
    yield _gauge(
        "llmao_records",
        "Deployments, by lifecycle.",
        {(life.value,): lives[life] for life in Lifecycle},
        "lifecycle",
    )
    models = Counter(model.availability for model in view.models)
    yield _gauge(
        "llmao_models",
        "Models, by what callers are told.",
        {(told.value,): models[told] for told in Availability},
        "availability",
    )
    items = Counter(item.kind for item in view.items)
    yield _gauge(
        "llmao_items",
        "Attention items, by kind.",
        {(kind.value,): items[kind] for kind in ItemKind},
        "kind",
    )
    yield _gauge(
        "llmao_price_per_hour",
        "What the instances of a provider cost, in its currency, as far as it says.",
        _prices(view.hosts),
        "provider",
    )


def of_plan(plan: Plan) -> Iterator[Metric]:
    """Yield what one plan wants and what of it waits."""
    yield _gauge("llmao_plan_actions", "Actions of the plan.", {(): len(plan.actions)})
    holds = Counter(action.hold for action in plan.actions)
    yield _gauge(
        "llmao_plan_held",
        "Actions of the plan that wait, by why.",
        {(hold.name.lower(),): holds[hold] for hold in Hold if hold is not Hold.NOT_HELD},
        "hold",
    )


def _sources(sources: Iterable[SourceView], now: float) -> Iterator[Metric]:
    read = [source for source in sources if source.interval_s is not None]
    yield _gauge(
        "llmao_source_age_seconds",
        "Since the last good read of a source began; missing before the first.",
        {(one.name,): now - one.taken_at for one in read if one.taken_at is not None},
        "source",
    )
    yield _gauge(
        "llmao_source_interval_seconds",
        "How often a source is read.",
        {(one.name,): one.interval_s or 0.0 for one in read},
        "source",
    )
    yield _gauge(
        "llmao_source_failures",
        "Reads of a source that failed in a row.",
        {(one.name,): one.trouble.count if one.trouble else 0 for one in read},
        "source",
    )


def _prices(hosts: Iterable[HostView]) -> Mapping[tuple[str, ...], float]:
    """Return the price of each provider's instances; one that several hosts name counts once."""
    priced = {
        (host.provider, host.instance_id): host.price_per_hour
        for host in hosts
        if host.instance_id and host.price_per_hour is not None
    }
    sums: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for (provider, _), price in priced.items():
        sums[provider,] += price
    return sums


def _gauge(
    name: str, says: str, values: Mapping[tuple[str, ...], float], *labels: str
) -> GaugeMetricFamily:
    made = GaugeMetricFamily(name, says, labels=labels)
    for place, value in values.items():
        made.add_metric(place, float(value))
    return made
