"""What is asked of a llmao whose store is in trouble, and for how long.

Rule of this file: half a minute stands for the ten minutes of a database that is upgraded, or
full: by then every interval, time-out and longest wait of the store has come round.
LLMAO_AWAY_S=600 makes it the ten minutes.
"""

import asyncio
import os
from collections.abc import Sequence

from .stage import Server, Stage, Visitor
from .timing import now

ROUTED_S = 60
AWAY_S = float(os.environ.get("LLMAO_AWAY_S", "30"))
SERVERS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
APPROVED, LATER = "127.0.9.1", "127.0.9.2"
# The election looks every second, and the store is tried again after ten seconds at most.
RESUMED_S = 20
KNOWN_S = 40
# Those at the end show what is kept, or say that it cannot be read.
PAGES = ("/models", "/boxes", "/admin", "/healthz", "/readyz", "/metrics", "/admin/log")
ACTIONS = (
    "SELECT count(*) FROM llmao.entries WHERE kind = 'action'"
    " AND number > (SELECT number FROM llmao.entries WHERE kind = 'approved' LIMIT 1)"
)


def row_of(stage: Stage, server: Server) -> str:
    """Return the id of a server's row in LiteLLM."""
    rows = stage.litellm.db.values()
    return next(row.id for row in rows if server.vllm.base == row.info["llmao_key"])


def pages_of(stage: Stage, server: Server) -> tuple[str, ...]:
    """Return the pages that are looked at meanwhile, those about a server among them."""
    return (*PAGES, f"/boxes/{server.host}", f"/deployments/{row_of(stage, server)}")


async def answers(visitor: Visitor, pages: Sequence[str], until_s: float) -> str:
    """Ask for everything until a moment; say how often."""
    asked = 0
    while now() < until_s:
        assert 200 == (await visitor.fetch(APPROVED)).status_code
        for page in pages:
            answer = await visitor.get(page)
            assert 200 == answer.status_code, (page, answer.text)
        asked += 1
        await asyncio.sleep(0.2)
    return f"{asked} times a box and {len(pages)} pages"
