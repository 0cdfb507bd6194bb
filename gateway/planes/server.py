"""The gRPC listener of planes: whose words it speaks, who may connect, and how much at once."""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2

from gateway.domain._value import value
from gateway.errors import ConfigError
from gateway.planes import ext_authz, ext_mcp, ext_proc
from gateway.planes.doorman import MOST_AT_ONCE, Doorman
from gateway.planes.in_force import Lease
from gateway.planes.stubs import envoy_pb2, ext_mcp_pb2
from gateway.planes.unread import MOST_BESIDE, reading

_MOST_STREAMS: Final = 1_000
"""Of one connection."""
_MOST_CONNECTIONS: Final = 10_000
_HANDSHAKE_MS: Final = 10_000
_IDLE_MS: Final = 60_000
"""A connection on which nobody asks is ended after so long, in good order."""
_ALIVE_MS: Final = 30_000
"""After so long without a word a connection has to say that it is alive, within as long again."""
_HEALTH: Final = "grpc.health.v1.Health"
_TOKEN_BYTES: Final = 32


@value
class Tls:
    """PEM, as it is read from the files."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None


@value
class Listening:
    """Where planes connect, and what they may send."""

    address: str
    """`HOST:PORT`, or `unix:PATH`."""
    tls: Tls | None
    most_bytes: int
    """Of a body."""
    drain_s: float


def read_tls(certificate: Path, key: Path, client_ca: Path | None) -> Tls:
    """Return what is in these files.

    Raises:
        ConfigError: One cannot be read.

    """
    try:
        return Tls(
            certificate=certificate.read_bytes(),
            key=key.read_bytes(),
            client_ca=None if client_ca is None else client_ca.read_bytes(),
        )
    except OSError as error:
        raise ConfigError(f"planes.grpc: {error.filename} cannot be read") from error


@asynccontextmanager
async def listening(where: Listening, lease: Lease) -> AsyncIterator[None]:
    """Answer planes until the context ends; what is under way then has its time to end.

    Raises:
        ConfigError: Nobody can listen there.

    """
    # How many calls there may be at once the doorman says: whoever has no key takes nobody's place.
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", where.most_bytes + MOST_BESIDE),
            ("grpc.max_concurrent_streams", _MOST_STREAMS),
            ("grpc.max_allowed_incoming_connections", _MOST_CONNECTIONS),
            ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
            ("grpc.max_connection_idle_ms", _IDLE_MS),
            ("grpc.keepalive_time_ms", _ALIVE_MS),
            ("grpc.keepalive_timeout_ms", _ALIVE_MS),
            ("grpc.so_reuseport", 0),
        ],
    )
    health = Health()
    doorman = Doorman(MOST_AT_ONCE, largest=where.most_bytes)
    server.add_generic_rpc_handlers((*_handlers(lease, doorman), _health(health)))
    _open(server, where)
    await server.start()
    health.serves = True
    try:
        yield
    finally:
        health.serves = False
        await server.stop(where.drain_s)


def _open(server: grpc.aio.Server, where: Listening) -> None:
    try:
        if where.tls is None:
            port = server.add_insecure_port(where.address)
        else:
            credentials = grpc.ssl_server_credentials(
                [(where.tls.key, where.tls.certificate)],
                root_certificates=where.tls.client_ca,
                require_client_auth=where.tls.client_ca is not None,
            )
            port = server.add_secure_port(where.address, credentials)
    except RuntimeError as error:
        raise ConfigError(f"planes.grpc.listen: cannot listen on {where.address}") from error
    if port == 0:
        raise ConfigError(f"planes.grpc.listen: cannot listen on {where.address}")


class Health:
    """Tells anybody, at once and whatever they ask about, whether planes are answered here.

    Nothing is read of it, and there is no `Watch`: both would be places that strangers take. Whoever
    watches is told UNIMPLEMENTED, which they take for serving.
    """

    def __init__(self) -> None:
        self.serves = False

    async def check(self, requests: object, context: object) -> Any:  # noqa: ARG002 - gRPC's form
        """Answer `grpc.health.v1.Health/Check`."""
        states = health_pb2.HealthCheckResponse
        return states(status=states.SERVING if self.serves else states.NOT_SERVING)


def _health(found: Health) -> grpc.GenericRpcHandler:
    empty, answer = health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse
    return _service(_HEALTH, Check=_unread(found.check, reading(empty), answer))


def _handlers(lease: Lease, doorman: Doorman) -> tuple[grpc.GenericRpcHandler, ...]:
    authz = ext_authz.ExtAuthz(lease, doorman)
    proc = ext_proc.ExtProc(lease, doorman)
    mcp = ext_mcp.ExtMcp(lease, doorman, partial(secrets.token_urlsafe, _TOKEN_BYTES))
    envoys, agents = envoy_pb2, ext_mcp_pb2
    return (
        _service(
            ext_authz.SERVICE,
            Check=_unread(
                authz.check,
                reading(
                    envoys.CheckRequest,
                    "attributes.request.http.body",
                    "attributes.request.http.raw_body",
                ),
                envoys.CheckResponse,
            ),
        ),
        _service(
            ext_proc.SERVICE,
            Process=grpc.stream_stream_rpc_method_handler(
                _any(proc.process),
                request_deserializer=reading(
                    envoys.ProcessingRequest, "request_body.body", "response_body.body"
                ),
                response_serializer=envoys.ProcessingResponse.SerializeToString,
            ),
        ),
        _service(
            ext_mcp.SERVICE,
            CheckRequest=_unread(
                mcp.check_request,
                reading(agents.McpRequest, "mcp_request"),
                agents.McpRequestResult,
            ),
            CheckResponse=_unread(
                mcp.check_response,
                reading(agents.McpResponse, "mcp_response"),
                agents.McpResponseResult,
            ),
        ),
    )


def _unread(behaviour: Callable[..., Any], read: Callable[[bytes], Message], answer: Any) -> Any:
    """Return how a method is answered that has one message, which `behaviour` reads itself, or not.

    gRPC would read it first if it were told that there is one, whoever sent it.
    """
    return grpc.stream_unary_rpc_method_handler(
        _any(behaviour),
        request_deserializer=read,
        response_serializer=answer.SerializeToString,
    )


def _service(name: str, **methods: Any) -> grpc.GenericRpcHandler:
    return grpc.method_handlers_generic_handler(name, methods)


def _any(behaviour: Callable[..., Any]) -> Any:
    """Return `behaviour` as the stubs of the synchronous API have it: ours is asynchronous."""
    return behaviour
