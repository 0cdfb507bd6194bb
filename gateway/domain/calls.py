"""A call, from the claim a caller makes to the reply it gets."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from sys import getsizeof
from typing import Any, Final, NewType

from gateway.domain._value import value
from gateway.domain.decisions import Decision, Verdict
from gateway.domain.flow import FlowReview, Run, Task
from gateway.domain.identity import Asserted, Credential, Principal
from gateway.domain.labels import Effect
from gateway.domain.late import LateCall
from gateway.domain.nodes import MOST_NODES, marks_in
from gateway.domain.premises import NOTHING, Premises, Uses
from gateway.domain.scripts import InScript
from gateway.domain.tools import OWN, Pinned, Profile, Target, UpstreamId
from gateway.domain.tracing import TraceContext

CallId = NewType("CallId", str)

AGGREGATE = "/mcp"
"""The endpoint in front of every server."""
_CALL: Final = 16 * 1024
"""Bytes that a call takes with all that is known of it, however little it says."""
_A_BYTE: Final = 7
"""Its body as it came and as it goes, and its texts as they were read and with the UTF-8 that they keep
once they were written: one wide character makes all of a text wide."""
_A_NODE: Final = 128
_A_LINE: Final = 1024
"""What a record says of a source or a destination."""
_APART: Mapping[str, Any] = {"answered": None, "declared": None, "restored": (), "written": None}
"""Of a call with nothing that stood beside its message."""
_LONG: Final = 1024 * 1024
"""Nobody goes through so much to count its nodes."""


class OriginKind(StrEnum):
    """Where a call entered. Evidence for policy and audit; it selects no code path."""

    DIRECT = "direct"
    META_TOOL = "meta_tool"
    SANDBOX = "sandbox"
    HOST_SANDBOX = "host_sandbox"
    PLANE = "plane"
    """Somebody else's data plane carries it, and asks."""


class Form(StrEnum):
    """What a client sent."""

    REQUEST = "request"
    NOTIFICATION = "notification"
    RESPONSE = "response"
    """An answer to a request of the server (legacy revisions)."""
    STREAM = "stream"
    """HTTP GET: the stream of a session (legacy revisions)."""
    END = "end"
    """HTTP DELETE: the end of a session (legacy revisions)."""


@value
class Message:
    """One MCP message, parsed once and strictly, beside the bytes it was parsed from."""

    form: Form
    method: str
    """The JSON-RPC method; `GET` or `DELETE` for those forms; empty for a response."""
    id: str | int | None
    params: Mapping[str, Any]
    """Read only: it is what was decided on. A response's `result` or `error` member whole."""
    body: bytes
    """What was received, and what is sent on; empty for GET and DELETE."""


@value
class Answered:
    """What came back with a call to a question of ours about it: a claim, as all of the call is."""

    yes: bool | None
    """`None`: the person did not say, there; they were sent to a page, or closed the form."""
    state: str
    """What we gave along with the question, or what pretends to be that."""


