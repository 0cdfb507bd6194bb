"""A host has its messages looked at: each is a question of the decision point, or a report.

Nothing in an invocation says which call a response is of. So one is the answer to the one call of its
person, session and span that has none yet, and where there is another number of them it is a no.
"""

import hmac
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from gateway.domain._value import value
from gateway.domain.bounded import ENTRY, Bounded, digest_of, octets_of
from gateway.domain.calls import CallId, Form, Message
from gateway.domain.document import Digest, canonical, plain
from gateway.domain.flow import RunHandle, RunHint
from gateway.domain.nodes import amount
from gateway.domain.planes import REPLACE_RESULT, InterceptorHost
from gateway.domain.tools import Profile, UpstreamId
from gateway.errors import Denied, Fault, GatewayError, ProtocolError
from gateway.pipeline.admission import Admission
from gateway.pipeline.decision_point import DecisionPoint
from gateway.pipeline.plane_calls import call_of
from gateway.pipeline.plane_records import Asking, asked_by
from gateway.ports import Clock, RunStore
from gateway.turns import QUICK_NODES, finished
from gateway.wire.authzen import Answer, Entity, Evaluation, Reported
from gateway.wire.fixed import bare, require_fixed
from gateway.wire.interceptors import EVENTS, Invocation, Phase
from gateway.wire.outgoing import remarks

T = TypeVar("T")

_MOST: Final = 20_000
_OCTETS: Final = 32 * 1024**2
"""Of each host, of what it has open and of what was judged for it."""
_HANDLE_CHARACTERS: Final = 43
_INVALID_PARAMS: Final = -32602
_META: Final = "_meta"
_MEMBERS: Final = {
    "tools/call": ("name", "arguments"),
    "prompts/get": ("name", "arguments"),
    "resources/read": ("uri",),
}
"""What is looked at of a request, its target first."""

_REMEMBERED_S: Final = 3600.0
"""How long a call whose result is late still counts as one that waits: another's is not its."""

_AMBIGUOUS: Final = 2
"""Calls that nobody tells apart: more of them say no more, and the last ones wait for longest."""

_Key = bytes
"""Stands for whose call it is and of what, a session and a span: a host names them as it likes."""


@value
class Sent:
    """A call that was let out, and whose result has not come yet."""

    decision: str
    asked: Evaluation
    due: float
    """Seconds since the epoch: what comes later is no result of it."""
    octets: int
    """Of memory that `asked` takes, about."""


@value
class Judged:
    """What was said of a response, for each interceptor that is asked about it."""

    why: tuple[str, ...]
    """Why it may not be given out; nothing if it may."""
    came: Digest
    given: Digest
    payload: Mapping[str, Any]
    """What is given out."""
    octets: int
    """Of memory that it takes, about."""
    told: frozenset[str]
    """The interceptors that have said so."""


