"""What each run's results contained, for as long as this process remembers.

Forgetting is safe: a proof that is forgotten is no proof, labels are kept elsewhere, durably, and of
a run that may have been led before, it is known that not all is known.
"""

from typing import Final

from gateway.domain.bounded import Bounded
from gateway.domain.flow import Run, RunId
from gateway.domain.labels import Integrity
from gateway.flow.given import Given
from gateway.flow.provenance import Provenance

_MOST_RUNS: Final = 256
_OCTETS: Final = 32 * 1024**2
"""Of all runs together; one whose payloads are searched takes some 12 MiB at most."""


class ProvenanceMemory:
    """The provenance of the runs used last."""

    def __init__(self) -> None:
        self._runs: Bounded[RunId, Provenance] = Bounded(most=_MOST_RUNS, octets=_OCTETS)
        self._last: tuple[RunId, Provenance] | None = None
        """Which was asked for last: it may have grown since."""
        self.given = Given()
        """What servers gave out, in whichever run: it is theirs."""

    def of(self, run: Run) -> Provenance:
        """Return what is remembered of `run`, which may be nothing yet."""
        self._weigh_last()
        found = self._runs.get(run.id)
        if found is None:
            # What it has written since it read something untrusted is forgotten, if there is any.
            complete = run.label.integrity is Integrity.TRUSTED or not run.sources
            found = Provenance(complete=complete)
            self._runs.put(run.id, found)
        self._last = run.id, found
        return found

    def _weigh_last(self) -> None:
        if self._last is not None and self._last[0] in self._runs:
            id_, grown = self._last
            self._runs.put(id_, grown, grown.octets)
