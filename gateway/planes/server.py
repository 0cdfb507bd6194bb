"""The gRPC listener of planes: whose words it speaks, who may connect, and how much at once."""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from gateway.domain._value import value
from gateway.errors import ConfigError
from gateway.planes import ext_authz, ext_mcp, ext_proc
from gateway.planes.doorman import Doorman
from gateway.planes.in_force import Lease
from gateway.planes.stubs import envoy_pb2, ext_mcp_pb2

_MOST_AT_ONCE: Final = 1_000
"""Calls; whoever asks beyond them is told RESOURCE_EXHAUSTED, and fails closed."""
_MOST_STREAMS: Final = 1_000
"""Of one connection."""
_TOKEN_BYTES: Final = 32
_ROOM: Final = 1 << 20
"""Bytes of a message beside the body that it carries: its headers, claims and attributes."""


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
    server = grpc.aio.server(
        maximum_concurrent_rpcs=_MOST_AT_ONCE,
        options=[
            ("grpc.max_receive_message_length", where.most_bytes + _ROOM),
            ("grpc.max_concurrent_streams", _MOST_STREAMS),
            ("grpc.so_reuseport", 0),
        ],
    )
    server.add_generic_rpc_handlers(_handlers(lease))
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    _open(server, where)
    await server.start()
    await checks.set("", health_pb2.HealthCheckResponse.SERVING)
    try:
        yield
    finally:
        await checks.enter_graceful_shutdown()
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


def _handlers(lease: Lease) -> tuple[grpc.GenericRpcHandler, ...]:
    doorman = Doorman()
    authz = ext_authz.ExtAuthz(lease, doorman)
    proc = ext_proc.ExtProc(lease, doorman)
    return (
        _service(
            ext_authz.SERVICE,
            Check=grpc.unary_unary_rpc_method_handler(
                _any(authz.check),
                request_deserializer=envoy_pb2.CheckRequest.FromString,
                response_serializer=envoy_pb2.CheckResponse.SerializeToString,
            ),
        ),
        _service(
            ext_proc.SERVICE,
            Process=grpc.stream_stream_rpc_method_handler(
                _any(proc.process),
                request_deserializer=envoy_pb2.ProcessingRequest.FromString,
                response_serializer=envoy_pb2.ProcessingResponse.SerializeToString,
            ),
        ),
        _ext_mcp(ext_mcp.ExtMcp(lease, doorman, partial(secrets.token_urlsafe, _TOKEN_BYTES))),
    )


def _ext_mcp(found: ext_mcp.ExtMcp) -> grpc.GenericRpcHandler:
    return _service(
        ext_mcp.SERVICE,
        CheckRequest=grpc.unary_unary_rpc_method_handler(
            _any(found.check_request),
            request_deserializer=ext_mcp_pb2.McpRequest.FromString,
            response_serializer=ext_mcp_pb2.McpRequestResult.SerializeToString,
        ),
        CheckResponse=grpc.unary_unary_rpc_method_handler(
            _any(found.check_response),
            request_deserializer=ext_mcp_pb2.McpResponse.FromString,
            response_serializer=ext_mcp_pb2.McpResponseResult.SerializeToString,
        ),
    )


def _service(name: str, **methods: Any) -> grpc.GenericRpcHandler:
    return grpc.method_handlers_generic_handler(name, methods)


def _any(behaviour: Callable[..., Any]) -> Any:
    """Return `behaviour` as the stubs of the synchronous API have it: ours is asynchronous."""
    return behaviour
