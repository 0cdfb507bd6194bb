"""What each run's results contained, for as long as this process remembers.

Forgetting is safe: a proof that is forgotten is no proof, and labels are kept elsewhere, durably.
"""

from collections import OrderedDict

from gateway.domain.flow import RunId
from gateway.flow.provenance import Provenance

_MOST_RUNS = 256
"""A run whose payloads are searched takes some 10 MiB at most, so all of them stay below 3 GiB."""


class ProvenanceMemory:
    """The provenance of the runs used last."""

    def __init__(self) -> None:
        self._runs: OrderedDict[RunId, Provenance] = OrderedDict()

    def of(self, run: RunId) -> Provenance:
        """Return what is remembered of `run`, which may be nothing yet."""
        found = self._runs.get(run)
        if found is None:
            found = self._runs[run] = Provenance()
            if len(self._runs) > _MOST_RUNS:
                self._runs.popitem(last=False)
        else:
            self._runs.move_to_end(run)
        return found
