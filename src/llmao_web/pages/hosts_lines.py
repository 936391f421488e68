"""The lines of `fleet.hosts` that say what an approval says, to be pasted into config.yaml.

Rule of this file: what it writes reads back as the same rows.
"""

from collections.abc import Iterable

import yaml

from llmao_core.config import HostRow
from llmao_core.intended import Approval

_HOST, _ROW = "    ", "      "


def hosts_lines(approvals: Iterable[Approval]) -> str:
    """Return lines as they stand under `hosts:`, indented; "" for no approval."""
    hosts = {each.host: [_row(row) for row in each.rows] for each in approvals}
    if not hosts:
        return ""
    text = yaml.safe_dump(
        hosts, default_flow_style=None, sort_keys=True, allow_unicode=True, width=1000
    )
    return "".join(
        f"{_ROW if line.startswith('-') else _HOST}{line}\n" for line in text.splitlines()
    )


def _row(row: HostRow) -> object:
    if row.recipe is not None:
        return {"model": row.model, "port": row.port, "name": row.name, "recipe": row.recipe}
    return [row.model, row.port] if row.name == row.model else [row.model, row.port, row.name]
