"""Who is told of what, whether it arrives, and how many are known well enough to tell."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gateway.admin.journal import Change, Journal
from gateway.admin.person import Person, Role
from gateway.admin.rows import Row, Rows
from gateway.domain.audit import RecordKind

_LONGEST_NAME = 64


class Alerting(Protocol):
    """The webhooks of the configuration, and what was learned."""

    def webhooks(self) -> Sequence[Mapping[str, Any]]:
        """Return one row a webhook: `webhook`, `host`, `events`, `waiting`, `failing`.

        The last two are `None` where no gateway runs.
        """
        ...

    async def ping(self, name: str) -> int:
        """Send a webhook a message that says nothing, and return the answer's status.

        Raises:
            NotFound: There is none of that name.
            EgressRefused: Its URL leads where the gateway does not go.
            UpstreamFailed: No answer in time.

        """
        ...

    async def baselines(self) -> Sequence[Mapping[str, Any]]:
        """Return one row a view: `view`, `known`, `learned`."""
        ...


class AlertDesk:
    def __init__(self, alerting: Alerting, journal: Journal) -> None:
        self._alerting = alerting
        self._journal = journal

    async def list(self, person: Person) -> Rows:
        """Return one row a webhook, and whether it takes what it is sent.

        Raises:
            Forbidden: The person is neither admin nor auditor.

        """
        person.need(Role.ADMIN, Role.AUDITOR)
        return [dict(row) for row in self._alerting.webhooks()]

    async def state(self, person: Person) -> Rows:
        """Return of how many principals, clients and tools enough is known; nobody's name.

        Raises:
            Forbidden: The person is neither admin nor auditor.

        """
        person.need(Role.ADMIN, Role.AUDITOR)
        return [dict(row) for row in await self._alerting.baselines()]

    async def test(self, person: Person, *, name: str) -> Row:
        """Send a webhook a signed message of the type `ping`.

        Raises:
            Forbidden: The person is no admin.
            NotFound: There is none of that name.
            EgressRefused: Its URL leads where the gateway does not go.
            UpstreamFailed: No answer in time.

        """
        person.need(Role.ADMIN)
        # The name may be anything yet.
        change = Change(
            kind=RecordKind.ADMIN,
            method="alerts.test",
            code="tested",
            subject=f"webhook {name[:_LONGEST_NAME]}",
            fields={},
        )
        status = await self._journal.make(person, change, lambda: self._alerting.ping(name))
        return {"webhook": name, "status": status}
