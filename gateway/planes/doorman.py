"""Who asks by gRPC: a plane that is registered for that, by its key. Of anybody else nothing is read."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final, NoReturn

import grpc

from gateway.domain.planes import Plane, PlaneKind
from gateway.domain.room import FREE, UNDER_WAY, Room
from gateway.domain.shares import Shares
from gateway.domain.throttle import Throttle
from gateway.errors import GatewayError, RateLimited, Unauthenticated
from gateway.planes.in_force import InForce, Lease
from gateway.planes.structs import Unexpected

Context = grpc.aio.ServicerContext[Any, Any]

MOST_AT_ONCE: Final = 1_000
"""Calls of planes; whoever asks beyond them is told RESOURCE_EXHAUSTED, and fails closed."""
_MOST_STRANGERS: Final = 64
"""Whose refusals are being put on record; it has none beyond them, and takes no plane's place."""
_LONGEST_KEY: Final = 4 * 1024
_MOST_FAILURES: Final = 300
_ANSWERS: Final = 8 * UNDER_WAY
"""Bytes of answers: they are here already, and whoever called can ask for none of them again."""
_MESSAGE_S: Final = 30.0
_HERE: Final = "127.0.0.1"
"""Where whoever uses our socket is."""


class Rooms:
    """Room for the large messages of one plane while they are judged: half of it for one principal."""

    def __init__(self, largest: int = 0) -> None:
        """There is room for two of `largest` bytes, also if that is more."""
        self.requests = Room(max(UNDER_WAY, 2 * largest))
        self.answers = Room(max(_ANSWERS, 2 * largest))


class Place:
    """A plane's place, as long as one call of its has it."""

    def __init__(
        self,
        plane: Plane,
        of_each: Shares,
        refused_unread: Callable[[str, str], None],
        rooms: Rooms | None = None,
    ) -> None:
        self.plane = plane
        """As it was registered when it last said something."""
        self.rooms = rooms or Rooms()
        self.refused_unread = refused_unread
        self._of_each = of_each
        self.whose = ""
        """Nobody's, until that is known."""
        self._is_left = False

    def take_for(self, whose: str) -> None:
        """Count it once as one of whoever calls, as soon as they are known; of what a plane has they have a part.

        `whose` is as `said_by` has it.

        Raises:
            RateLimited: They have as much as that.

        """
        if self._is_left or self.whose:
            return  # nobody waits any more for what has come so far, or it is counted
        if not self._of_each.take(whose, 1):
            raise RateLimited("too many of your calls are under way; wait for some first")
        self.whose = whose

    @contextmanager
    def holding(self, room: Room, message: bytes) -> Iterator[None]:
        """Have room for a `message` of whoever the place was taken for, as long as it is judged.

        Raises:
            RateLimited: There is none; small ones need none.

        """
        octets, whose = len(message), self.whose
        octets = 0 if octets <= FREE else octets
        if octets and not room.take(octets, whose):
            raise RateLimited("too many large messages at once; wait a little and try again")
        try:
            yield
        finally:
            if octets:
                room.give(octets, whose)

    def leave(self) -> None:
        """Let somebody else have it."""
        self._is_left = True
        if self.whose:
            self._of_each.leave(self.whose, 1)


