"""Which sources a configuration has, and what each is asked with.

Rule of this file: configuration in, values out.
"""

from collections.abc import Iterable

from attrs import frozen

from llmao_core.config import Config, GpuProvider
from llmao_core.hooks import FetchRequest, SourceCard, SourceKind

_LISTING_TIMEOUT_S = 30.0


@frozen
class Source:
    """One configured source: its card, how often it is read, and what each read is asked with."""

    card: SourceCard
    interval_s: float
    request: FetchRequest

    @property
    def name(self) -> str:
        return self.card.name


def sources(config: Config, cards: Iterable[SourceCard]) -> tuple[Source, ...]:
    """Return what a configuration has read, in the order of the cards.

    A GPU provider without an `api_key` is no source.
    """
    return tuple(made for card in cards if (made := source(config, card)))


def source(config: Config, card: SourceCard) -> Source | None:
    """Return the source of one card; None when the configuration does not have it."""
    if card.kind is not SourceKind.LISTING:
        litellm = config.litellm
        request = FetchRequest(
            source=card.name,
            base_url=litellm.base_url,
            api_key=litellm.master_key,
            section={"deployment_defaults": dict(litellm.deployment_defaults)},
            timeout_s=litellm.request_timeout_s,
        )
        slow = card.kind is SourceKind.ACCESS
        return Source(card, card.interval_s if slow else config.fleet.skew_interval_s, request)
    provider = next((each for each in config.gpu_providers if each.name == card.name), None)
    return _listing(card, provider) if provider and provider.api_key else None


def _listing(card: SourceCard, provider: GpuProvider) -> Source:
    request = FetchRequest(
        source=card.name,
        base_url=provider.base_url or "",
        api_key=provider.api_key,
        section=provider.section,
        timeout_s=_LISTING_TIMEOUT_S,
    )
    return Source(card, provider.interval_s or card.interval_s, request)
