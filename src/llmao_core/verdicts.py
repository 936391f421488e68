"""The closed lists: lifecycles, signals, badges. Shared by code, pages, logs, docs.

Rule of this file: a member has one name everywhere, and what it means stands beside it.
"""

import enum
from collections.abc import Mapping


class Lifecycle(enum.Enum):
    """Where a deployment is in its life; hashed by identity, like every fact."""

    __hash__ = object.__hash__

    AWAITING = "Awaiting"
    LOADING = "Loading"
    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    STALLED = "Stalled"
    REJECTED = "Rejected"
    FOREIGN = "Foreign"
    WRONG_MODEL = "WrongModel"
    CONFIGURED = "Configured"


# Where it can be called.
UP = (Lifecycle.HEALTHY, Lifecycle.CONFIGURED)
# Where it cannot be called, and somebody should look.
DOWN = (
    Lifecycle.UNHEALTHY,
    Lifecycle.STALLED,
    Lifecycle.REJECTED,
    Lifecycle.FOREIGN,
    Lifecycle.WRONG_MODEL,
)


class SignalKind(enum.Enum):
    """What the newest probe with the dialable URL and bearer came to."""

    NONE = "none"
    STALE = "stale"
    OK = "ok"
    BUSY = "busy"
    REFUSED = "refused"
    OTHER_MODEL = "other_model"
    GARBLED = "garbled"
    FAILED = "failed"


class LitellmSignal(enum.Enum):
    """What LiteLLM's own check says."""

    UNKNOWN = "unknown"
    UP = "up"
    DOWN = "down"


class Kind(enum.Enum):
    """Why a record exists."""

    INTENDED = "intended"
    COMMERCIAL = "commercial"
    DISCOVERED = "discovered"
    ORPHAN = "orphan"
    # Nothing intends it, and a listing that cannot be read now may name its box.
    UNKNOWN = "unknown"
    FOREIGN = "foreign"


class Badge(enum.Enum):
    """Skew worth a word; the value is its code in the API, in commands and in documents."""

    INTENDED_NOT_IN_LITELLM = "intended_not_in_litellm"
    LITELLM_ONLY = "litellm_only"
    AT_LISTEN_PORT = "at_listen_port"
    API_BASE_MISMATCH = "api_base_mismatch"
    BODY_MISMATCH = "body_mismatch"
    BLOCKED = "blocked"
    DUPLICATE = "duplicate"
    UNSTAMPED = "unstamped"
    BEARER_PENDING = "bearer_pending"
    VLLM_UP_LITELLM_DOWN = "vllm_up_litellm_down"
    VLLM_DOWN_LITELLM_UP = "vllm_down_litellm_up"
    WRONG_MODEL = "wrong_model"
    MAX_LEN_DIFFERS = "max_len_differs"
    REVISION_BEHIND = "revision_behind"
    OPEN_PATHS = "open_paths"
    BUSY = "busy"
    HUNG = "hung"
    SATURATED = "saturated"
    CANARY_REFUSED = "canary_refused"
    POOL_UNEVEN = "pool_uneven"
    OVERSIZED = "oversized"
    AMBIGUOUS = "ambiguous"
    UNPLACED = "unplaced"
    SAME_SERVER = "same_server"
    FLAPPING = "flapping"
    NOT_LIVE = "not_live"

    @property
    def label(self) -> str:
        """Return what pages call it, two or three words."""
        return BADGES[self][0]

    @property
    def meaning(self) -> str:
        """Return what it says, one line."""
        return BADGES[self][1]

    @property
    def remedy(self) -> str:
        """Return what to do, one line."""
        return BADGES[self][2]


