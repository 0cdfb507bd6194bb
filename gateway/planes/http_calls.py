"""An HTTP request as Envoy shows it, read as one of our own listener is; and a no as HTTP."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from google.protobuf.struct_pb2 import Struct

from gateway.domain._value import value
from gateway.domain.calls import Message, Reply
from gateway.domain.nodes import weight
from gateway.domain.planes import Plane
from gateway.domain.tools import Profile
from gateway.errors import Denied, GatewayError, ProtocolError
from gateway.pipeline.plane_answers import cannot
from gateway.pipeline.plane_records import Asking, said_by
from gateway.pipeline.plane_results import Pending
from gateway.pipeline.plane_traffic import Shown, Turned
from gateway.planes.doorman import Place
from gateway.planes.in_force import InForce
from gateway.planes.structs import Unexpected, dict_of, require_few
from gateway.planes.stubs import envoy_pb2 as pb
from gateway.turns import in_turn
from gateway.wire.inbound import Inbound
from gateway.wire.replies import Challenge, refuse
from gateway.wire.revisions import read_post

JWT: Final = "envoy.filters.http.jwt_authn"
"""The namespace of Envoy's filter that has verified a token."""
CLAIMS: Final = "claims"
"""What `payload_in_metadata` has to be there."""
_LONGEST_REQUEST_ID: Final = 128

_ANY: Final = frozenset({"host", "content-length"})
"""What Envoy writes, or makes of its own configuration."""
_FRAME: Final = {
    "transfer-encoding": frozenset({"chunked"}),
    "x-forwarded-proto": frozenset({"http", "https"}),
}
"""What goes on of a head as it is, where it says one of these."""
_NOTHING: Final = frozenset[str]()

Pairs = Sequence[tuple[str, str]]


@value
class HttpAsked:
    """One request of a client, and what Envoy knows of it by its configuration."""

    method: str
    path: str
    headers: Pairs
    """By lower-case name, pseudo-headers left out."""
    body: bytes
    server: str
    claims: Mapping[str, Any]

    @property
    def request_id(self) -> str:
        """What Envoy calls the request; nothing, if that is nothing to repeat."""
        return request_id_in(self.headers)

    def whose(self, plane: Plane) -> str:
        """Return who calls, as `said_by` has it."""
        return said_by(plane, self.claims.get("iss"), self.claims.get("sub"))

    def header(self, name: str) -> str:
        """Return the one header of this name; nothing, if there is none or there are several."""
        return _one(self.headers, name)


@value
class Decided:
    """What became of a request."""

    outcome: Pending | Turned
    message: Message | None = None
    """`None`: it could not be read."""
    profile: Profile = Profile.LEGACY


def request_id_in(headers: Pairs) -> str:
    """Return what a plane calls a request; nothing, if that is nothing to repeat."""
    told = _one(headers, "x-request-id")
    fits = told.isascii() and told.isprintable() and len(told) <= _LONGEST_REQUEST_ID
    return told if fits else ""


def _one(headers: Pairs, name: str) -> str:
    found = [text for each, text in headers if each == name]
    return found[0] if len(found) == 1 else ""


def unexpected(error: Unexpected) -> Denied:
    """Return the no to what cannot be read in one way, or in any."""
    return cannot("unexpected", str(error))


def pairs_of(found: pb.HeaderMap) -> list[tuple[str, str]]:
    """Return headers by lower-case name, as they came, pseudo-headers too.

    Raises:
        Unexpected: One has two values: there are two ways to read it. Or they are too many.

    """
    require_few(found.headers)
    if any(one.raw_value and one.value for one in found.headers):
        raise Unexpected("a header has a value as text and another one as bytes")
    return [
        (one.key.lower(), one.raw_value.decode("latin-1") if one.raw_value else one.value)
        for one in found.headers
    ]


def claims_in(metadata: pb.Metadata) -> Mapping[str, Any]:
    """Return the claims of the token that Envoy has verified; none, if it has not.

    Raises:
        Unexpected: They are too many.

    """
    claims = dict_of(metadata.filter_metadata[JWT] if JWT in metadata.filter_metadata else Struct())
    found = claims.get(CLAIMS)
    return found if isinstance(found, dict) else {}


