"""Passwords: how one is chosen, kept and compared (RFC 9106; NIST SP 800-63B section 3.1.1)."""

import asyncio
import base64
import re
import unicodedata
from collections.abc import Callable
from typing import TypeVar

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from gateway.signin.browser import Random
from gateway.signin.errors import Throttled, Unacceptable
from gateway.turns import in_thread

SHORTEST = 12
LONGEST = 256
_MOST_TYPED = 4 * LONGEST
"""Characters that become as few: no letter is composed of more than four."""

_MEMORY_KIB = 19 * 1024
_ITERATIONS = 2
_LANES = 1
_OCTETS = 32
_PHC = re.compile(r"\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$", re.ASCII)

_FEWEST_CHARACTERS = 5
"""Different ones: neither `aaaaaaaaaaaa` nor `121212121212` is a password."""
_HOPELESS = frozenset(
    {
        "123456789012", "1234567890123", "abcdefghijkl", "administrator", "correcthorsebatterystaple",
        "1q2w3e4r5t6y", "q1w2e3r4t5y6", "1qaz2wsx3edc", "qazwsxedcrfv", "zaq12wsxcde3",
        "qwertyuiop12", "qwertyuiopas", "qwertyuiop[]", "asdfghjkl;'\\",
    }
)  # fmt: skip
_STEMS = ("password", "passw0rd", "qwerty", "iloveyou", "letmein", "changeme", "welcome", "douane")
"""Words that add nothing: what is left without them must be long enough by itself."""
_ENOUGH_LEFT = 8
_SHORTEST_STEM = 3

T = TypeVar("T")


class Passwords:
    """Hashes and compares, in worker threads and only so many at once.

    Each takes 19 MiB and some 25 ms, so those who wait are bounded as well.
    """

    def __init__(self, random: Random, *, at_once: int = 2, most_waiting: int = 32) -> None:
        self._random = random
        self._turns = asyncio.Semaphore(at_once)
        self._room = at_once + most_waiting
        self._nobody = _of_no_password(random)

    async def hashed(self, password: str) -> str:
        """Return the PHC text to store in place of `password`.

        Raises:
            Throttled: Too many wait already.

        """
        prepared = _prepared(password)
        return await self._in_turn(lambda: self._derived(prepared))

    async def matches(self, password: str, phc: str) -> bool:
        """Whether `phc` was made of `password`; takes as long where there is no `phc`.

        Raises:
            Throttled: Too many wait already.

        """
        prepared = _prepared(password)
        same = await self._in_turn(lambda: _verified(prepared, phc or self._nobody))
        return same and bool(phc)

    async def _in_turn(self, job: Callable[[], T]) -> T:
        if not self._room:
            raise Throttled(1)
        self._room -= 1
        try:
            return await in_thread(self._turns, job)
        finally:
            self._room += 1

    def _derived(self, password: bytes) -> str:
        return Argon2id(
            salt=self._random(16),
            length=_OCTETS,
            iterations=_ITERATIONS,
            lanes=_LANES,
            memory_cost=_MEMORY_KIB,
        ).derive_phc_encoded(password)


def _of_no_password(random: Random) -> str:
    """Return a PHC text that takes as long to compare as any of ours, and that nothing made."""
    salt, hashed = (base64.b64encode(random(size)).decode().rstrip("=") for size in (16, _OCTETS))
    return f"$argon2id$v=19$m={_MEMORY_KIB},t={_ITERATIONS},p={_LANES}${salt}${hashed}"


def outgrown(phc: str) -> bool:
    """Whether `phc` was made more cheaply than passwords are hashed today."""
    found = _PHC.match(phc)
    return found is None or int(found[1]) < _MEMORY_KIB or int(found[2]) < _ITERATIONS


def require_acceptable(password: str, user_name: str) -> None:
    """Go on only if `password` is one that `user_name` may choose.

    Raises:
        Unacceptable: It is short, long, unprintable, or among the first that anybody would try.

    """
    text = _opaque(password)
    if not SHORTEST <= len(text) <= LONGEST:
        raise Unacceptable(f"A password has {SHORTEST} to {LONGEST} characters.")
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise Unacceptable("A password has no control characters.")
    folded = text.casefold()
    left = folded if len(user_name) < _SHORTEST_STEM else folded.replace(user_name.casefold(), "")
    if len(left) < _ENOUGH_LEFT:
        raise Unacceptable("The password is the user name. Choose another.")
    for stem in _STEMS:
        left = left.replace(stem, "")
    few = len(set(folded)) < _FEWEST_CHARACTERS
    if few or len(left) < _ENOUGH_LEFT or folded in _HOPELESS:
        raise Unacceptable("This password is among the first that anybody would try.")


def _opaque(password: str) -> str:
    """Return the one spelling of `password` (RFC 8265 section 4.2.2): keyboards differ.

    What is too long in every spelling stays as it is: to compose it takes time quadratic in its
    length, and strangers send it.
    """
    text = "".join(" " if unicodedata.category(c) == "Zs" else c for c in password)
    return text if len(text) > _MOST_TYPED else unicodedata.normalize("NFC", text)


def _prepared(password: str) -> bytes:
    return _opaque(password).encode("utf-8", "surrogatepass")


def _verified(password: bytes, phc: str) -> bool:
    try:
        Argon2id.verify_phc_encoded(password, phc)
    except InvalidKey:
        return False
    return True
