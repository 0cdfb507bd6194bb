"""What policy is asked about a call: its subject, its flow, its task (stage 6)."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from gateway.domain.bounded import ByIdentity, octets_of
from gateway.domain.calls import AccessRequest, Call, OriginKind
from gateway.domain.flow import FlowReview, Proof, Run, Task
from gateway.domain.identity import Principal
from gateway.domain.labels import Confidentiality, Effect, ToolRule
from gateway.domain.nodes import most_nodes
from gateway.domain.question import NOTHING_FOUND, Circumstances, Question
from gateway.domain.quotas import UNCOUNTED
from gateway.domain.standing import STANDS_FOR, StandingAnswer
from gateway.domain.tools import OWN, Kind, Pin, PinStatus, Target
from gateway.errors import Denied, ProtocolError
from gateway.flow.beside import NOTHING, Beside
from gateway.flow.given import Sort
from gateway.flow.provenance import Provenance, may_write
from gateway.flow.review import PRIVATE_TO_OUTSIDE, UNPROVEN_DESTINATION, review, told_by_its_run
from gateway.flow.task import narrowed
from gateway.flow.templates import names_in, work_of
from gateway.flow.use import Knowledge, Use
from gateway.pipeline.decide import Case, Subject, call_question, spelled_time
from gateway.pipeline.memory import ProvenanceMemory
from gateway.pipeline.outgoing import Names, beside
from gateway.pipeline.rounds import is_its_state, page_of_somebody, was_asked
from gateway.pipeline.rules import Rules
from gateway.pipeline.standing import standing_for
from gateway.ports import Clock, PinStore
from gateway.ports.standing import StandingAnswers
from gateway.turns import QUICK_NODES, in_turn
from gateway.wire.fixed import says_only_its_call
from gateway.wire.jsonrpc import INVALID_PARAMS
from gateway.wire.outgoing import said

_MOST: Final = 10_000
_OCTETS: Final = 32 * 1024**2
_SOURCE_OCTETS: Final = 512
_WORK_OF_A_BYTE: Final = 32
"""Characters compared: what of a message is gone through on the loop is some milliseconds of either."""
_CURSOR = "cursor"
_ASKS = frozenset({Kind.RESOURCE, Kind.PROMPT, Kind.TEMPLATE, Kind.COMPLETION})
"""Kinds of which a call asks for something and writes nothing."""


class Questions:
    """Puts calls into the words in which every engine is asked."""

    def __init__(
        self,
        *,
        rules: Rules,
        memory: ProvenanceMemory,
        pins: PinStore,
        answers: StandingAnswers,
        clock: Clock,
    ) -> None:
        self._rules = rules
        self._memory = memory
        self._pins = pins
        self._answers = answers
        self._clock = clock
        self._circumstances: ByIdentity[tuple[object, Circumstances]] = ByIdentity(
            most=_MOST, octets=_OCTETS
        )
        """By principal and pin."""
        self._plain: ByIdentity[FlowReview] = ByIdentity(most=_MOST, octets=_OCTETS)
        """By run, as it is now, and subject: where nothing of the call itself is looked at."""

    def subject(self, target: Target, pin: Pin, suppose: PinStatus | None = None) -> Subject:
        """Return what a question about `target` is about; see `Subject.of`."""
        rule = self._rules.servers[target.server].tool(target.name)
        return Subject.of(target, rule, pin, suppose=suppose)

    async def require_nothing_told(self, call: Call, principal: Principal, run: Run) -> None:
        """Return if a message that has no target tells its server nothing that policy would judge.

        Nobody is asked about one: so in a run that read what is private, or what an outsider wrote,
        it says what that server gave out, what somebody vouches for, and nothing that was read.

        Raises:
            Denied: It says something else.
            RateLimited: So much of the same principal's is looked at already.

        """
        if call.server == OWN or not run.has_read:
            return
        flow = await self._reviewed(
            call,
            principal,
            run,
            lambda: Use(
                server=call.server,
                tool="",
                rule=ToolRule(),
                effect=None,
                arguments={},
                beside=self._beside(call, principal, run, tuple),
            ),
            self.task(call, principal, run),
        )
        unproven = any(place.proof is Proof.NONE for place in flow.destinations)
        # Of ids and tokens ours go out, unless a plane sends the message: found there, something was
        # read; that it might be a secret which is not known is nothing found.
        as_written = call.origin is OriginKind.PLANE
        told = any(
            match.confidentiality >= Confidentiality.PRIVATE and (match.record or as_written)
            for payload in flow.payload
            for match in payload.matches
        )
        if unproven or told:
            violation = UNPROVEN_DESTINATION if unproven else PRIVATE_TO_OUTSIDE
            raise Denied(
                "a message of the protocol says what only a call may say",
                reasons=[(violation.code, violation.message)],
            )

    def require_own_page(self, call: Call, principal: Principal) -> None:
        """Return if the page of a list that `principal` asks for is not somebody else's.

        One that nobody is known to have got its server judges, as it does after our start.

        Raises:
            ProtocolError: It was given to somebody else alone.

        """
        cursor = call.message.params.get(_CURSOR)
        if call.server == OWN or not isinstance(cursor, str):
            return
        given = partial(self._memory.given.has, call.server, sort=Sort.PAGE)
        if given(page_of_somebody(cursor)) and not given(cursor, to=principal.key):
            raise ProtocolError(
                "there is no such page; begin the list anew",
                rpc_code=INVALID_PARAMS,
                rpc_id=call.message.id,
            )

    def case(self, call: Call, principal: Principal, run: Run, subject: Subject) -> Case:
        """Return what is known of a call about `subject` for all that judges it: found once."""
        return Case(
            call=call,
            principal=principal,
            run=run,
            subject=subject,
            arguments=said(call.message),
            task=self.task(call, principal, run),
            nodes=most_nodes(len(call.message.body)),
        )

    async def review(self, case: Case) -> FlowReview:
        """Return where the data of a call comes from, and where they go.

        Raises:
            RateLimited: So much of the same principal's is looked at already.

        """
        call, principal, run, subject = case.call, case.principal, case.run, case.subject
        answers: tuple[StandingAnswer, ...] = ()
        if subject.effect in STANDS_FOR:
            answers = standing_for(self._answers, principal, run, subject, now=self._clock())
        return await self._reviewed(
            call,
            principal,
            run,
            lambda: Use(
                server=subject.target.server,
                tool=subject.target.name,
                rule=subject.rule,
                effect=subject.effect,
                arguments=case.arguments,
                # What nobody approved speaks for nothing.
                about=approved.definition.content if (approved := subject.pin.approved) else {},
                beside=self._beside(call, principal, run, partial(_declared, subject.pin)),
            ),
            case.task,
            answers=answers,
            subject=subject,
        )

    async def _reviewed(
        self,
        call: Call,
        principal: Principal,
        run: Run,
        use: Callable[[], Use],
        task: Task | None,
        *,
        answers: tuple[StandingAnswer, ...] = (),
        subject: Subject | None = None,
    ) -> FlowReview:
        octets = len(call.message.body)
        if isinstance(uri := call.message.params.get("uri"), str):
            octets += self._compared(call, uri)
        # What a small message says is known at once, and mostly that nothing has to be proven.
        used = use() if most_nodes(octets) <= QUICK_NODES else None
        if subject and used and not (task or answers) and told_by_its_run(run, used):
            return self._plain_review(run, principal.person, subject, used)

        def looked(provenance: Provenance) -> FlowReview:
            known = Knowledge(
                tenant=self._rules.tenant, task=task, provenance=provenance, answers=answers
            )
            return review(run, used or use(), known)

        looks = used is None or used.looks
        words = task is not None and (used is None or used.is_deed)
        return await self._memory.with_it(
            run, principal.person, octets, looked, looks=looks, words=words
        )

    def _plain_review(self, run: Run, who: str, subject: Subject, use: Use) -> FlowReview:
        """Return what all such uses of `subject` in `run` move where: found once."""
        provenance = self._memory.of(run, who)  # it remembers from the first call on
        found = self._plain.get(run, subject)
        if found is None:
            known = Knowledge(tenant=self._rules.tenant, task=None, provenance=provenance)
            found = review(run, use, known)
            self._plain.put(found, run, subject, octets=_SOURCE_OCTETS * (2 + len(run.sources)))
        return found

    def _beside(self, call: Call, principal: Principal, run: Run, declared: Names) -> Beside:
        wary = call.server != OWN and run.has_read
        if says_only_its_call(call.message) and not (wary and isinstance(call.message.id, str)):
            return NOTHING
        return beside(
            call.message,
            given=lambda name: self.is_given(call, principal, name),
            returned=partial(self._is_returned, call, principal),
            asked=lambda name: was_asked(self._memory.given, call, principal, name),
            templates=partial(self._templates, call),
            declared=declared,
            wary=wary,
            as_written=call.origin is OriginKind.PLANE,
        )

    def of(
        self,
        case: Case,
        flow: FlowReview,
        *,
        usage: Mapping[str, Any] = UNCOUNTED,
        dlp: Mapping[str, Any] = NOTHING_FOUND,
    ) -> Mapping[str, Any]:
        """Return the question of phase `call`.

        `usage` says what quotas have room for, `dlp` what of sensitive classes its arguments have.
        """
        call, subject, arguments, now = case.call, case.subject, case.arguments, self._clock()
        whole = partial(
            call_question,
            call,
            case.principal,
            subject,
            run=case.run.id,
            arguments=arguments,
            review=flow,
            task=case.task,
            usage=usage,
            dlp=dlp,
            now=now,
        )
        if subject.target.kind is not Kind.TOOL or call.script is not None or flow.has_places:
            return whole()  # every one is another one
        # Whoever and whatever a call is about is the very same value until it changes.
        of = (
            subject.target, subject.effect, subject.status, case.run.id, flow, case.task,
            call.message.method, call.origin, call.parent, call.source_ip, call.revision, call.endpoint,
        )  # fmt: skip
        known = self._circumstances.get(case.principal, subject.pin)
        if known is None or known[0] != of:
            known = of, Circumstances.of(whole())
            self._circumstances.put(
                known, case.principal, subject.pin, octets=octets_of(known[1].sections)
            )
        return Question(known[1], time=spelled_time(now), arguments=arguments, usage=usage, dlp=dlp)

    @staticmethod
    def task(call: Call, principal: Principal, run: Run) -> Task | None:
        """Return the user's task, as far as a host declares it that an administrator trusts to."""
        if run.task is None and call.declared is None:
            return None
        return narrowed(run.task, call.declared if principal.trusted_host else None)

    def _is_returned(self, call: Call, principal: Principal, member: str, text: str) -> bool:
        """Tell whether the server of `call` gave `text` to `principal` as what it is brought back as."""
        given = self._memory.given
        if member == _CURSOR:
            return given.has(call.server, text, to=principal.key, sort=Sort.PAGE)
        return is_its_state(given, call, principal, text)

    def is_given(self, call: Call, principal: Principal, name: str) -> bool:
        """Tell whether the server of `call` gave out the resource `name` to `principal`, or to everybody.

        What a person approved as its own, it gave to everybody.
        """
        if self._memory.given.has(call.server, name, to=principal.key):
            return True
        pin = self._pins.find(
            Target(server=call.server, kind=Kind.RESOURCE, name=name), call.profile
        )
        return pin is not None and pin.approved is not None

    def _templates(self, call: Call) -> tuple[str, ...]:
        """Return the approved templates of the server of `call`."""
        return tuple(
            pin.target.name
            for pin in self._pins.all(call.server)
            if pin.target.kind is Kind.TEMPLATE
            and pin.profile is call.profile
            and pin.status is PinStatus.APPROVED
        )

    def _compared(self, call: Call, uri: str) -> int:
        """Return how many bytes of a message are as much work as comparing `uri` with templates."""
        return sum(work_of(one, uri) for one in self._templates(call)) // _WORK_OF_A_BYTE

    async def require_turn(self, access: AccessRequest) -> None:
        """Return if what a permitted call sends can be noted, which is done once it is on record.

        Raises:
            RateLimited: So much of the same principal's is looked at already.

        """
        nodes = most_nodes(len(access.call.message.body))
        await in_turn(access.principal.person, nodes, _nothing)

    async def note_sent(self, access: AccessRequest) -> None:
        """Take note of what a call sends that may have been led: what comes back with it was not minted there."""
        effect = Effect.READ if access.target.kind in _ASKS else access.effect
        if not may_write(effect, clean=False):
            return
        message = access.call.message

        def note(provenance: Provenance) -> None:
            provenance.sends(said(message), effect, clean=False)

        octets = len(message.body)
        who = access.principal.person
        await self._memory.with_it(access.run, who, octets, note, looks=False, must=True)


def _nothing() -> None:
    """Take a turn."""


def _declared(pin: Pin) -> Iterator[str]:
    """Yield the names of values that an approved prompt or template asks for."""
    if pin.approved is None:
        return
    if pin.target.kind is Kind.TEMPLATE:
        yield from names_in(pin.target.name)
    arguments = pin.approved.definition.content.get("arguments")
    for one in arguments if isinstance(arguments, list) else ():
        if isinstance(one, dict) and isinstance(name := one.get("name"), str):
            yield name
