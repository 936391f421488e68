"""A process that stands for election and notes every write it was allowed to begin.

python -m tests.real.standing URL REPLICA NOTES
"""

import asyncio
import contextlib
import os
import sys
from pathlib import Path

from llmao_core.actions import ActionKind, Order, Write
from llmao_core.keys import box_key
from llmao_web.shell.clock import SystemClock
from llmao_web.shell.leader import Election

CLOCK = SystemClock()
WRITE_S = 0.02
ORDER = Order(ActionKind.ADD_LITELLM, "litellm", box_key("127.0.0.2", 8001, "tiny"), "llmao-1")


async def stand(url: str, replica: str, notes: Path) -> None:
    """Write whenever it leads; a line for each write it began, and for the one it took over."""
    lead = Election(url, replica, CLOCK)
    with notes.open("a", buffering=1) as file:

        def took_over(target: str, write: Write) -> None:
            said = write.outcome.kind.value if write.outcome else ""
            file.write(f"{CLOCK.monotonic():.4f} {target} {write.key.shown} {said}\n")

        lead.took_over = took_over
        running = asyncio.create_task(lead.run())
        with contextlib.suppress(asyncio.CancelledError):
            while not running.done():
                if lead.leads():
                    allowed = await lead.begins(ORDER)
                    file.write(f"{CLOCK.monotonic():.4f} {'began' if allowed else 'refused'}\n")
                    if allowed:
                        await asyncio.sleep(WRITE_S)
                        await lead.ended()
                await asyncio.sleep(WRITE_S)
        await running


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(stand(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
    os._exit(0)
