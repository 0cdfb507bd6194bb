"""Envoy's `ext_proc`: every request and every answer goes through here, whole.

Envoy goes on alone where this side ends a stream in good order. So it never does: it ends with Envoy's
side, or with an error, which Envoy takes for a no.
"""

import logging
from collections.abc import AsyncIterator
from typing import Final

import grpc

from gateway.domain.planes import PlaneKind
from gateway.errors import Fault, GatewayError
from gateway.planes.doorman import Context, Doorman, abort, address_of
from gateway.planes.exchange import Exchange, Unexpected
from gateway.planes.in_force import Lease, beside
from gateway.planes.stubs import envoy_pb2 as pb

SERVICE: Final = "envoy.service.ext_proc.v3.ExternalProcessor"
logger = logging.getLogger(__name__)


class ExtProc:
    def __init__(self, lease: Lease, doorman: Doorman) -> None:
        self._lease = lease
        self._doorman = doorman

    async def process(
        self, requests: AsyncIterator[pb.ProcessingRequest], context: Context
    ) -> AsyncIterator[pb.ProcessingResponse]:
        """Answer `envoy.service.ext_proc.v3.ExternalProcessor/Process`: one HTTP request and its answer."""
        with self._lease() as force:
            plane = await self._doorman.known(context, force, PlaneKind.EXT_PROC)
            exchange = Exchange(
                force,
                plane,
                endpoint=f"/{SERVICE}/Process",
                source_ip=address_of(context),
            )
            try:
                async for request in requests:
                    try:
                        response = await exchange.answered(request)
                    except GatewayError as error:
                        yield exchange.broken(error)
                        await abort(context, grpc.StatusCode.UNAVAILABLE, error.public)
                    except Unexpected as error:
                        logger.warning("plane %s: %s", plane.name, error)
                        yield exchange.broken(Fault("the plane is not configured for this gateway"))
                        await abort(context, grpc.StatusCode.FAILED_PRECONDITION, str(error))
                    except Exception:
                        logger.exception("an exchange of plane %s met a bug", plane.name)
                        yield exchange.broken(Fault("the gateway failed"))
                        await abort(context, grpc.StatusCode.INTERNAL, "the gateway failed")
                    yield response
                if not exchange.is_over:
                    await abort(context, grpc.StatusCode.ABORTED, "the exchange is not over")
            finally:
                if (left := exchange.left()) is not None:
                    beside(left)
