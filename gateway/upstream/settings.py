"""What an operator says of one upstream: where it is, what opens it, how long and how much."""

from dataclasses import field
from pathlib import Path
from urllib.parse import urlsplit

from gateway.domain._value import value
from gateway.domain.tools import UpstreamId
from gateway.upstream.bounds import Bounds
from gateway.upstream.headers import is_ours
from gateway.upstream.jail import ProcessLimits
from gateway.upstream.launch import Launch
from gateway.upstream.proxy import WayOut
from gateway.wire.jsontext import WireLimits

MEBIBYTE = 1024 * 1024


@value
class HeaderCredential:
    """Our own credential for an upstream, sent as one header with every request.

    Raises:
        ValueError: The header is one that a message or the connection itself needs.

    """

    name: str
    """`Authorization`, `X-Api-Key`."""
    value: str = field(repr=False)
    """The header's whole value, `Bearer ...` included."""

    def __post_init__(self) -> None:
        if not is_ours(self.name.lower()):
            raise ValueError(f"the header {self.name!r} cannot carry a credential")
        if not self.value or not self.value.isascii() or not self.value.isprintable():
            raise ValueError("a credential is one line of printable ASCII")


@value
class Timeouts:
    """How long an upstream may take, in seconds. None of them can be switched off."""

    connect_s: float = 5.0
    """Until there is a connection, waiting for a free one included."""
    idle_s: float = 60.0
    """Until the first byte of an answer, and from one byte to the next."""
    hard_s: float = 900.0
    """Until the end of the answer, whatever happens meanwhile."""

    def __post_init__(self) -> None:
        if min(self.connect_s, self.idle_s, self.hard_s) <= 0:
            raise ValueError("a timeout is a positive number of seconds")


@value
class Limits:
    """How much of an upstream is taken in. None of them can be switched off."""

    result_bytes: int = 4 * MEBIBYTE
    """Of one answer, or of one event of a stream."""
    stream_bytes: int = 64 * MEBIBYTE
    """Of all events of one stream."""
    json_depth: int = 64
    """Nested arrays and objects, where the gateway reads an answer for itself."""
    connections: int = 100
    """At once, for calls."""
    listeners: int = 1000
    """At once, for streams that wait for what the server says by itself."""

    def __post_init__(self) -> None:
        sizes = (self.result_bytes, self.stream_bytes, self.json_depth)
        if min(*sizes, self.connections, self.listeners) <= 0:
            raise ValueError("a limit is a positive number")

    @property
    def wire(self) -> WireLimits:
        """The limits for reading messages."""
        return WireLimits(json_depth=self.json_depth, event_bytes=self.result_bytes)


@value
class UpstreamSettings:
    """One upstream that speaks Streamable HTTP.

    Raises:
        ValueError: `url` is not an absolute http(s) URL without user info and fragment.

    """

    server: UpstreamId
    url: str
    credential: HeaderCredential | None = None
    per_person: bool = False
    """Whether it wants a token of the person behind each call, and so shows us alone nothing."""
    extensions: frozenset[str] = frozenset()
    """The protocol extensions that are approved for it (MCP 2026-07-28, extensions)."""
    timeouts: Timeouts = Timeouts()
    limits: Limits = Limits()
    bounds: Bounds | None = None
    """Where it may be, if it is there on somebody's word; none if the operator wrote its URL."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"the URL of {self.server!r} is not an absolute http(s) URL")
        if parts.username is not None or parts.fragment:
            raise ValueError(f"the URL of {self.server!r} holds user info or a fragment")

    @property
    def identity(self) -> str:
        """Which server this is, for its pins: the URL without the query, which may hold a secret.

        The certificate's key is no part of it: it changes whenever a certificate is renewed.
        """
        parts = urlsplit(self.url)
        default = {"http": 80, "https": 443}[parts.scheme]
        port = default if parts.port is None else parts.port
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{parts.scheme}://{host}:{port}{parts.path or '/'}"


@value
class LocalSettings:
    """One upstream that the gateway starts itself, and speaks to over standard input and output."""

    server: UpstreamId
    launch: Launch
    concealed: tuple[Path, ...]
    """What no jail shows, wherever links lead when it is made."""
    changeable: tuple[Path, ...] = ()
    """Where local servers may put what they like, this one or others: what lies deeper no jail shows."""
    refused: str = ""
    """Why it is never started; empty if it may be."""
    extensions: frozenset[str] = frozenset()
    """The protocol extensions that are approved for it (MCP 2026-07-28, extensions)."""
    timeouts: Timeouts = Timeouts()
    limits: Limits = Limits()
    process: ProcessLimits = ProcessLimits()
    """Of each of its processes."""
    processes: int = 64
    """Of this server at once, whoever they work for."""
    idle_s: float = 900.0
    """After how long without use a process is ended."""
    way_out: WayOut = field(default_factory=WayOut, repr=False, compare=False)
    """How it gets to what its jail lets it reach."""
    per_person: bool = False
    """Whoever may call it is shown the same."""

    def __post_init__(self) -> None:
        if self.processes <= 0 or self.idle_s <= 0 or self.per_person:
            raise ValueError(f"{self.server!r}: limits are above zero, and everybody sees the same")

    @property
    def identity(self) -> str:
        """Which server this is, for its pins: how it is started, and in what jail."""
        return self.launch.identity
