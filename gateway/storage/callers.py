"""Who calls, by when they last did: of those whom one outside vouches for, only so many."""

from collections import Counter, OrderedDict, defaultdict
from itertools import islice
from typing import Final

from gateway.domain.flow import RunId
from gateway.domain.identity import BY_PLANE, Principal
from gateway.errors import RateLimited
from gateway.storage.run_changes import OwnerName

MOST_CALLERS: Final = 50_000
"""Owners of runs whom one plane or issuer names: some 2 KB of memory each, with what they have read more."""
MOST_BEGUN: Final = 50_000
"""Live runs that callers of one plane or issuer began within theirs, all of them together."""
_WAIT_S: Final = 60


class Callers:
    """When the owners of runs last called, who was idle longest first.

    A plane that vouches, or another issuer, makes as many owners as it likes, and what each has read is
    kept until they were idle for long. Nobody's run ends early to make room, for its label would be gone.
    """

    def __init__(self) -> None:
        self._used: OrderedDict[OwnerName, float] = OrderedDict()
        self._by: dict[OwnerName, str] = {}
        self._named: Counter[str] = Counter()

    def last(self, owner: OwnerName, default: float) -> float:
        """Return when the owner last called."""
        return self._used.get(owner, default)

    def call(self, owner: OwnerName, principal: Principal, at: float, default: float) -> float:
        """Note that the owner calls; return when it last did, or `default`.

        Raises:
            RateLimited: Whoever names them has named too many who called lately.

        """
        used = self._used.get(owner)
        if owner not in self._by:
            self._admit(owner, principal, is_new=used is None)
        self._used[owner] = at
        self._used.move_to_end(owner)
        return default if used is None else used

    def _admit(self, owner: OwnerName, principal: Principal, *, is_new: bool) -> None:
        by = _named_by(principal)
        # Who is not new has a run from before the start: by whom it was named, the first call says.
        if by and is_new and self._named[by] >= MOST_CALLERS:
            raise RateLimited(
                "too many people and clients of this plane or issuer have called lately; try again"
                " once some of them have not for long",
                detail=by,
                wait_s=_WAIT_S,
            )
        self._by[owner] = by
        self._named[by] += 1

    def note(self, owner: OwnerName, at: float) -> None:
        """Note that the owner called `at` that time, which is none before the latest."""
        self._used[owner] = at
        self._used.move_to_end(owner)

    def put_back(self, owner: OwnerName, noted: float, used: float) -> None:
        """Have the owner be as idle again as before it called at `noted`, where it has not since."""
        if self._used.get(owner) == noted:
            self._used[owner] = used

    def take_idle(self, until: float) -> list[OwnerName]:
        """Take out, and return, who has not called since `until`."""
        idle: list[OwnerName] = []
        while self._used and (first := next(iter(self._used.items())))[1] <= until:
            idle.append(first[0])
            del self._used[first[0]]
            self._named[self._by.pop(first[0], "")] -= 1
        return idle


class Begun:
    """Live runs that were begun within others, by who outside names their callers.

    Nothing is lost where one ends early: whatever it has read the run has read that it is a part of.
    """

    def __init__(self) -> None:
        self._of: defaultdict[str, OrderedDict[RunId, None]] = defaultdict(OrderedDict)

    def add(self, run: RunId, principal: Principal) -> list[RunId]:
        """Note one that has begun; return those that have to end for it, unused for longest."""
        by = _named_by(principal)
        if not by:
            return []
        runs = self._of[by]
        runs[run] = None
        return list(islice(runs, max(0, len(runs) - MOST_BEGUN)))

    def use(self, run: RunId) -> None:
        """Note that it is used now."""
        for runs in self._of.values():
            if run in runs:
                runs.move_to_end(run)

    def leave(self, run: RunId) -> None:
        """Note that it has ended."""
        for runs in self._of.values():
            runs.pop(run, None)


def _named_by(principal: Principal) -> str:
    """Return who outside chose the names that runs of the principal's are filed under; empty for our own.

    What a plane says of a client is its own word, also where it may ask for nobody but people whom we know.
    """
    if principal.people is None:
        return principal.issuer
    return principal.token_id if principal.token_id.startswith(BY_PLANE) else ""
