"""Envoy's `ext_proc`: every request and every answer goes through here, whole.

Envoy goes on alone where this side ends a stream in good order. So it never does: it ends with Envoy's
side, or with an error, which Envoy takes for a no.
"""

import logging
from collections.abc import AsyncIterator
from typing import Final

import grpc

from gateway.domain.planes import Plane, PlaneKind
from gateway.errors import Fault, GatewayError
from gateway.planes.doorman import (
    Context,
    Doorman,
    Place,
    abort,
    address_of,
    at_leisure,
    in_good_time,
)
from gateway.planes.exchange import Exchange
from gateway.planes.http_calls import unexpected
from gateway.planes.in_force import InForce, Lease, beside
from gateway.planes.structs import Unexpected
from gateway.planes.stubs import envoy_pb2 as pb

SERVICE: Final = "envoy.service.ext_proc.v3.ExternalProcessor"
logger = logging.getLogger(__name__)


class ExtProc:
    def __init__(self, lease: Lease, doorman: Doorman) -> None:
        self._lease = lease
        self._doorman = doorman

    async def process(
        self,
        _requests: object,
        context: Context,
    ) -> AsyncIterator[pb.ProcessingResponse]:
        """Answer `envoy.service.ext_proc.v3.ExternalProcessor/Process`: one HTTP request and its answer.

        Each part is judged by what is in force when it comes: a server may take long to answer.
        """
        async with self._doorman.let_in(context, self._lease, PlaneKind.EXT_PROC) as place:
            exchange = Exchange(
                place, endpoint=f"/{SERVICE}/Process", source_ip=address_of(context)
            )
            try:
                while (request := await _next(exchange, context, place)) is not None:
                    try:
                        async with self._doorman.judging(context, self._lease, place) as force:
                            response = await exchange.answered(force, request)
                    except grpc.aio.AbortError:
                        raise
                    except Exception as error:  # noqa: BLE001 - whatever it is ends the exchange
                        with self._lease() as force:
                            told, code, why = await _ended(force, place.plane, exchange, error)
                        yield exchange.broken(told)
                        await abort(context, code, why)
                    # What is judged is kept with its call, or not at all, however long a server takes.
                    del request
                    yield response
                    del response
                if not exchange.is_over:
                    await abort(context, grpc.StatusCode.ABORTED, "the exchange is not over")
            finally:
                with self._lease() as force:
                    left = exchange.left(force)
                if left is not None:
                    beside(left)


async def _next(
    exchange: Exchange,
    context: Context,
    place: Place,
) -> pb.ProcessingRequest | None:
    """Return what Envoy sends next; nothing, at the end of its side.

    How long a server has for its answer is for Envoy to say; a client's request is soon there or not
    judged, for it has a place as long.
    """
    wait = in_good_time if exchange.awaits_request else at_leisure
    request: pb.ProcessingRequest | None = await wait(context, place)
    return request


async def _ended(
    force: InForce, plane: Plane, exchange: Exchange, error: Exception
) -> tuple[GatewayError, grpc.StatusCode, str]:
    """Return what Envoy's client and Envoy are told of an exchange that cannot go on.

    It is on record. What `Fault`s end is so where they came from, or cannot be.
    """
    if isinstance(error, GatewayError):
        return error, grpc.StatusCode.UNAVAILABLE, error.public
    if isinstance(error, Unexpected):
        logger.warning("plane %s: %s", plane.name, error)
        told = Fault("the plane is not configured for this gateway")
        found: GatewayError = unexpected(error)
        code, why = grpc.StatusCode.FAILED_PRECONDITION, str(error)
    else:
        logger.error("an exchange of plane %s met a bug", plane.name, exc_info=error)
        told = found = Fault("the gateway failed")
        code, why = grpc.StatusCode.INTERNAL, found.public
    try:
        await exchange.refuse(force, found)
    except Exception:
        # It is a no all the same.
        logger.exception("the end of an exchange of plane %s is not on record", plane.name)
    return told, code, why
