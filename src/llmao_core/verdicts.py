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
    Badge.SATURATED: (
        "Requests have waited in its queue for minutes.",
        "Serve the model on one more box, or send it fewer requests.",
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
    SATURATED = "saturated"
    NOT_PROVEN = "not_proven"
    WRITE_FAILED = "write_failed"
    NOT_KEPT = "not_kept"
    NOT_LIVE = "not_live"
    NEEDS_HUMAN = "needs_human"
    ROWS_VANISHED = "rows_vanished"
    FOREIGN_VANISHED = "foreign_vanished"
    UNKNOWN_HOST = "unknown_host"
    WRONG_KEY = "wrong_key"
    REMOVE_HOST = "remove_host"
    NO_INSTANCE = "no_instance"
    DOWN_AND_BILLED = "down_and_billed"
    SERVES_NOTHING = "serves_nothing"
    UNNAMED_BOX = "unnamed_box"
    DISCOVERED = "discovered"
    AMBIGUOUS = "ambiguous"
    ORPHAN_SERVING = "orphan_serving"
    UNSTAMPED_COPY = "unstamped_copy"
    YAML_ROW = "yaml_row"
    BEARER_PENDING = "bearer_pending"
    CONFIG_RELOAD = "config_reload"

    @property
    def meaning(self) -> str:
        """Return what it says, one line."""
        return ITEMS[self][0]

    @property
    def remedy(self) -> str:
        """Return what to do, one line."""
        return ITEMS[self][1]


ITEMS: Mapping[ItemKind, tuple[str, str]] = {
    ItemKind.LITELLM_UNREACHABLE: (
        "LiteLLM, or its database, does not answer. Routes stay as they are.",
        "Start it, or correct litellm.base_url.",
    ),
    ItemKind.LITELLM_UNAUTHORIZED: (
        "LiteLLM refuses llmao's key.",
        "Set litellm.master_key to its master key or to the key of a proxy_admin.",
    ),
    ItemKind.LITELLM_NO_DATABASE: (
        "LiteLLM keeps no models.",
        "Start it with DATABASE_URL and STORE_MODEL_IN_DB=True.",
    ),
    ItemKind.SOURCE_TROUBLE: (
        "A provider, a receiver of notifications, the store or the journal fails.",
        "Do what its sentence says; until then nothing is concluded from it.",
    ),
    ItemKind.CANNOT_REACH: (
        "llmao cannot reach servers that LiteLLM reaches. Their routes stay.",
        "Look at the network between llmao and the boxes.",
    ),
    ItemKind.WITNESS_MISSING: (
        "Servers seem dead, and nothing can confirm it. Their routes stay.",
        "Find out whether they are; press the button if so.",
    ),
    ItemKind.BRAKE_ON: (
        "Too many removals at once, none of them proven by probes.",
        "Find out what went at once; release the brake if it is meant.",
    ),
    ItemKind.MODEL_UNAVAILABLE: (
        "No server of a model works: callers get errors.",
        "Look at its servers on the models page, and mend or rent one.",
    ),
    ItemKind.DOWN: (
        "A server that should serve does not.",
        "Do what its lifecycle and badges say; its log on the box says more.",
    ),
    ItemKind.SATURATED: (
        "Requests have waited for minutes at a server that works.",
        "Serve the model on one more box.",
    ),
    ItemKind.NOT_PROVEN: (
        "A server answers and has not proven that it works, so it has no route.",
        "Look at what it failed to prove; try a completion on the box.",
    ),
    ItemKind.WRITE_FAILED: (
        "LiteLLM or a provider did not do as it was asked. It is tried again.",
        "Read what it said; press nothing while the count is small.",
    ),
    ItemKind.NOT_KEPT: (
        "LiteLLM keeps something else than what is written. llmao has stopped trying.",
        "Correct the named fields in models.yaml, or what changes them in LiteLLM.",
    ),
    ItemKind.NOT_LIVE: (
        "LiteLLM saved a deployment and cannot load it.",
        "Look in LiteLLM's log for the reason, often litellm_params of the model.",
    ),
    ItemKind.NEEDS_HUMAN: (
        "The policy wants a person for an action.",
        "Read why; press the button, or leave it.",
    ),
    ItemKind.ROWS_VANISHED: (
        "All deployments of llmao's vanished from LiteLLM at once. They are put back.",
        "Find out who emptied its database.",
    ),
    ItemKind.FOREIGN_VANISHED: (
        "A row that is not llmao's vanished right after a write of llmao's.",
        "Look in LiteLLM's log; put the row back if it is needed.",
    ),
    ItemKind.UNKNOWN_HOST: (
        "A box with the right fleet key is in no list.",
        "Approve it with its models, or add it to fleet.hosts.",
    ),
    ItemKind.WRONG_KEY: (
        "Somebody asks for a configuration with a wrong fleet key.",
        "If it is a box of ours, correct its template; else ignore it or block the address.",
    ),
    ItemKind.REMOVE_HOST: (
        "A provider no longer lists a host of fleet.hosts.",
        "Remove it from the file, or retire it.",
    ),
    ItemKind.NO_INSTANCE: (
        "No instance of any provider answers to a name of fleet.hosts.",
        "Correct the name, remove it, or mark the host `own: true`.",
    ),
    ItemKind.DOWN_AND_BILLED: (
        "A box is down and still paid for.",
        "End its rental, or start it again.",
    ),
    ItemKind.SERVES_NOTHING: (
        "A box is paid for and has served nothing for an hour.",
        "Give it models, mend it, or end its rental.",
    ),
    ItemKind.UNNAMED_BOX: (
        "An instance is paid for and no host names it.",
        "Add it to fleet.hosts, or end its rental.",
    ),
    ItemKind.DISCOVERED: (
        "An instance that no host names serves a model of ours.",
        "Add it to fleet.hosts if it should have a route.",
    ),
    ItemKind.AMBIGUOUS: (
        "Several instances could be one host, so it is none.",
        "Name the host by its contract label in fleet.hosts.",
    ),
    ItemKind.ORPHAN_SERVING: (
        "A deployment of llmao's that nothing intends still serves.",
        "Add it to fleet.hosts, or remove it.",
    ),
    ItemKind.UNSTAMPED_COPY: (
        "LiteLLM has a second row for a server, which llmao did not make.",
        "Remove it, unless somebody needs it.",
    ),
    ItemKind.YAML_ROW: (
        "LiteLLM's own config file has a server of ours, which llmao cannot manage.",
        "Remove the row from that file.",
    ),
    ItemKind.BEARER_PENDING: (
        "A box still runs the bearer of the previous salt.",
        "Let it fetch: restart llmao-install on it.",
    ),
    ItemKind.CONFIG_RELOAD: (
        "A changed configuration was not taken; the old one stays in force.",
        "Correct what its evidence lists, or confirm what it drops, and reload.",
    ),
}


class Availability(enum.Enum):
    """What a caller is told about a model."""

    AVAILABLE = "Available"
    DEGRADED = "Degraded"
    UNAVAILABLE = "Unavailable"
    UNKNOWN = "Unknown"
