"""OAuth clients: who registered them, and the one moment in which their secret is seen."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gateway.admin.journal import Change, Journal, require_told
from gateway.admin.person import Person, Role
from gateway.admin.rows import Row, Rows, rfc3339
from gateway.domain.audit import RecordKind
from gateway.domain.identity import AuthMethod, Client, ClientKind
from gateway.errors import BadCommand, NotFound, Refusal
from gateway.ports.identity import ClientStore

_BY_ITSELF = "client_credentials"
GRANTS: Mapping[str, str] = {
    _BY_ITSELF: _BY_ITSELF,
    "authorization_code": "authorization_code",
    "refresh_token": "refresh_token",
    "device": "urn:ietf:params:oauth:grant-type:device_code",
    "jwt_bearer": "urn:ietf:params:oauth:grant-type:jwt-bearer",
}
"""What people call a grant -> its `grant_type` (RFC 6749, RFC 8628, RFC 7523)."""

MOST_NAMED = 1000
_SECRETS = (AuthMethod.BASIC, AuthMethod.POST)


class ClientMaker(Protocol):
    def __call__(
        self,
        *,
        name: str,
        grants: tuple[str, ...],
        resources: frozenset[str],
        scopes: frozenset[str],
        groups: frozenset[str],
        trusted_host: bool,
        redirect_uris: tuple[str, ...],
        auth_methods: frozenset[AuthMethod],
        jwks: Mapping[str, Any] | None,
        by: str,
    ) -> tuple[Client, str]:
        """Make a client and its secret, empty where it has none; nothing is stored.

        Raises:
            ValueError: One of these cannot be, or they do not go together.
            Refusal: So, too.

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
        grants: Sequence[str] = (_BY_ITSELF,),
        resources: Sequence[str],
        scopes: Sequence[str],
        groups: Sequence[str] | None = None,
        trusted_host: bool = False,
        redirect_uris: Sequence[str] = (),
        public: bool = False,
        auth_method: AuthMethod | None = None,
        jwks: Mapping[str, Any] | None = None,
    ) -> Row:
        """Register a client; a `client_secret` in the result is shown this once.

        `grants` are called as in `GRANTS`. Without `groups`, a client that acts for itself is in
        `users`.

        Raises:
            Forbidden: The person is no admin.
            BadCommand: The name is taken, or one of the arguments cannot be.

        """
        person.need(Role.ADMIN)
        if groups is None:
            groups = ("users",) if _BY_ITSELF in grants else ()
        elif groups and _BY_ITSELF not in grants:
            raise BadCommand("groups are for client_credentials; behind other grants is a person")
        if any(_is_named(client, name) for client in self._clients.all()):
            raise BadCommand("a client of that name exists; choose another name")
        try:
            client, secret = self._make_client(
                name=name,
                grants=_grant_types(grants),
                resources=frozenset(resources),
                scopes=frozenset(scopes),
                groups=frozenset(groups),
                trusted_host=trusted_host,
                redirect_uris=tuple(redirect_uris),
                auth_methods=_auth_methods(auth_method, public=public),
                jwks=jwks,
                by=person.name,
            )
        except ValueError as error:
            raise BadCommand(str(error)) from error
        except Refusal as error:
            raise BadCommand(error.public) from error

        async def store() -> None:
            try:
                await asyncio.to_thread(self._clients.add, client)
            except ValueError as error:
                raise BadCommand("a client of that name exists; choose another name") from error

        change = _change(client, "clients.add", "added")
        require_told(change)
        await self._journal.make(person, change, store)
        return {**_row(client), **({"client_secret": secret} if secret else {})}

    async def list(self, person: Person) -> Rows:
        """Return one row a client, by name, without secrets; `kind` says how it came to be known."""
        person.need(Role.ADMIN, Role.AUDITOR)
        return [_row(client) for client in self._clients.all()]

    async def names(self, person: Person, *, clients: Sequence[str]) -> Rows:
        """Return what these clients are called, and whether that is their own word; of ids alone.

        Raises:
            Forbidden: The person is neither approver, auditor nor admin.
            BadCommand: There are too many.

        """
        person.need(Role.APPROVER, Role.AUDITOR, Role.ADMIN)
        if len(clients) > MOST_NAMED:
            raise BadCommand(f"at most {MOST_NAMED} clients can be named at once")
        found = map(self._clients.find, clients)
        return [
            {"client_id": c.id, "name": c.name, "kind": c.kind.value, "grants": list(c.grants)}
            for c in found
            if c is not None
        ]

    async def show(self, person: Person, *, client: str) -> Row:
        """Return everything that is known of a client, but its secret's hash.

        Raises:
            Forbidden: The person is neither admin nor auditor.
            NotFound: There is none.

        """
        person.need(Role.ADMIN, Role.AUDITOR)
        found = find_client(self._clients, client)
        return {
            **_row(found),
            "homepage": found.homepage or None,
            "jwks": json.loads(found.jwks) if found.jwks else None,
            "holds_key": found.holds_key,
            "fresh_until": rfc3339(found.fresh_until),
        }

    async def remove(self, person: Person, *, client: str) -> Row:
        """Remove the client of that id or name, revoke what it was granted, and return its row.

        Raises:
            Forbidden: The person is no admin.
            NotFound: There is none.

        """
        person.need(Role.ADMIN)
        found = find_client(self._clients, client)

        async def remove() -> None:
            if await asyncio.to_thread(self._clients.remove, found.id) is None:
                raise NotFound("no such client any more")

        await self._journal.make(person, _change(found, "clients.remove", "removed"), remove)
        return _row(found)