async def decided(
    force: InForce, place: Place, asked: HttpAsked, *, endpoint: str, source_ip: str
) -> Decided:
    """Return what becomes of a request by stages 1 to 8; `place` is its caller's from here on.

    Raises:
        AuditUnavailable: A no is not on record.

    """
    plane, claims = place.plane, asked.claims
    who = asked.whose(plane)
    with ExitStack() as held:
        try:
            place.take_for(who)
            held.enter_context(place.holding(place.rooms.requests, asked.body))
            inbound = await in_turn(who, weight(asked.body), _read, plane, asked, force.limits)
        except GatewayError as error:
            turned = await force.traffic.refuse(
                error, source_ip=source_ip, request_id=asked.request_id, plane=plane
            )
            return Decided(outcome=turned)
        asking = Asking(plane=plane, source_ip=source_ip, request_id=asked.request_id)
        shown = Shown(
            endpoint=endpoint,
            server=asked.server,
            claims=claims,
            message=inbound.message,
            revision=inbound.revision,
            profile=inbound.profile,
            headers=inbound.headers,
            session=inbound.session if plane.gives_ours else None,
            trace=inbound.trace,
        )
        outcome = await force.traffic.admit(asking, shown)
    return Decided(outcome=outcome, message=inbound.message, profile=inbound.profile)


def _read(plane: Plane, asked: HttpAsked, limits: Any) -> Inbound:
    """Return the one message of a request whose body is whole and as it was sent.

    Raises:
        ProtocolError: It is none.

    """
    if asked.method != "POST":
        # Streams that a server begins, and the ends of its sessions, do not pass by a plane.
        raise ProtocolError("Only POST passes by this plane", status=405)
    if "?" in asked.path:
        # It would go on to the server, and nothing of it is decided on.
        raise ProtocolError("No query passes by this plane")
    if asked.server in plane.servers and asked.path != plane.path_of(asked.server):
        # So would what stands behind a prefix, or in another case.
        public = "By another path nothing passes by this plane: `paths` says by which one it does"
        raise ProtocolError(public)
    if asked.header("content-encoding") not in {"", "identity"}:
        raise ProtocolError("The body must not be compressed", status=415)
    length = [text for name, text in asked.headers if name == "content-length"]
    if length and length != [str(len(asked.body))]:
        raise ProtocolError("The plane does not show the whole body", status=413)
    return read_post(asked.headers, asked.body, limits)


def reply_of(force: InForce, plane: Plane, decided_: Decided, turned: Turned, server: str) -> Reply:
    """Return the no as our own listener would say it."""
    ours = plane.servers.get(server, "")
    url, scopes = force.challenge(f"/mcp/{ours}")
    challenge = Challenge(resource_metadata=url, scopes=scopes, token_sent=True)
    return refuse(
        turned.error,
        decided_.message,
        decided_.profile,
        challenge,
        decision_id=turned.decision_id,
    )


def taken_out(asked: HttpAsked, said: Pairs) -> list[str]:
    """Return which headers of a request are not sent on beside those that are `said`.

    What else a client writes there, who it was forwarded for and by which id among it, nobody judges.
    """
    put = _ANY | {name for name, _ in said}
    return sorted(
        {
            name
            for name, text in asked.headers
            if name not in put and text not in _FRAME.get(name, _NOTHING)
        }
    )


def set_headers(headers: Iterable[tuple[str, str]]) -> list[pb.HeaderValueOption]:
    """Return `headers` as those that take the place of any others of their names, for `ext_authz`."""
    over = pb.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
    return [
        pb.HeaderValueOption(header=pb.HeaderValue(key=name, value=text), append_action=over)
        for name, text in headers
    ]


def raw_headers(headers: Iterable[tuple[str, str]]) -> list[pb.HeaderValueOption]:
    """Return the same for `ext_proc`, which has values as bytes."""
    found = set_headers(headers)
    for one in found:
        one.header.raw_value = one.header.value.encode("latin-1")
        one.header.value = ""
    return found
