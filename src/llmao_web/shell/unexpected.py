"""What should not happen, logged so that it can be found and leaks nothing.

Rule of this file: the message of a strange error may hold anything, a secret too; the type and
the place are enough.
"""

import traceback

import structlog

log = structlog.get_logger(__name__)


def log_unexpected(source: str, error: BaseException) -> None:
    """Log the type and the place of what should not happen; the message may hold anything."""
    places = "".join(traceback.format_tb(error.__traceback__, limit=-6))
    log.error("unexpected", source=source, error=type(error).__name__, at=places)
