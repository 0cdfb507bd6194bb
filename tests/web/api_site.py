"""The admin API over desks in memory, and what it is asked in tests."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

import orjson
from starlette.routing import Router

from gateway.admin.commands import Commands
from gateway.admin.person import Person
from gateway.errors import AuditUnavailable, Denied, NotFound
from gateway.web.api import ApiEndpoint, Prover
from tests.admin.world import World, clock, principal, user
from tests.web.asgi import Exchange

HOST = (b"host", b"127.0.0.1:8081")
TOKEN = (b"authorization", b"Bearer good")
JSON = (b"content-type", b"application/json")
METADATA = "http://127.0.0.1:8080/.well-known/oauth-protected-resource/api/v1"


class Streams:
    """Commands that answer item by item."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def lose(self, person: Person, *, what: str) -> AsyncGenerator[int, None]:
        yield 1
        if what == "token":
            self._world.tokens.held.clear()
        if what == "roles":
            self._world.users.change(person.user_id, groups=frozenset({"users"}), at=0.0)
        yield 2

    async def count(self, person: Person, *, to: int) -> AsyncGenerator[int, None]:
        for number in range(to):
            yield number

    async def break_off(self, person: Person) -> AsyncGenerator[int, None]:
        yield 1
        raise AuditUnavailable("the log cannot be read")

    async def stop(self, person: Person) -> AsyncGenerator[int, None]:
        yield 1
        raise NotFound("the rest is not there")

    async def refuse(self, person: Person, *, anyway: bool = False) -> AsyncGenerator[int, None]:
        if not anyway:
            raise Denied("not for you", reasons=[("rule", "nobody may")])
        yield 1


def api_of(
    world: World,
    *,
    most_failures: int = 5,
    most_bytes: int = 1024,
    at: Callable[[], float] = clock,
    proven: Prover = lambda *_: None,
    proofs: tuple[str, ...] = (),
) -> ApiEndpoint:
    streams, users, access = Streams(world), world.user_desk, world.access_desk
    reads: dict[str, Callable[..., Any]] = {
        "whoami": users.whoami,
        "users.list": users.list,
        "grants.list": access.grants,
        "clients.show": world.client_desk.show,
        "streams.count": streams.count,
        "streams.break": streams.break_off,
        "streams.refuse": streams.refuse,
        "streams.stop": streams.stop,
        "streams.lose": streams.lose,
    }
    changes: dict[str, Callable[..., Any]] = {
        "users.add": users.add,
        "users.change": users.change,
        "pins.approve": world.pin_desk.approve,
    }
    return ApiEndpoint(
        Commands({**reads, **changes}, reads=reads, forbidden=world.people.forbidden),
        world.people,
        most_bytes=most_bytes,
        client_address=lambda scope: str(scope["client"][0]),
        clock=at,
        resource_metadata=METADATA,
        refused_unread=lambda code, source_ip: world.unread.append((code, source_ip)),
        proven=proven,
        proofs=lambda: proofs,
        most_failures=most_failures,
    )


class ApiSite:
    """Emma is an administrator and holds the token `good`."""

    def __init__(self, **changes: Any) -> None:
        self.world = World()
        self.world.users.add(user(groups=frozenset({"admins"})))
        self.world.tokens.held["good"] = principal()
        self.app = Router(routes=[api_of(self.world, **changes).route])

    async def ask(
        self,
        method: str,
        path: str,
        *headers: tuple[bytes, bytes],
        chunks: tuple[bytes, ...] = (b"",),
        query: bytes = b"",
    ) -> Exchange:
        async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
            await self.app({**scope, "query_string": query}, receive, send)

        return await Exchange(chunks=chunks).ask(app, method, f"/api/v1/{path}", (HOST, *headers))

    async def get(self, path: str, query: bytes = b"") -> Exchange:
        return await self.ask("GET", path, TOKEN, query=query)

    async def post(self, path: str, content: Any) -> Exchange:
        return await self.ask("POST", path, TOKEN, JSON, chunks=(orjson.dumps(content),))