class Interceptions:
    """It judges nothing by itself."""

    def __init__(
        self,
        decisions: DecisionPoint,
        *,
        admission: Admission,
        runs: RunStore,
        seal_key: bytes,
        clock: Clock,
    ) -> None:
        """Take the `admission` of what planes ask."""
        self._decisions = decisions
        self._admission = admission
        self._runs = runs
        self._seal_key = seal_key
        self._clock = clock
        self._open: defaultdict[str, Bounded[_Key, tuple[Sent, ...]]] = defaultdict(_room)
        self._judged: defaultdict[str, Bounded[_Key, Judged]] = defaultdict(_room)
        """By the host's plane: what one leaves open takes no room of another."""

    async def validated(
        self, host: InterceptorHost, asking: Asking, seen: Invocation
    ) -> tuple[str, ...]:
        """Return why a message may not be sent or given out; nothing if it may.

        Raises:
            ProtocolError: It can be no message of this host's.
            Fault: Nobody knows.

        """
        if seen.phase is Phase.RESPONSE:
            return (await self._response(host, asking, seen)).why
        try:
            question = _question(host, seen)
        except ProtocolError as error:
            await self._refuse(host, asking, error)
            raise
        asked = await self._placed(host, asking, question, seen.session)
        answer = await self._decisions.answer(asking, asked)
        if not answer.decision:
            return _why(answer)
        key, due = await _beside(host, seen.principal, partial(_key, host, seen)), self._due(host)
        octets = ENTRY + await _beside(host, _kept_of(asked), octets_of)
        sent = Sent(decision=answer.context["decision_id"], asked=asked, due=due, octets=octets)
        waiting = (*self._waiting(host, key), sent)[-_AMBIGUOUS:]
        self._open[host.plane.name].put(key, waiting, sum(each.octets for each in waiting))
        return ()

    async def _refuse(self, host: InterceptorHost, asking: Asking, error: GatewayError) -> None:
        await self._decisions.refuse(
            error, source_ip=asking.source_ip, request_id=asking.request_id, plane=host.plane
        )

    def _due(self, host: InterceptorHost) -> float:
        return self._clock() + host.plane.report_within_s

    def _waiting(self, host: InterceptorHost, key: _Key) -> tuple[Sent, ...]:
        now, found = self._clock(), self._open[host.plane.name].get(key) or ()
        return tuple(one for one in found if one.due + _REMEMBERED_S > now)

    async def given(
        self, host: InterceptorHost, asking: Asking, seen: Invocation
    ) -> tuple[Mapping[str, Any], bool]:
        """Return what is given out of a response, and whether that is something else than came.

        Raises:
            Fault: It may not be given out, or nobody knows.

        """
        judged = await self._response(host, asking, seen)
        if judged.why:
            no = Fault("this result may not be given out", detail="; ".join(judged.why))
            no.recorded = True  # when it was judged
            raise no
        return judged.payload, judged.given != await _beside(host, seen.payload, _digest)

    async def _response(self, host: InterceptorHost, asking: Asking, seen: Invocation) -> Judged:
        """Return what is said of a response: once, whichever interceptor is asked first."""
        key = await _beside(host, seen.principal, partial(_key, host, seen))
        came = await _beside(host, seen.payload, _digest)
        known = self._judged[host.plane.name].get(key)
        if known is not None and seen.name not in known.told and came in (known.came, known.given):
            return self._kept(host, key, replace(known, told=known.told | {seen.name}))
        waiting = self._waiting(host, key)
        if len(waiting) != 1 or not _is_of(seen, waiting[0]):
            why = Denied("no one call of this session waits for a result")
            await self._refuse(host, asking, why)
            return Judged(
                why=(why.public,),
                came=came,
                given=came,
                payload=seen.payload,
                octets=0,
                told=frozenset({seen.name}),
            )
        (sent,) = waiting
        reported = Reported(decision=sent.decision, member="result", content=seen.payload)
        answer = await self._decisions.answer(asking, replace(sent.asked, reported=reported))
        payload = _replaced(answer, seen.payload)
        judged = Judged(
            why=() if answer.decision else _why(answer),
            came=came,
            given=came if payload is seen.payload else await _beside(host, payload, _digest),
            payload=payload,
            octets=await _beside(host, payload, octets_of),
            told=frozenset({seen.name}),
        )
        # Nothing is awaited between: whoever is asked next finds the one or the other.
        self._open[host.plane.name].pop(key)
        return self._kept(host, key, judged)

    def _kept(self, host: InterceptorHost, key: _Key, judged: Judged) -> Judged:
        self._judged[host.plane.name].put(key, judged, judged.octets)
        return judged

    async def _placed(
        self, host: InterceptorHost, asking: Asking, asked: Evaluation, session: str
    ) -> Evaluation:
        """Return a question in the run of its session, where the host is trusted with those.

        A session whose run has ended is in none: its calls count as having read the worst.
        """
        if not (host.sessions and session):
            return asked
        try:
            call = call_of(host.plane, asked, _modern, id_=CallId(""), source_ip=asking.source_ip)
            principal = await self._admission.gate.authenticate(call.credential, call.endpoint)
        except GatewayError:
            return asked  # and the answer says why not
        if not principal.trusted_host:
            return asked
        handle = self._handle(host, session)
        if (await self._runs.of(principal, RunHint(handle=handle))).unnamed:
            with suppress(Fault):
                await self._runs.begin(principal, None, handle)
        return replace(asked, run=handle)

    def _handle(self, host: InterceptorHost, session: str) -> RunHandle:
        """Return the handle of a session's run: the same after a restart, and nobody's guess."""
        said = f"interceptor-session\0{host.plane.name}\0{session}".encode()
        return RunHandle(hmac.digest(self._seal_key, said, "sha256").hex()[:_HANDLE_CHARACTERS])