@value
class Call:
    """One attempt to use an upstream: a claim, in which nothing is verified yet."""

    id: CallId
    endpoint: str
    """Path of the resource: `/mcp/mail`."""
    server: UpstreamId
    message: Message
    revision: str
    """`2025-11-25`; for an `initialize` the one it proposes."""
    profile: Profile
    headers: tuple[tuple[str, str], ...]
    """What may be sent on, lower-case names, from an allowlist: never a credential."""
    credential: Credential
    session: str | None
    """The sealed `Mcp-Session-Id`, as the client sent it."""
    source_ip: str
    asker: str = ""
    """Whose turns work on it takes: the `Principal.person` that the door found behind its credential,
    and nobody's that many share. Nothing is judged by it."""
    arrived: int = 0
    """When its head came in, in nanoseconds of a clock that never goes back and that all configurations
    have; 0 for what did not come in here."""
    trace: TraceContext | None = None
    """Where it stands in its client's trace, if it does."""
    run_hint: str | None = None
    """`_meta["douane/run"]`, as the client sent it."""
    origin: OriginKind = OriginKind.DIRECT
    parent: CallId | None = None
    answered: Answered | None = None
    """Taken out of the message, so that no upstream sees what was meant for us."""
    declared: Task | None = None
    """The task that its host declares, taken out likewise; it counts only from a trusted host."""
    definition_hash: str | None = None
    """`sha256:...` of the definition that its author has read; under another nothing is called."""

    namesakes: tuple[str, ...] = ()
    """Names that its caller can see and may have meant by one that names nothing. Never a claim."""
    script: InScript | None = None
    """The program that makes it, where one does. Set by what runs programs and by what admits a
    token for one, and never by a claim."""

    restored: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Tokens that its caller wrote, and the values that `message` has in their place. Set by us."""
    written: Mapping[str, Any] | None = field(default=None, repr=False)
    """The params as its caller wrote them, where `message` has values in place of tokens. Set by us."""

    withdraws: bool = False
    """It ends a subscription where its method alone would begin one. Set by us, never by a caller."""

    def saying(self, message: Message, headers: tuple[tuple[str, str], ...] = ()) -> "Call":
        """Return it with another message, and nothing of what stood beside the one that it had."""
        return replace(self, message=message, headers=headers, **_APART)

    def as_written(self, text: str) -> str:
        """Return `text` with the caller's tokens in place of the values that they stand for."""
        return as_written(text, self.restored)

    @property
    def params_as_written(self) -> Mapping[str, Any]:
        """The params with the caller's tokens, where there are any."""
        return self.message.params if self.written is None else self.written

    @property
    def session_of(self) -> UpstreamId:
        """Whose session id `session` seals: the server's, or in front of all servers our own."""
        return OWN if self.endpoint == AGGREGATE else self.server


def as_written(text: str, restored: Sequence[tuple[str, str]]) -> str:
    """Return `text` with tokens in place of the values that they stand for."""
    for token, shown in restored:
        text = text.replace(shown, token)
    return text


def octets_of_call(call: Call) -> int:
    """Return how many bytes it takes at most to keep `call` as it was read, whatever shape it has.

    What was taken out of its message is of it, what its caller wrote in the place of values, and what
    a plane says of who they are.
    """
    body = call.message.body
    nodes = MOST_NODES if len(body) > _LONG else min(marks_in(body), MOST_NODES)
    task, answered, said = call.declared or Task(), call.answered, call.credential
    beside = (
        *(task.prompt, task.tools, answered and answered.state, call.restored, call.written),
        said.groups if isinstance(said, Asserted) else (),
    )
    return _CALL + _A_BYTE * len(body) + _A_NODE * nodes + _taken_by(beside)


@value
class Asked:
    """A request of a server's that was let through to its client, which may answer it."""

    method: str
    digest: str
    """Of all of it, as its client got it: its id is part of that."""
    text: str
    """The beginning of what it says, for people."""


@value
class AccessRequest:
    """Everything policy gets to know about a call (NIST SP 800-162, AuthZEN)."""

    call: Call
    principal: Principal
    run: Run
    target: Target
    effect: Effect | None
    """`None` for what has none: everything that is not a tool."""
    pinned: Pinned
    review: FlowReview
    asked: Mapping[str, Any]
    """The question, exactly as policy is asked it."""
    epoch: int = -1
    """In which it was looked up what the call is for; -1 is none that will be."""
    answers: Asked | None = None
    """What of its server's it answers, if it answers anything."""


def whatever_has_changed(_: "Permit") -> None:
    """For what goes out at any time: it ends something, or belongs to what has left already."""


def may_go_on(_: Call) -> None:
    """For callers whom nobody here can end: another server says all of who they are."""


def whatever_is_stopped() -> None:
    """For what nobody keeps, and what was given out before."""


