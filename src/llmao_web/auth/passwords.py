"""Names and passwords.

Rule of this file: a name that nobody has takes as long as a wrong password, and few are checked
at once, because each takes memory and a processor.
"""

import asyncio
from collections.abc import Mapping

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from attrs import define, field

from llmao_core.config import AdminConfig

AT_ONCE = 2
LONGEST_PASSWORD = 1024


@define
class Passwords:
    """Checks the passwords of admins."""

    admins: tuple[AdminConfig, ...]
    _hasher: PasswordHasher = field(factory=PasswordHasher, init=False)
    _turn: asyncio.Semaphore = field(factory=lambda: asyncio.Semaphore(AT_ONCE), init=False)

    async def fits(self, name: str, password: str) -> bool:
        """Tell whether this is the password of the admin of this name."""
        if not self.admins or len(password) > LONGEST_PASSWORD:
            return False
        by_name: Mapping[str, AdminConfig] = {admin.name: admin for admin in self.admins}
        admin = by_name.get(name, self.admins[0])
        async with self._turn:
            right = await asyncio.to_thread(self._verify, admin.hash.reveal(), password)
        return right and name in by_name

    def _verify(self, hashed: str, password: str) -> bool:
        try:
            return self._hasher.verify(hashed, password)
        except (VerificationError, InvalidHashError):
            return False


def hashed(password: str) -> str:
    """Return the argon2 hash of a password, as `auth.admins` takes it."""
    return PasswordHasher().hash(password)
