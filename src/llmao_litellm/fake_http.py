"""The two forms of error a LiteLLM proxy writes, beside how any fake is reached.

Rule of this file: answers only; which one is given is decided in fake.py.
"""

import json

from llmao_core.testing.served import Call, Reply, Served, ok


def error(status: int, message: str, kind: str = "auth_error") -> Reply:
    """Return an error as the proxy's own handler writes it."""
    said = {"message": message, "type": kind, "param": "None", "code": str(status)}
    return Reply(status, json.dumps({"error": said}).encode())


def detail(status: int, what: object) -> Reply:
    """Return an error as FastAPI writes it."""
    return Reply(status, json.dumps({"detail": what}).encode())


__all__ = ["Call", "Reply", "Served", "detail", "error", "ok"]