def _modern(_: UpstreamId) -> Profile:
    """Return some family of revisions: who asks does not depend on it."""
    return Profile.MODERN


def _question(host: InterceptorHost, seen: Invocation) -> Evaluation:
    """Return the question that a request is."""
    members = _MEMBERS[seen.event]
    named = seen.payload.get(members[0])
    arguments = seen.payload.get("arguments", {})
    if not isinstance(named, str) or not named or not isinstance(arguments, dict):
        raise ProtocolError("the payload is no such request", status=200, rpc_code=_INVALID_PARAMS)
    if not (seen.payload.keys() <= {*members, _META} and _says_no_more(seen)):
        # The host sends it as it is, and nobody would have looked at the rest.
        why = "the payload says more than is looked at"
        raise ProtocolError(why, status=200, rpc_code=_INVALID_PARAMS)
    server = {"server": seen.server} if seen.server else {}
    return Evaluation(
        subject=_subject(host, seen.principal),
        action=seen.event,
        action_properties={},
        resource=Entity(type=EVENTS[seen.event], id=named, properties=server),
        arguments=arguments,
    )


def _says_no_more(seen: Invocation) -> bool:
    """Whether a request says about itself what the protocol knows there, and nothing else."""
    said = {name: told for name, told in seen.payload.items() if name != _META or told is not None}
    asked = Message(form=Form.REQUEST, method=seen.event, id=None, params=said, body=b"")
    with suppress(ProtocolError):
        require_fixed(asked)
        others = [name for name, _ in remarks(said) if name != "progressToken"]
        return bare(asked, has_target=True) is asked and not others
    return False


def _subject(host: InterceptorHost, principal: Mapping[str, Any]) -> Entity:
    """Return whose call it is: whom the host names, if it may; else the host itself."""
    if not host.asserts:
        return Entity(type="identity", id=host.plane.client, properties={})
    claims = principal.get("claims", {})
    id_ = principal.get("id")
    if principal.get("type") != "user" or not isinstance(id_, str) or not isinstance(claims, dict):
        return Entity(type="", id="", properties={})
    return Entity(type="user", id=id_, properties=claims)


def _why(answer: Answer) -> tuple[str, ...]:
    """Return the reasons of a no, and where somebody can say yes."""
    told = [f"{one['code']}: {one['message']}" for one in answer.context["reasons"]]
    page = answer.context.get("approval_url")
    return (*told, *([f"a person answers at {page}"] if page else []))


def _replaced(answer: Answer, payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is given out in place of `payload`; itself, if nothing has to be taken out."""
    for one in answer.context.get("obligations", ()):
        if one["type"].endswith(REPLACE_RESULT):
            given: Mapping[str, Any] = one["properties"]["result"]
            return given
    return payload


def _room() -> Bounded[_Key, Any]:
    return Bounded(most=_MOST, octets=_OCTETS)


def _kept_of(asked: Evaluation) -> Sequence[Any]:
    """Return what a host chose of a question that is kept until its result comes."""
    who, what = asked.subject, asked.resource
    return [who.id, who.properties, what.id, what.properties, asked.arguments]


def _key(host: InterceptorHost, seen: Invocation, principal: Mapping[str, Any]) -> _Key:
    caller = _subject(host, principal)
    whose = caller.id, str(caller.properties.get("iss", ""))
    return digest_of(host.plane.name, *whose, seen.event, seen.session, seen.span)


def _is_of(seen: Invocation, sent: Sent) -> bool:
    """Whether a response is of the server that was asked, as far as it says of which one it is."""
    asked = sent.asked.resource.properties.get("server", seen.server)
    return not seen.server or asked == seen.server


async def _beside(host: InterceptorHost, content: Any, work: Callable[[Any], T]) -> T:
    """Return what `work` makes of what a host shows: beside the event loop, if that is much."""
    return await finished(asked_by(host.plane), amount(content, QUICK_NODES), work, content)


def _digest(payload: Mapping[str, Any]) -> Digest:
    """Return what tells payloads apart, whatever the order of their members.

    A server may answer with an integer that has no canonical form: it is told apart exactly.
    """
    try:
        return Digest.of(canonical(payload))
    except ValueError:
        return Digest.of(plain(payload))