class Doorman:
    def __init__(self, most_at_once: int = MOST_AT_ONCE, *, largest: int = 0) -> None:
        """`largest`: bytes of the largest body."""
        share = most_at_once - most_at_once // 4
        self._failures = Throttle(allowed=_MOST_FAILURES, window_s=60.0)
        self._places = Shares(octets=most_at_once, share=share)
        self._of_each = Shares(octets=most_at_once, share=max(1, share // 2))
        """Of one principal of a plane."""
        self._rooms = defaultdict[str, Rooms](partial(Rooms, largest))
        self._strangers = 0

    @asynccontextmanager
    async def let_in(self, context: Context, lease: Lease, kind: PlaneKind) -> AsyncIterator[Place]:
        """Yield one of the places of the plane that asks, which has it as long; nothing of what it says is read.

        Anybody else is told UNAUTHENTICATED, which ends the call; that is on record. However often
        somebody was wrong, whoever has a key is heard, wherever both come from.
        """
        with lease() as force:
            plane = _holder(force, _key(context))
            if plane is None or plane.kind is not kind:
                await self._refuse(context, force, plane)
            refused_unread = force.refused_unread
        if not self._places.take(plane.name, 1):
            refused_unread("busy", address_of(context))
            await abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls at once")
        place = Place(plane, self._of_each, refused_unread, self._rooms[plane.name])
        try:
            yield place
        finally:
            place.leave()
            self._places.leave(plane.name, 1)

    @asynccontextmanager
    async def judging(self, context: Context, lease: Lease, place: Place) -> AsyncIterator[InForce]:
        """Yield what is in force now, by which what has come is judged; `place` is its plane's as it is now.

        While nothing has come nothing is kept of what was in force. One that is no plane any more is
        told so like any stranger.
        """
        with lease() as force:
            plane = _holder(force, _key(context))
            if plane is None or (plane.name, plane.kind) != (place.plane.name, place.plane.kind):
                await self._refuse(context, force, plane)
            place.plane = plane
            yield force

    async def _refuse(self, context: Context, force: InForce, plane: Plane | None) -> NoReturn:
        address = address_of(context)
        now = asyncio.get_running_loop().time()
        if self._failures.wait_s(address, now) or self._strangers >= _MOST_STRANGERS:
            force.refused_unread("throttled", address)
            await abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "too many refused calls")
        self._failures.note(address, now)
        stranger = Unauthenticated("no registered plane has this key")
        self._strangers += 1
        try:
            await force.traffic.refuse(stranger, source_ip=address, request_id="", plane=plane)
        except GatewayError as error:
            await abort(context, grpc.StatusCode.UNAVAILABLE, error.public)
        finally:
            self._strangers -= 1
        await abort(context, grpc.StatusCode.UNAUTHENTICATED, stranger.public)


async def only(context: Context, place: Place) -> Any:
    """Return the one message of a call, which is read only now: whose it is is known."""
    request = await in_good_time(context, place)
    if request is None:
        place.refused_unread("protocol_error", address_of(context))
        await abort(context, grpc.StatusCode.INVALID_ARGUMENT, "no message came")
    return request


async def in_good_time(context: Context, place: Place) -> Any:
    """Return the next message of a call; nothing, where its plane sends no more.

    What does not come is counted, as what does not come by HTTP: until it comes, the call has a place.
    """
    try:
        async with asyncio.timeout(_MESSAGE_S):
            return await at_leisure(context, place)
    except TimeoutError:
        place.refused_unread("slow_body", address_of(context))
        await abort(context, grpc.StatusCode.DEADLINE_EXCEEDED, "the message took too long")


async def at_leisure(context: Context, place: Place) -> Any:
    """Return the same, whenever it comes; what cannot be read ends the call, and is counted.

    gRPC's iterator of messages would keep each one until the next has come.
    """
    try:
        found = await context.read()
    except Unexpected as error:
        place.refused_unread("protocol_error", address_of(context))
        await abort(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
    return None if found is grpc.aio.EOF else found


def address_of(context: Context) -> str:
    """Return the address that the plane connects from."""
    kind, _, rest = str(context.peer()).partition(":")
    if kind not in {"ipv4", "ipv6"}:
        return _HERE
    return rest.rpartition(":")[0].removeprefix("%5B").removesuffix("%5D").strip("[]")


async def abort(context: Context, code: grpc.StatusCode, why: str) -> NoReturn:
    """End the call with an error, which a plane that fails closed takes for a no."""
    await context.abort(code, why)
    raise AssertionError("abort raises")


def _key(context: Context) -> str:
    """Return the key of the metadata; nothing, if there is none or more than one."""
    metadata: Any = context.invocation_metadata() or ()
    told = [value for name, value in metadata if name.lower() == "authorization"]
    if len(told) != 1 or not isinstance(told[0], str):
        return ""
    scheme, _, key = told[0].partition(" ")
    return key.strip() if scheme.lower() == "bearer" and len(key) <= _LONGEST_KEY else ""


def _holder(force: InForce, key: str) -> Plane | None:
    """Return whose `key` it is, as soon for a good one as for any other."""
    digest = sha256(key.encode()).digest()
    found = [one for one in force.planes.values() if compare_digest(one.key_digest, digest)]
    return found[0] if key and found else None
