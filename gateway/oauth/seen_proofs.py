"""Which DPoP proofs were used, for as long as anybody could come with them again (RFC 9449 section 11.1)."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock
from typing import Final

from gateway.domain.identity import Proof
from gateway.ports.allowance import UsedProofs

MOST_PROOFS: Final = 200_000
"""At once, of everybody: about 50 MiB."""

_SHARE: Final = 10
"""Of all of them one person, with whatever clients, has at most this part: keys and clients cost nothing."""

_MARGIN_S: Final = 60.0
"""A request may take so long from where its proof is read to where its use is noted."""


class _Generation:
    """Proofs that are forgotten together."""

    def __init__(self) -> None:
        self.by_use: dict[bytes, Proof] = {}
        self.by_owner: Counter[str] = Counter()
        self.until = 0.0

    def add(self, proof: Proof, owner: str) -> None:
        self.by_use[proof.use] = proof
        self.by_owner[owner] += 1
        self.until = max(self.until, proof.until)


class SeenProofs:
    """A bounded memory of uses. It forgets nothing that could be replayed: full, it says no.

    It begins with the process, whose predecessor may have seen what it cannot know of: what was made
    before is good for nothing. Threads may share it.
    """

    def __init__(
        self, *, since: float, most: int = MOST_PROOFS, elsewhere: UsedProofs | None = None
    ) -> None:
        """Take when the process began, in seconds since the epoch.

        `elsewhere` is asked last, where other processes take proofs as well.
        """
        # What says when it was made does so in whole seconds.
        self._since = float(int(since))
        self._most = most
        self._elsewhere = elsewhere
        self._recent = _Generation()
        self._before = _Generation()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._recent.by_use) + len(self._before.by_use)

    def use(self, proof: Proof, *, owner: str, now: float) -> None:
        """Note the use of `proof`; looked at again for the same request it is no second one.

        `owner` is whose it is by what else the request shows: it takes room from nobody else.

        Raises:
            ValueError: It was used before, or nobody can tell; the text says which.
            IdentityUnavailable: It was not noted elsewhere.

        """
        if self._is_first(proof, owner, now) and self._elsewhere is not None:
            with self._good_once_known(proof):
                self._elsewhere.use(proof, now=now)

    async def use_soon(self, proof: Proof, *, owner: str, now: float) -> None:
        """Note its use as `use` does, for whoever must not wait."""
        if self._is_first(proof, owner, now) and self._elsewhere is not None:
            with self._good_once_known(proof):
                await asyncio.to_thread(self._elsewhere.use, proof, now=now)

    @contextmanager
    def _good_once_known(self, proof: Proof) -> Iterator[None]:
        """Have `proof` be good for nobody, its own request neither, if this does not end well.

        A no is asked again, with the very same request.
        """
        try:
            yield
        except BaseException:
            with self._lock:
                for generation in (self._recent, self._before):
                    if generation.by_use.get(proof.use) is proof:
                        generation.by_use[proof.use] = replace(proof)
            raise

    def _is_first(self, proof: Proof, owner: str, now: float) -> bool:
        """Note the use of `proof` here; false where the same request has done so."""
        with self._lock:
            self._forget(now)
            held = self._recent.by_use.get(proof.use) or self._before.by_use.get(proof.use)
            if held is proof:
                return False
            if held is not None:
                raise ValueError("used before")
            if proof.made_at < self._since:
                raise ValueError("made before the gateway began, which has not seen what was used")
            if now > proof.until + _MARGIN_S:
                return False  # its request goes on for long, and nobody else's could come so late
            self._require_room(owner)
            self._recent.add(proof, owner)
            return True

    def _require_room(self, owner: str) -> None:
        theirs = self._recent.by_owner[owner] + self._before.by_owner[owner]
        if len(self) >= self._most or theirs >= max(1, self._most // _SHARE):
            raise ValueError("more proofs are in use than can be remembered")

    def _forget(self, now: float) -> None:
        if now > self._before.until + _MARGIN_S:
            self._before, self._recent = self._recent, _Generation()