def find_client(clients: ClientStore, named: str) -> Client:
    """Return the client of that id, or the one of that name that an administrator registered.

    Raises:
        NotFound: There is none.

    """
    found = clients.find(named)
    if found is None:
        found = next((each for each in clients.all() if _is_named(each, named)), None)
    if found is None:
        raise NotFound("no such client; `douane clients list` lists them")
    return found


def _is_named(client: Client, name: str) -> bool:
    # Who registers itself chooses its name; only an administrator's is anybody's word.
    return client.kind is ClientKind.REGISTERED and client.name == name


def _grant_types(grants: Sequence[str]) -> tuple[str, ...]:
    unknown = [grant for grant in grants if grant not in GRANTS]
    if unknown or not grants:
        raise BadCommand(f"a client's grants are some of {', '.join(GRANTS)}")
    return tuple(dict.fromkeys(GRANTS[grant] for grant in grants))


def _auth_methods(method: AuthMethod | None, *, public: bool) -> frozenset[AuthMethod]:
    if public and method not in {None, AuthMethod.NONE}:
        raise BadCommand("a public client has nothing to prove itself with; leave one of them out")
    if public:
        return frozenset({AuthMethod.NONE})
    return frozenset(_SECRETS) if method is None else frozenset({method})


def _row(client: Client) -> Row:
    return {
        "client_id": client.id,
        "name": client.name,
        "kind": client.kind.value,
        "auth_methods": sorted(method.value for method in client.auth_methods),
        "grants": list(client.grants),
        "redirect_uris": list(client.redirect_uris),
        "resources": sorted(client.resources),
        "scopes": sorted(client.scopes),
        "groups": sorted(client.groups),
        "trusted_host": client.trusted_host,
        "created_at": rfc3339(client.created_at),
        "created_by": client.created_by,
    }


def _change(client: Client, method: str, code: str) -> Change:
    return Change(
        kind=RecordKind.ADMIN,
        method=method,
        code=code,
        subject=f"client {client.name}: {'; '.join(_rights(client))}",
        fields={"client": client.id},
    )


def _rights(client: Client) -> Sequence[str]:
    rights = [
        f"grants {', '.join(client.grants)}",
        f"resources {', '.join(sorted(client.resources))}",
        f"scopes {', '.join(sorted(client.scopes))}",
        f"groups {', '.join(sorted(client.groups)) or 'none'}",
    ]
    if client.redirect_uris:
        rights.append(f"redirect URIs {', '.join(client.redirect_uris)}")
    if client.is_public:
        rights.append("public")
    if client.trusted_host:
        rights.append("trusted host")
    return rights
