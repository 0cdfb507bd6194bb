"""A person's word that a client begins a new task: what it has read so far counts no more.

It is given on the consent page, by a click beside the yes, and nowhere else: not by what a client asks
for, and not by a yes of before.
"""

from typing import Protocol

from gateway.domain.audit import RecordKind
from gateway.domain.flow import Run, RunId
from gateway.domain.identity import Actor, Client, User, acting
from gateway.domain.labels import BOTTOM
from gateway.signin.browser import Browser
from gateway.signin.journal import Event, Journal


class ClientRuns(Protocol):
    """The runs that clients' calls are in."""

    def whole(self, actor: Actor) -> Run | None:
        """Return the live run that calls of `actor` are in, if there is one."""
        ...

    async def end(self, run: RunId) -> Run | None:
        """End a run, durably; `None` if it has ended already."""
        ...


class NewTasks:
    """Ends a client's run where its person says so."""

    def __init__(
        self, runs: ClientRuns, journal: Journal, *, offered: bool, by_person: bool = False
    ) -> None:
        """Take whether people are given the choice at all, and whether it is of all their clients."""
        self._runs = runs
        self._journal = journal
        self._offered = offered
        self.by_person = by_person

    def read(self, user: User, client: Client) -> Run | None:
        """Return what `client` has read for `user` that they may have forgotten, if there is any."""
        run = self._runs.whole(acting(client, user)) if self._offered else None
        return None if run is None or run.label == BOTTOM else run

    async def begin(self, user: User, client: Client, endpoint: str, browser: Browser) -> None:
        """End the run that `client` is in for `user`, which is on record by then.

        Raises:
            AuditUnavailable: It could not be recorded, or its end could not.

        """
        run = self.read(user, client)
        if run is None:
            return
        words = run.label.words
        await self._journal.write(
            Event(
                kind=RecordKind.RUN,
                code="new_task",
                method="consent",
                source_ip=browser.source_ip,
                user=user,
                client=client.id,
                endpoint=endpoint,
                message="the person says that a new task begins",
                run=run.id,
                label_before=words,
            )
        )
        await self._runs.end(run.id)
