"""Runs that other gateways change as well."""

from functools import partial

from gateway.domain.flow import Run, RunId, Source
from gateway.domain.labels import Label
from gateway.storage import run_changes
from gateway.storage.postgres.terms import Raise
from gateway.storage.run_changes import Kept
from gateway.storage.runs import Runs


class SharedRuns(Runs):
    """A `RunStore` whose memory may be behind: what rests on it is compared when it is written down."""

    async def look_again(self, run: RunId) -> None:
        """Have memory show a run, and the whole runs beside it, as they are by now."""
        await self._make(partial(run_changes.look, run=run))

    async def join(self, raises: Raise) -> Run:
        """Join a label as `raise_label` does, and begin a whole run where there is none.

        Raises:
            Fault: There is no such run.

        """
        job = partial(
            run_changes.join,
            name_of=self._names.of_whole,
            run=raises.run,
            label=raises.label,
            source=raises.source,
            everywhere=raises.everywhere,
        )
        return self._found(await self._make(job))

    def _has_seen(
        self, kept: Kept, label: Label, source: Source | None, *, everywhere: bool
    ) -> bool:
        # Memory may show a label that a person has lowered at another gateway meanwhile.
        del kept, label, source, everywhere
        return False
