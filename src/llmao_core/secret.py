"""A value that never shows itself.

Rule of this file: the only way out is `reveal`, so that a search for it lists every place
where a secret leaves llmao.
"""

import hashlib
import hmac
from typing import final


@final
class Secret:
    """Text that must not appear in a log, page, repr, exception or journal."""

    __slots__ = ("_digest", "_value")

    def __init__(self, value: str) -> None:
        self._value = value
        # a file or variable may hold what is no Unicode; it matches nothing that can be sent
        self._digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).digest()

    def reveal(self) -> str:
        """Return the text itself, for the one who sends it on."""
        return self._value

    def fingerprint(self, salt: "Secret") -> str:
        """Return 16 hex digits that change when the secret does and tell nothing else."""
        return hmac.digest(
            salt.reveal().encode(), b"llmao.fingerprint\n" + self._value.encode(), "sha256"
        ).hex()[:16]

    def matches(self, claimed: bytes) -> bool:
        """Compare in constant time, whatever bytes somebody claims."""
        return hmac.compare_digest(self._digest, hashlib.sha256(claimed).digest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._digest, other._digest)

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")
