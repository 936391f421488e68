"""How things are named on pages: addresses of pages, ids of elements, tones of verdicts.

Rule of this file: nothing here can be turned back into a canonical URL.
"""

import functools
import hashlib
from urllib.parse import quote

from llmao_core.intended import deployment_id
from llmao_core.keys import Key
from llmao_core.records import Availability, Badge, Kind, Lifecycle, Record, SignalKind
from llmao_core.snapshots import SourceState
from llmao_core.verdicts import DOWN

_TONES: dict[object, str] = {
    Availability.AVAILABLE: "good",
    Availability.DEGRADED: "fair",
    Availability.UNAVAILABLE: "bad",
    Lifecycle.HEALTHY: "good",
    Lifecycle.CONFIGURED: "good",
    Lifecycle.LOADING: "fair",
    **dict.fromkeys(DOWN, "bad"),
    SignalKind.OK: "good",
    SignalKind.BUSY: "fair",
    SignalKind.STALE: "fair",
    SignalKind.REFUSED: "bad",
    SignalKind.OTHER_MODEL: "bad",
    SignalKind.GARBLED: "bad",
    SignalKind.FAILED: "bad",
    SourceState.FRESH: "good",
    SourceState.UNREAD: "fair",
    SourceState.STALE: "bad",
}
# What needs nobody: it passes, or llmao puts it right itself.
_QUIET = frozenset(
    {
        Badge.BUSY,
        Badge.AT_LISTEN_PORT,
        Badge.API_BASE_MISMATCH,
        Badge.BODY_MISMATCH,
        Badge.BLOCKED,
        Badge.UNSTAMPED,
        Badge.POOL_UNEVEN,
    }
)
_WORST = {life: place for place, life in enumerate((*DOWN, Lifecycle.AWAITING, Lifecycle.LOADING))}
_HOUR_S, _WEEK_S = 3600.0, 7 * 86400.0


def tone(word: object) -> str:
    """Return how a verdict looks: good, fair, bad or plain; the word itself is always shown."""
    return _TONES.get(word, "plain")


def signal_tone(record: Record) -> str:
    """Return how a server's newest probe looks: one that loads is not dead for not answering."""
    signal = record.signal.kind
    expected = record.lifecycle is Lifecycle.LOADING and signal is SignalKind.FAILED
    return "plain" if expected else tone(signal)


def life_tone(record: Record) -> str:
    """Return how a lifecycle looks: what LiteLLM still reaches serves callers."""
    return "fair" if record.reached else tone(record.lifecycle)


def badge_tone(badge: Badge) -> str:
    """Return how loud a badge is."""
    return "plain" if badge in _QUIET else "fair"


def fetch_tone(at: float | None, now: float) -> str:
    """Return how a box's last fetch looks: good within the hour, bad after a week."""
    if at is None:
        return "plain"
    age_s = now - at
    return "good" if age_s < _HOUR_S else "bad" if age_s > _WEEK_S else "plain"


def element(prefix: str, text: str) -> str:
    """Return the id of an element for whatever a text holds."""
    return f"{prefix}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


@functools.lru_cache(maxsize=20_000)
def page_id(fleet: str, key: Key) -> str:
    """Return the id of a deployment: the one it has, or would have, in LiteLLM."""
    return deployment_id(fleet, key)


@functools.lru_cache(maxsize=20_000)
def page_of(fleet: str, key: Key) -> str:
    """Return the address of the page of a deployment."""
    return f"/deployments/{quote(page_id(fleet, key), safe='')}"


def page_of_box(host: str) -> str:
    """Return the address of the page of a host."""
    return f"/boxes/{quote(host, safe='')}"


def worst_first(record: Record) -> tuple[int, int, str]:
    """Return where a record stands among others: what needs a look comes first."""
    known = _WORST.get(record.lifecycle, len(_WORST))
    return known, 0 if _loud(record) else 1, str(record.key)


def is_fine(record: Record) -> bool:
    """Tell whether a record serves, and whatever else is to be known of it stands in its badges."""
    waits = record.held or record.drained or record.restarting or record.unlisted
    good = tone(record.lifecycle) == "good" and record.fresh
    return good and not (waits or record.write_trouble)


def _loud(record: Record) -> bool:
    return not record.fresh or any(badge_tone(badge) == "fair" for badge in record.badges)


_KINDS = {
    Kind.DISCOVERED: "not in fleet.hosts",
    Kind.ORPHAN: "orphan",
    Kind.UNKNOWN: "its listing is unread",
    Kind.FOREIGN: "not llmao's",
    Kind.COMMERCIAL: "provider",
}


def kind_word(kind: Kind) -> str:
    """Return what pages say of where a deployment comes from, "" for what is simply meant."""
    return _KINDS.get(kind, "")


def capital(words: str) -> str:
    """Return words as they begin a sentence or stand on a button; names stay as they are."""
    return words[:1].upper() + words[1:]


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, in the plural where it is one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
