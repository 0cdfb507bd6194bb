"""What each run's results contained, for as long as this process remembers.

Forgetting is safe: a proof that is forgotten is no proof, labels are kept elsewhere, durably, and of
a run that may have been led before, it is known that not all is known. Of what lists have shown, which
raises no label, it is known as long as one of the run's parts is remembered.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from gateway.domain.bounded import Shared
from gateway.domain.calls import Permit
from gateway.domain.flow import Run, RunId, RunState, Source, untrusted_by
from gateway.domain.labels import Confidentiality, Integrity
from gateway.domain.late import LateCall
from gateway.domain.nodes import most_nodes
from gateway.domain.room import outlasting
from gateway.domain.tools import OWN
from gateway.flow.given import Given
from gateway.flow.listed import Listed
from gateway.flow.provenance import Provenance
from gateway.flow.reading import Answered
from gateway.turns import QUICK_NODES, finished, in_turn
from gateway.wire.outgoing import said

T = TypeVar("T")

_OCTETS: Final = 64 * 1024**2
"""Of all runs together; the results of one take half of it at most, and nobody's have another's forgotten."""
_RUN: Final = 10 * 1024
"""Bytes of a run of which nothing is remembered yet."""


class ProvenanceMemory:
    """The provenance of the runs used last."""

    def __init__(self, find: Callable[[RunId], RunState | None]) -> None:
        """Ask `find` what a run has read by now: a call knows what it had when it came."""
        self._find = find
        self._runs: Shared[str, RunId, Provenance] = Shared(octets=_OCTETS)
        """By whose they are."""
        self._locks: WeakValueDictionary[RunId, asyncio.Lock] = WeakValueDictionary()
        """Of each run that is gone through beside the loop, or waited for: one after the other."""
        self._listed: WeakValueDictionary[RunId, Listed] = WeakValueDictionary()
        """By whole run, as long as anything is remembered of it or of one of its parts."""
        self.given = Given()
        """What servers gave out, in whichever run: it is theirs."""

    async def with_it(
        self,
        run: Run,
        who: str,
        octets: int,
        work: Callable[[Provenance], T],
        *,
        looks: bool,
        words: bool = False,
        must: bool = False,
    ) -> T:
        """Return what `work` makes of what is remembered of `run`, alone with it.

        It goes through `octets` of a message and, if it `looks`, what was not gone through yet: for
        a user's `words` more of it than without. Where that is much it is done beside the event loop,
        in the turn of `who`. What `must` be done, because what it is about has been sent, is done
        however much waits.

        Raises:
            RateLimited: As `in_turn`; never of what must be done.

        """
        lock = self._locks.get(run.id)
        if lock is not None:
            await lock.acquire()
        found = self.of(run, who)
        nodes = most_nodes(octets + found.unread(words=words) if looks else octets)
        if nodes <= QUICK_NODES:
            # Nobody comes to it meanwhile.
            try:
                return work(found)
            finally:
                self._leave(who, run, found, lock)
        if lock is None:
            lock = self._locks[run.id] = asyncio.Lock()
            await lock.acquire()  # at once, as nobody else has it
        through = partial(_looked_through, work, words=words) if looks else work
        # A thread cannot be ended: until it is done nobody else is with it, whoever waits for that.
        done = asyncio.ensure_future((finished if must else in_turn)(who, nodes, through, found))
        outlasting(done)
        done.add_done_callback(lambda task: self._leave(who, run, found, lock, task))
        return await asyncio.shield(done)

    async def hear(
        self,
        permit: Permit,
        run: Run,
        content: Mapping[str, Any],
        *,
        size: int,
        source: Source,
        level: Confidentiality,
    ) -> None:
        """Note in `run` what the permit's server said beside its answer, in a message of `size` bytes.

        `level` is how confidential it is apart from what stands in it.
        """
        if permit.call.server == OWN:
            return
        answered = Answered(
            source=source,
            effect=None,
            arguments=said(permit.call.message),
            content=content,
            octets=size,
            level=level,
        )
        octets = size + len(permit.call.message.body)
        who = permit.principal.person
        await self.with_it(run, who, octets, lambda p: p.hears(answered), looks=False, must=True)

    def _leave(
        self,
        who: str,
        run: Run,
        grown: Provenance,
        lock: asyncio.Lock | None,
        done: asyncio.Future[Any] | None = None,
    ) -> None:
        """Count what a run takes now, with what sees all of it; what was forgotten meanwhile stays so."""
        if lock is not None:
            lock.release()
        self._runs.put(who, run.id, grown, _RUN + grown.octets, again=True)
        if run.part_of is not None and (above := self._runs.get(who, run.part_of)) is not None:
            self._runs.put(who, run.part_of, above, _RUN + above.octets, again=True)
        if done is not None and not done.cancelled():
            done.exception()  # looked at, also if whoever waited for it has gone

    def of(self, run: Run, who: str) -> Provenance:
        """Return what is remembered of `run`, one of `who`, which may be nothing yet; of whoever is alone with it."""
        own = self._runs._of.get(who)  # noqa: SLF001 - on every call's way this is one call less
        found = None if own is None else own.get(run.id)
        if found is None:
            state = self._find(run.id)
            found = Provenance(
                listed=self._listed.setdefault(run.part_of or run.id, Listed()),
                complete=state is not None and _was_never_led(state.run),
                knows_secrets=state is not None and _has_seen_no_secret(state.run),
                above=lambda: None if run.part_of is None else self._runs.get(who, run.part_of),
            )
            self._runs.put(who, run.id, found, _RUN)
        if run.roamed:
            found.give_up()
        return found

    def may_tell_of_led(self, permit: Permit, late: LateCall) -> bool:
        """Whether the run that made the `late` call may have been led by now, and have written what its answer tells.

        Asked before the answer raises a run: whether the one that is told it was led is known from then on.
        """
        who = permit.principal.person
        if self._runs.get(who, permit.run.id) is None:
            self.of(permit.run, who)  # nobody is with it yet
        state, known = self._find(late.run), self._runs.get(who, late.run)
        if state is None or (run := state.run).roamed:
            return True
        return not _was_never_led(run) if known is None else known.is_led


def _looked_through(work: Callable[[Provenance], T], found: Provenance, *, words: bool) -> T:
    """Return what `work` returns, and leave nothing to be looked at by the next question."""
    try:
        return work(found)
    finally:
        found.finish(words=words)


def _was_never_led(run: Run) -> bool:
    """Whether `run` has read nothing untrusted since when it may have written something, now forgotten.

    A person who lowers its label does not speak for what it wrote before.
    """
    trusted = run.label.integrity is Integrity.TRUSTED
    return not run.sources or (trusted and not untrusted_by(run.sources))


def _has_seen_no_secret(run: Run) -> bool:
    """Whether no result of `run` was secret, so that none of its values is forgotten."""
    secret = Confidentiality.SECRET
    labels = (run.label, *(source.label for source in run.sources))
    return not run.sources or all(label.confidentiality is not secret for label in labels)