@value
class Permit:
    """Leave to forward exactly this call, once. Made only by `gateway.pipeline.decide`.

    Forwarding takes a permit and nothing else, so what was decided on is what is sent; only that a
    traced call names our span as its parent, and no longer its caller's, and that a run which has
    read something says nothing of its caller's own beside it. `access` is `None` for the
    protocol's own messages (a handshake, a ping, a list), which have no target.
    """

    call: Call
    principal: Principal
    run: Run
    decision: Decision
    access: AccessRequest | None
    session: str | None
    """The upstream's own session id, unsealed; the same principal got it from this upstream."""
    premises: Premises
    """What of all that may change before it is on record."""
    uses: Uses = NOTHING
    """What it uses up by going out."""
    late: LateCall | None = None
    """The call that was made before and whose answer this lets somebody hear, in whichever run."""
    last_look: Callable[["Permit"], None] = field(default=whatever_has_changed, repr=False)
    """Whoever sends it calls this when there is a way to its server, and nothing is waited for any
    more before it leaves: it raises if it may not go by now."""

    @property
    def is_of_its_run(self) -> bool:
        """Whether what it permits was said in its run: not where that only hears a late answer."""
        return self.late is None or self.late.run == self.run.id

    @property
    def lasting(self) -> "Permit":
        """Leave for what belongs to the call and may be said when that is over, by whoever keeps it.

        It has nothing of what the call said: that may be large, and the room of its request is not kept.
        """
        message = replace(self.call.message, params={}, body=b"")
        call = self.call.saying(message)
        late = self.late and self.late.unsaid
        return replace(self, late=late, call=call, access=None, last_look=whatever_has_changed)

    @property
    def waiting(self) -> "Permit":
        """By this what comes of the call is judged, however late: nothing goes out by it any more.

        Of what the review found in the call nothing is left but where it went.
        """
        access = self.access
        if access is not None and (access.review.payload or access.review.links):
            review = FlowReview(label=access.review.label, destinations=access.review.destinations)
            access = replace(access, review=review, asked={**access.asked, "flow": None})
        return replace(self, access=access, last_look=whatever_has_changed)

    def __post_init__(self) -> None:
        if self.decision.verdict is not Verdict.ALLOW:
            raise ValueError(f"no permit follows from {self.decision.verdict}")


def octets_of_permit(permit: Permit) -> int:
    """Return how many bytes it takes at most to keep `permit.waiting`, and what its outcome will say."""
    access = permit.access
    if access is None:
        return octets_of_call(permit.call)
    lines = len(permit.run.sources) + len(access.review.destinations)
    return octets_of_call(permit.call) + _A_LINE * lines + _taken_by(access.asked.get("dlp"))


def _taken_by(content: Any) -> int:
    """Return how many bytes `content`, which is as JSON is read, takes: all of it is looked at."""
    found, waiting = 0, [content]
    while waiting:
        node = waiting.pop()
        found += getsizeof(node)
        if isinstance(node, dict):
            waiting += (*node, *node.values())
        elif isinstance(node, list | tuple | frozenset):
            waiting += node
    return found


@value
class ServerEvent:
    """One event of an SSE stream: its exact bytes, and the data they carry."""

    raw: bytes
    """With the blank line that ends it."""
    data: bytes | None
    """Joined `data` lines; `None` for a comment, a bare `id` or `retry`, a priming event."""
    given: Run | None = None
    """The run that has heard it, labelled as its bytes, where they were judged and recorded already: one
    of our own servers' that gives a client again what it has lost. No upstream's ever is."""
    beside: bool = False
    """Whether it came on no answer's own stream, and names none: that it is of a call, nobody says."""


@value
class RawAnswer:
    """What an upstream answered: unlabelled, unfiltered, not for callers."""

    status: int
    headers: tuple[tuple[str, str], ...]
    """Lower-case names, from an allowlist, without the session id."""
    session: str | None
    """The upstream's `Mcp-Session-Id`, not for callers."""
    body: bytes | AsyncIterator[ServerEvent]
    etag: str | None = None
    """By which it can be asked whether that has changed since (RFC 9110 section 8.8.3), not for callers."""


@value
class Reply:
    """What the caller gets to see."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes | AsyncGenerator[bytes, None]
    """A stream's first part is empty; once that is taken, the stream sees to its own end."""
    code: str | None = None
    """The refusal's code, where it is one."""
    unknown: bool = False
    """Whether the call may have been carried out although this is a refusal."""
    label: Callable[[], Run] | None = None
    """Says of a stream what it has carried so far, and which run has heard it."""
    require_going: Callable[[], None] = field(default=whatever_is_stopped, repr=False)
    """Whoever keeps a part of a stream calls this before it goes on: it raises if nothing may be given
    out by now."""
