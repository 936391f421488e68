"""The closed lists: lifecycles, signals, badges, kinds of item. Shared by code, pages, logs, docs.

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
    FOREIGN = "foreign"


class Badge(enum.Enum):
    """Skew worth a word; the value is what pages, logs and docs call it."""

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
    CANARY_REFUSED = "canary_refused"
    POOL_UNEVEN = "pool_uneven"
    OVERSIZED = "oversized"
    AMBIGUOUS = "ambiguous"
    UNPLACED = "unplaced"
    SAME_SERVER = "same_server"
    FLAPPING = "flapping"
    NOT_LIVE = "not_live"

    @property
    def meaning(self) -> str:
        """Return what it says, one line."""
        return BADGES[self][0]

    @property
    def remedy(self) -> str:
        """Return what to do, one line."""
        return BADGES[self][1]


BADGES: Mapping[Badge, tuple[str, str]] = {
    Badge.INTENDED_NOT_IN_LITELLM: (
        "It serves, and LiteLLM has no deployment of it.",
        "Wait for the next pass; if it stays, read the action that is held or failing.",
    ),
    Badge.LITELLM_ONLY: (
        "LiteLLM has it and nothing intends it.",
        "Add it to fleet.hosts, or remove it if nobody needs it.",
    ),
    Badge.AT_LISTEN_PORT: (
        "LiteLLM dials the listen port, not the public port.",
        "None: it is corrected once the server answers at its public port.",
    ),
    Badge.API_BASE_MISMATCH: (
        "LiteLLM dials another address than llmao does.",
        "None: it is corrected once the server answers at the new address.",
    ),
    Badge.BODY_MISMATCH: (
        "The deployment in LiteLLM differs from what llmao writes.",
        "None: it is put back. Change models.yaml, not LiteLLM's pages.",
    ),
    Badge.BLOCKED: (
        "Somebody blocked the deployment in LiteLLM.",
        "None: it is unblocked. To stop traffic, drain it here.",
    ),
    Badge.DUPLICATE: (
        "LiteLLM has more than one deployment of it.",
        "None for our own rows; look at who adds the others.",
    ),
    Badge.UNSTAMPED: (
        "The deployment in LiteLLM does not carry llmao's mark.",
        "None: it is stamped once the server is Healthy.",
    ),
    Badge.BEARER_PENDING: (
        "The box still runs the previous bearer.",
        "Let the box fetch its configuration again: restart llmao-install on it.",
    ),
    Badge.VLLM_UP_LITELLM_DOWN: (
        "vLLM answers llmao, and LiteLLM's own check fails.",
        "Look at LiteLLM's error; check that LiteLLM can reach the address.",
    ),
    Badge.VLLM_DOWN_LITELLM_UP: (
        "llmao cannot reach vLLM, and LiteLLM can.",
        "Check the network between llmao and the box.",
    ),
    Badge.WRONG_MODEL: (
        "The server does not serve the name it should.",
        "Restart llmao-install on the box, or correct fleet.hosts.",
    ),
    Badge.MAX_LEN_DIFFERS: (
        "The server runs another context length than its recipe says.",
        "Restart llmao-install on the box, or correct the recipe.",
    ),
    Badge.REVISION_BEHIND: (
        "The box runs an older revision of its configuration.",
        "Restart llmao-install on the box.",
    ),
    Badge.OPEN_PATHS: (
        "The server does work for callers without a bearer.",
        "Run it with llmao's guard: restart llmao-install on the box.",
    ),
    Badge.BUSY: ("The engine is busy and slow to answer.", "None: it is left alone."),
    Badge.HUNG: (
        "Requests run and nothing has moved for a while.",
        "Restart the server; look at its log first.",
    ),
    Badge.CANARY_REFUSED: (
        "The server refuses llmao's test request.",
        "Set the recipe's mode to what the model can do.",
    ),
    Badge.POOL_UNEVEN: (
        "Members of this model serve different context lengths.",
        "The minimum is advertised; make the recipes equal.",
    ),
    Badge.OVERSIZED: (
        "The context length exceeds the measured KV cache: a full request would hang it.",
        "Lower max_model_len, or give the server more memory.",
    ),
    Badge.AMBIGUOUS: (
        "Several instances could be this host.",
        "Name the host by its contract label in fleet.hosts.",
    ),
    Badge.UNPLACED: (
        "No address is known for it.",
        "Check the name in fleet.hosts against the provider's listing, and the port mapping.",
    ),
    Badge.SAME_SERVER: (
        "Another key answers at the same address.",
        "Remove one of the two rows.",
    ),
    Badge.FLAPPING: (
        "It was removed several times within the hour.",
        "Look at the server's log; it is added again after a longer proof.",
    ),
    Badge.NOT_LIVE: (
        "LiteLLM saved the deployment and does not serve it.",
        "Look at LiteLLM's log for why it cannot load the deployment.",
    ),
}


class ItemKind(enum.Enum):
    """The closed list of attention items; the order is what hurts callers first."""

    LITELLM_UNREACHABLE = "litellm_unreachable"
    LITELLM_UNAUTHORIZED = "litellm_unauthorized"
    LITELLM_NO_DATABASE = "litellm_no_database"
    SOURCE_TROUBLE = "source_trouble"
    CANNOT_REACH = "cannot_reach"
    WITNESS_MISSING = "witness_missing"
    BRAKE_ON = "brake_on"
    MODEL_UNAVAILABLE = "model_unavailable"
    DOWN = "down"
    NOT_PROVEN = "not_proven"
    WRITE_FAILED = "write_failed"
    NOT_KEPT = "not_kept"
    NOT_LIVE = "not_live"
    NEEDS_HUMAN = "needs_human"
    ROWS_VANISHED = "rows_vanished"
    UNKNOWN_HOST = "unknown_host"
    WRONG_KEY = "wrong_key"
    REMOVE_HOST = "remove_host"
    DISCOVERED = "discovered"
    AMBIGUOUS = "ambiguous"
    ORPHAN_SERVING = "orphan_serving"
    YAML_ROW = "yaml_row"
    BEARER_PENDING = "bearer_pending"
    SERVES_NOTHING = "serves_nothing"
    CONFIG_RELOAD = "config_reload"


class Availability(enum.Enum):
    """What a caller is told about a model."""

    AVAILABLE = "Available"
    DEGRADED = "Degraded"
    UNAVAILABLE = "Unavailable"
    UNKNOWN = "Unknown"