_INSTALL = "`supervisorctl start llmao-install` on its box"
BADGES: Mapping[Badge, tuple[str, str, str]] = {
    Badge.INTENDED_NOT_IN_LITELLM: (
        "not in LiteLLM",
        "It serves, and LiteLLM has no deployment of it: callers do not get it.",
        "Its page says what its route waits for.",
    ),
    Badge.LITELLM_ONLY: (
        "only in LiteLLM",
        "LiteLLM has it and nothing intends it.",
        "Add it to `fleet.hosts`, or remove it if nobody needs it.",
    ),
    Badge.AT_LISTEN_PORT: (
        "routed to its listen port",
        "LiteLLM dials the listen port, not the public port.",
        "Nothing: it is corrected once the server answers at its public port.",
    ),
    Badge.API_BASE_MISMATCH: (
        "routed to another address",
        "LiteLLM dials another address than llmao does.",
        "Nothing: it is corrected once the server answers at the new address.",
    ),
    Badge.BODY_MISMATCH: (
        "edited in LiteLLM",
        "The deployment in LiteLLM differs from what llmao writes.",
        "Nothing: it is put back. Change `models.yaml`, not LiteLLM's pages.",
    ),
    Badge.BLOCKED: (
        "blocked in LiteLLM",
        "Somebody blocked the deployment in LiteLLM: callers do not get it.",
        "Nothing: it is unblocked. To stop traffic, drain it here.",
    ),
    Badge.DUPLICATE: (
        "twice in LiteLLM",
        "LiteLLM has more than one deployment of it.",
        "Nothing for our own rows; find out who adds the others.",
    ),
    Badge.UNSTAMPED: (
        "without llmao's mark",
        "The deployment in LiteLLM does not carry llmao's mark.",
        "Nothing: it is marked once the server is Healthy.",
    ),
    Badge.BEARER_PENDING: (
        "previous key",
        "The box still runs the key of the previous salt. Callers are served.",
        f"Let it fetch its configuration again: {_INSTALL}.",
    ),
    Badge.VLLM_UP_LITELLM_DOWN: (
        "LiteLLM's check fails",
        "vLLM answers llmao, and LiteLLM's own check fails: callers may get errors.",
        "Read what LiteLLM says beside it; check that LiteLLM reaches the address.",
    ),
    Badge.VLLM_DOWN_LITELLM_UP: (
        "only LiteLLM reaches it",
        "llmao cannot reach vLLM, and LiteLLM can. Callers are served.",
        "Check the network between llmao and the box.",
    ),
    Badge.WRONG_MODEL: (
        "wrong model",
        "The server does not serve the name it should.",
        f"Run {_INSTALL}, or correct its row of `fleet.hosts`.",
    ),
    Badge.MAX_LEN_DIFFERS: (
        "another context length",
        "The server runs another context length than its recipe says.",
        f"Run {_INSTALL}, or correct the recipe.",
    ),
    Badge.REVISION_BEHIND: (
        "older configuration",
        "The box runs an older revision of its configuration.",
        f"Run {_INSTALL}; its servers that change restart.",
    ),
    Badge.OPEN_PATHS: (
        "works without a key",
        "The server does work for whoever knows its address, without a key.",
        f"Run it with llmao's guard: {_INSTALL}.",
    ),
    Badge.BUSY: (
        "busy",
        "The engine is busy and slow to answer.",
        "Nothing: it is left alone.",
    ),
    Badge.HUNG: (
        "hangs",
        "Requests run and nothing has moved for a while: callers wait.",
        "On its box `supervisorctl tail vllm-NAME`, then `supervisorctl restart vllm-NAME`.",
    ),
    Badge.SATURATED: (
        "requests wait",
        "Requests have waited in its queue for minutes: callers wait.",
        "Serve the model on one more box, or send it fewer requests.",
    ),
    Badge.CANARY_REFUSED: (
        "refuses the test request",
        "The server refuses llmao's test request; its health alone says that it works.",
        "Set `mode` of its recipe, by which llmao tests it: `model_info.mode` tells only callers.",
    ),
    Badge.POOL_UNEVEN: (
        "uneven context lengths",
        "Servers of this model have different context lengths; callers are told the least.",
        "Make `max_model_len` of the recipes equal.",
    ),
    Badge.OVERSIZED: (
        "context exceeds memory",
        "The context length exceeds the measured KV cache: a full request would hang it.",
        "Lower `max_model_len`, or give the server more memory.",
    ),
    Badge.AMBIGUOUS: (
        "several instances",
        "Several instances could be this host, so it is none of them.",
        "Name the host by its contract label in `fleet.hosts`.",
    ),
    Badge.UNPLACED: (
        "no address",
        "No address is known for it, so it can be neither probed nor called.",
        "Check its name in `fleet.hosts` against the provider's listing, and the port mapping.",
    ),
    Badge.SAME_SERVER: (
        "same server twice",
        "Another deployment answers at the same address.",
        "Remove one of the two rows from `fleet.hosts`.",
    ),
    Badge.FLAPPING: (
        "comes and goes",
        "Its route was removed several times within the hour.",
        "Look at `supervisorctl tail vllm-NAME`; each time it must answer longer to come back.",
    ),
    Badge.NOT_LIVE: (
        "not loaded by LiteLLM",
        "LiteLLM saved the deployment and does not serve it: callers do not get it.",
        "Look in LiteLLM's log for why it cannot load the deployment.",
    ),
}


class Availability(enum.Enum):
    """What a caller is told about a model."""

    AVAILABLE = "Available"
    DEGRADED = "Degraded"
    UNAVAILABLE = "Unavailable"
    UNKNOWN = "Unknown"


WORST_FIRST = (
    Availability.UNAVAILABLE,
    Availability.DEGRADED,
    Availability.UNKNOWN,
    Availability.AVAILABLE,
)
