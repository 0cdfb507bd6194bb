"""Who asks by gRPC: a plane that is registered for that, by its key."""

import asyncio
from hashlib import sha256
from typing import Any, Final, NoReturn

import grpc

from gateway.domain.planes import Plane, PlaneKind
from gateway.domain.throttle import Throttle
from gateway.errors import GatewayError, Unauthenticated
from gateway.planes.in_force import InForce

Context = grpc.aio.ServicerContext[Any, Any]

_LONGEST_KEY: Final = 4 * 1024
_MOST_FAILURES: Final = 300
_HERE: Final = "127.0.0.1"
"""Where whoever uses our socket is."""


class Doorman:
    def __init__(self) -> None:
        self._failures = Throttle(allowed=_MOST_FAILURES, window_s=60.0)

    async def known(self, context: Context, force: InForce, kind: PlaneKind) -> Plane:
        """Return the plane that asks; nothing of what a stranger says is read.

        Anybody else is told UNAUTHENTICATED, which ends the call; that is on record.
        """
        address = address_of(context)
        now = asyncio.get_running_loop().time()
        if self._failures.wait_s(address, now):
            await abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "too many refused calls")
        plane = _holder(force, _key(context))
        if plane is None or plane.kind is not kind:
            self._failures.note(address, now)
            stranger = Unauthenticated("no registered plane has this key")
            try:
                await force.traffic.refuse(stranger, source_ip=address, request_id="", plane=plane)
            except GatewayError as error:
                await abort(context, grpc.StatusCode.UNAVAILABLE, error.public)
            await abort(context, grpc.StatusCode.UNAUTHENTICATED, stranger.public)
        return plane


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
    if not key:
        return None
    digest = sha256(key.encode()).digest()
    return next((one for one in force.planes.values() if one.key_digest == digest), None)
