"""The closed list of what a person should look at, each with what it says and what to do.

Rule of this file: a remedy here is true of every item of its kind; an item that knows more has a
better one of its own. What is between backticks is a command or a word of a file.
"""

import enum
from collections.abc import Mapping


class ItemKind(enum.Enum):
    """The closed list of attention items; the order is what hurts callers first."""

    LITELLM_UNREACHABLE = "litellm_unreachable"
    LITELLM_UNAUTHORIZED = "litellm_unauthorized"
    LITELLM_NO_DATABASE = "litellm_no_database"
    SOURCE_TROUBLE = "source_trouble"
    WITNESS_MISSING = "witness_missing"
    BRAKE_ON = "brake_on"
    ROWS_VANISHED = "rows_vanished"
    MODEL_UNAVAILABLE = "model_unavailable"
    DOWN = "down"
    CANNOT_REACH = "cannot_reach"
    SATURATED = "saturated"
    NOT_PROVEN = "not_proven"
    WRITE_FAILED = "write_failed"
    NOT_KEPT = "not_kept"
    NOT_LIVE = "not_live"
    NEEDS_HUMAN = "needs_human"
    FOREIGN_VANISHED = "foreign_vanished"
    UNKNOWN_HOST = "unknown_host"
    WRONG_KEY = "wrong_key"
    REMOVE_HOST = "remove_host"
    NO_INSTANCE = "no_instance"
    RETIRED_AND_BILLED = "retired_and_billed"
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
        "LiteLLM, or its database, does not answer llmao. Routes stay as they are.",
        "See that LiteLLM and its database run; correct `litellm.base_url` if it moved.",
    ),
    ItemKind.LITELLM_UNAUTHORIZED: (
        "LiteLLM refuses llmao's key. Routes stay as they are.",
        "Set `litellm.master_key` to its master key or to the key of a proxy_admin, and reload.",
    ),
    ItemKind.LITELLM_NO_DATABASE: (
        "LiteLLM keeps no models, so llmao can add none for callers.",
        "Start LiteLLM with `DATABASE_URL` and `STORE_MODEL_IN_DB=True`.",
    ),
    ItemKind.SOURCE_TROUBLE: (
        "A provider, a receiver of notifications, the store or the journal fails.",
        "Read its error under Sources on the models page; mend that, or wait if it is theirs.",
    ),
    ItemKind.WITNESS_MISSING: (
        "Servers seem dead, and nothing can confirm it. Their routes stay.",
        "See in the providers' consoles whether they run; press the button if they do not.",
    ),
    ItemKind.BRAKE_ON: (
        "Too many removals at once, none of them proven by probes.",
        "Find out what went at once; release the brake if it is meant.",
    ),
    ItemKind.MODEL_UNAVAILABLE: (
        "No server of a model works: callers get errors.",
        "Look at its servers on the models page; mend one, or rent one more and approve it.",
    ),
    ItemKind.DOWN: (
        "A server that should serve does not.",
        "See at the provider that its box runs, and on it `supervisorctl tail vllm-NAME`.",
    ),
    ItemKind.CANNOT_REACH: (
        "llmao cannot reach servers that LiteLLM reaches. Callers are served; routes stay.",
        "Look at the network between llmao and the boxes, a firewall first.",
    ),
    ItemKind.SATURATED: (
        "Requests have waited for minutes at a server that works.",
        "Serve the model on one more box.",
    ),
    ItemKind.NOT_PROVEN: (
        "A server answers and has not proven that it works, so callers do not get it.",
        "Try a request on the box, and look at `supervisorctl tail vllm-NAME`.",
    ),
    ItemKind.WRITE_FAILED: (
        "LiteLLM or a provider did not do as it was asked. It is tried again.",
        "Wait for the next try; if the count grows, look in the log of whoever refused.",
    ),
    ItemKind.NOT_KEPT: (
        "LiteLLM keeps something else than what is written. llmao has stopped trying.",
        "Correct the named fields in `models.yaml`, or what changes them in LiteLLM.",
    ),
    ItemKind.NOT_LIVE: (
        "LiteLLM saved a deployment and cannot load it: callers do not get it.",
        "Look in LiteLLM's log for the reason, often `litellm_params` of the model.",
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
        "A box with the right fleet key is in no list. It waits, and serves nobody.",
        "Approve it with its models, or add it to `fleet.hosts`.",
    ),
    ItemKind.WRONG_KEY: (
        "Somebody asks for a configuration with a wrong fleet key.",
        "If it is a box of ours, correct its template; else ignore it or block the address.",
    ),
    ItemKind.REMOVE_HOST: (
        "A provider no longer lists a host of fleet.hosts.",
        "Remove it from `fleet.hosts`, or retire it on its page.",
    ),
    ItemKind.NO_INSTANCE: (
        "No instance of any provider answers to a name of fleet.hosts.",
        "Correct the name, remove it, or mark the host `own: true`.",
    ),
    ItemKind.RETIRED_AND_BILLED: (
        "A retired host is still rented.",
        "End its rental at the provider.",
    ),
    ItemKind.DOWN_AND_BILLED: (
        "A box is down and still paid for.",
        "End its rental at the provider, or start it again there.",
    ),
    ItemKind.SERVES_NOTHING: (
        "A box is paid for and has served nothing for an hour.",
        "Give it models, mend it, or end its rental at the provider.",
    ),
    ItemKind.UNNAMED_BOX: (
        "An instance is paid for and no host names it.",
        "Add it to `fleet.hosts`, or end its rental at the provider.",
    ),
    ItemKind.DISCOVERED: (
        "An instance that no host names serves a model of ours.",
        "Approve it or add it to `fleet.hosts` to keep it, or end its rental.",
    ),
    ItemKind.AMBIGUOUS: (
        "Several instances could be one host, so it is none, and has no address.",
        "Name the host by its contract label in `fleet.hosts`.",
    ),
    ItemKind.ORPHAN_SERVING: (
        "A deployment of llmao's that nothing intends still serves.",
        "Add it to `fleet.hosts`, or remove it.",
    ),
    ItemKind.UNSTAMPED_COPY: (
        "LiteLLM has a second row for a server, which llmao did not make.",
        "Remove it, unless somebody needs it.",
    ),
    ItemKind.YAML_ROW: (
        "LiteLLM's own config file has a server of ours, which llmao cannot manage.",
        "Remove the row from that file, and restart LiteLLM.",
    ),
    ItemKind.BEARER_PENDING: (
        "A box still runs the key of the previous salt. Callers are served.",
        "Let it fetch: `supervisorctl start llmao-install` on it.",
    ),
    ItemKind.CONFIG_RELOAD: (
        "A changed configuration was not taken; the old one stays in force.",
        "Correct what its evidence lists, or confirm what it drops, and reload.",
    ),
}
