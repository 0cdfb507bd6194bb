"""OAuth clients: who registered them, and the one moment in which their secret is seen."""

from collections.abc import Sequence
from typing import Protocol

from gateway.admin.journal import Change, Journal
from gateway.admin.person import Person, Role
from gateway.admin.rows import Row, Rows, rfc3339
from gateway.domain.audit import RecordKind
from gateway.domain.identity import Client
from gateway.errors import BadCommand, NotFound
from gateway.ports import ClientStore

GRANTS = ("client_credentials",)


class ClientMaker(Protocol):
    def __call__(
        self,
        *,
        name: str,
        resources: frozenset[str],
        scopes: frozenset[str],
        groups: frozenset[str],
        trusted_host: bool,
        by: str,
    ) -> tuple[Client, str]:
        """Make a client and its secret; nothing is stored.

        Raises:
            ValueError: One of these cannot be.

        """
        ...


class ClientDesk:
    """Use cases over a `ClientStore`. Results are plain JSON."""

    def __init__(self, clients: ClientStore, journal: Journal, make_client: ClientMaker) -> None:
        self._clients = clients
        self._journal = journal
        self._make_client = make_client

    async def add(
        self,
        person: Person,
        *,
        name: str,
        grants: Sequence[str] = GRANTS,
        resources: Sequence[str],
        scopes: Sequence[str],
        groups: Sequence[str] = ("users",),
        trusted_host: bool = False,
    ) -> Row:
        """Register a client; the `client_secret` of the result is shown this once.

        Raises:
            Forbidden: The person is no admin.
            BadCommand: The name is taken, or one of the arguments cannot be.

        """
        person.need(Role.ADMIN)
        if tuple(grants) != GRANTS:
            raise BadCommand("the only grant of this version is client_credentials")
        if any(client.name == name for client in self._clients.all()):
            raise BadCommand("a client of that name exists; choose another name")
        try:
            client, secret = self._make_client(
                name=name,
                resources=frozenset(resources),
                scopes=frozenset(scopes),
                groups=frozenset(groups),
                trusted_host=trusted_host,
                by=person.name,
            )
        except ValueError as error:
            raise BadCommand(str(error)) from error

        async def store() -> None:
            try:
                await self._clients.add(client)
            except ValueError as error:
                raise BadCommand("a client of that name exists; choose another name") from error

        await self._journal.make(person, _change(client, "clients.add", "added"), store)
        return {**_row(client), "client_secret": secret}

    async def list(self, person: Person) -> Rows:
        """Return one row a client, by name, without secrets."""
        person.need(Role.ADMIN, Role.AUDITOR)
        return [_row(client) for client in sorted(self._clients.all(), key=lambda c: c.name)]

    async def remove(self, person: Person, *, client: str) -> Row:
        """Remove the client of that id or name, and return its row.

        Raises:
            Forbidden: The person is no admin.
            NotFound: There is none.

        """
        person.need(Role.ADMIN)
        found = self._clients.find(client) or self._by_name(client)
        if found is None:
            raise NotFound("no such client; `douane clients list` lists them")

        async def remove() -> None:
            if await self._clients.remove(found.id) is None:
                raise NotFound("no such client any more")

        await self._journal.make(person, _change(found, "clients.remove", "removed"), remove)
        return _row(found)

    def _by_name(self, name: str) -> Client | None:
        return next((client for client in self._clients.all() if client.name == name), None)


def _row(client: Client) -> Row:
    return {
        "client_id": client.id,
        "name": client.name,
        "grants": list(client.grants),
        "resources": sorted(client.resources),
        "scopes": sorted(client.scopes),
        "groups": sorted(client.groups),
        "trusted_host": client.trusted_host,
        "created_at": rfc3339(client.created_at),
        "created_by": client.created_by,
    }


def _change(client: Client, method: str, code: str) -> Change:
    rights = (
        f"resources {', '.join(sorted(client.resources))}; scopes {', '.join(sorted(client.scopes))}"
        f"; groups {', '.join(sorted(client.groups)) or 'none'}"
    )
    host = "; trusted host" if client.trusted_host else ""
    return Change(
        kind=RecordKind.ADMIN,
        method=method,
        code=code,
        subject=f"client {client.name}: {rights}{host}",
        fields={"client": client.id},
    )
