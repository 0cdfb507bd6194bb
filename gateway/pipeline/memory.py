"""What each run's results contained, for as long as this process remembers.

Forgetting is safe: a proof that is forgotten is no proof, labels are kept elsewhere, durably, and of
a run that may have been led before, it is known that not all is known.
"""

from collections import OrderedDict

from gateway.domain.flow import Run, RunId
from gateway.domain.labels import Integrity
from gateway.flow.provenance import Provenance

_MOST_RUNS = 256
"""A run whose payloads are searched takes some 12 MiB at most, so all of them stay around 3 GiB."""


class ProvenanceMemory:
    """The provenance of the runs used last."""

    def __init__(self) -> None:
        self._runs: OrderedDict[RunId, Provenance] = OrderedDict()

    def of(self, run: Run) -> Provenance:
        """Return what is remembered of `run`, which may be nothing yet."""
        found = self._runs.get(run.id)
        if found is None:
            # What it has written since it read something untrusted is forgotten, if there is any.
            complete = run.label.integrity is Integrity.TRUSTED or not run.sources
            found = self._runs[run.id] = Provenance(complete=complete)
            if len(self._runs) > _MOST_RUNS:
                self._runs.popitem(last=False)
        else:
            self._runs.move_to_end(run.id)
        return found
