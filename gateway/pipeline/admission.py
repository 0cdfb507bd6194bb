"""Stages 2 to 7: from a claim to a permit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gateway.domain.calls import AGGREGATE, AccessRequest, Call, Form, OriginKind, Permit
from gateway.domain.decisions import Decision, Duty, Verdict
from gateway.domain.document import Document
from gateway.domain.epoch import Epoch
from gateway.domain.flow import Run, RunHint
from gateway.domain.identity import Principal
from gateway.domain.nodes import most_nodes
from gateway.domain.quotas import UNCOUNTED
from gateway.domain.scripts import InScript, ScriptId
from gateway.domain.tools import OWN, Kind, Pin, Pinned, PinStatus, Profile, Target
from gateway.errors import (
    Denied,
    GatewayError,
    InsufficientScope,
    PinDrift,
    PinMismatch,
    ReadBefore,
    UnknownTool,
)
from gateway.pins.verify import verify
from gateway.pipeline.approvals import Approvals, Granted
from gateway.pipeline.conversations import Conversations
from gateway.pipeline.counts import Due
from gateway.pipeline.decide import permit_for, protocol_permit, told
from gateway.pipeline.following import without_followed
from gateway.pipeline.grants import UNHELD, Grants
from gateway.pipeline.memory import ProvenanceMemory
from gateway.pipeline.prepared import NEVER, Prepared, PreparedCalls
from gateway.pipeline.questions import Questions
from gateway.pipeline.quotas import Quotas
from gateway.pipeline.rounds import Rounds
from gateway.pipeline.rules import Rules
from gateway.pipeline.schemas import CHECKING, Schemas, turns_of
from gateway.pipeline.selections import Selections
from gateway.pipeline.sensitive import Sensitive, holds_secrets
from gateway.pipeline.sessions import Sessions
from gateway.pipeline.trail import Trail, shown_digest
from gateway.pipeline.visibility import Visibility
from gateway.ports import Authenticator, Catalogs, Clock, PinStore, PolicyEngine, Rights, RunStore
from gateway.ports.allowance import Allowance
from gateway.ports.descriptions import DescriptionGate
from gateway.ports.standing import StandingAnswers
from gateway.turns import QUICK_NODES, finished, in_turn
from gateway.wire.elicitation import answer_in
from gateway.wire.extensions import within
from gateway.wire.fixed import bare, require_fixed, says_only_its_call
from gateway.wire.operations import (
    ABOUT_TASKS,
    LISTEN,
    Handling,
    Operation,
    Sender,
    completed,
    find,
    followed,
    judge,
    own_row,
    scopes_of,
    target_name,
)
from gateway.wire.outgoing import said
from gateway.wire.own import says_program, told_us
from gateway.wire.param_headers import mirrors, require_params_agree
from gateway.wire.rounds import BROUGHT_BACK
from gateway.wire.session import not_found, unseal

_IMPLIED = {"tools:call": ("tools:list",)}
"""Whoever may call tools may see which (MCP 2026-07-28, scopes: hierarchies count)."""


class Admission:
    """Decides whether a call may go out. Nothing of the call is sent or changed here."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        runs: RunStore,
        pins: PinStore,
        catalogs: Catalogs,
        policy: PolicyEngine,
        approvals: Approvals,
        answers: StandingAnswers,
        grants: Grants,
        visibility: Visibility,
        selections: Selections,
        descriptions: DescriptionGate,
        rules: Rules,
        memory: ProvenanceMemory,
        conversations: Conversations,
        limits: Allowance,
        quotas: Quotas,
        sensitive: Sensitive,
        schemas: Schemas,
        epoch: Epoch,
        seal_key: bytes,
        former_seal_key: bytes | None = None,
        clock: Clock,
        sessions: Sessions,
        require_going: Callable[[], None],
        rights: Rights | None,
        require_still: Callable[[Call], None],
    ) -> None:
        """Let nobody further than their name where `require_going` raises.

        By `rights` it is known that some have ended since a call was decided on; then `require_still`
        says whether its caller's have.
        """
        self.gate = authenticator
        """Tells who holds a credential at an endpoint now, or refuses them."""
        self._runs = runs
        self._pins = pins
        self._catalogs = catalogs
        self._policy = policy
        self._approvals = approvals
        self._grants = grants
        self._visibility = visibility
        self._selections = selections
        self._descriptions = descriptions
        self._rules = rules
        self._questions = Questions(
            rules=rules, memory=memory, pins=pins, answers=answers, clock=clock
        )
        self._rounds = Rounds(given=memory.given, seal_key=seal_key)
        self._conversations = conversations
        self._cancelled = conversations.cancelled
        self.asides = conversations.asides
        """What a message says beside what was decided on."""
        self._limits = limits
        self._quotas = quotas
        self._sensitive = sensitive
        self._seal_keys = tuple(key for key in (seal_key, former_seal_key) if key is not None)
        self._clock = clock
        self._schemas = schemas
        self._epoch = epoch
        self._prepared = PreparedCalls(epoch)
        self.sessions = sessions
        """Which of them have ended."""
        self.require_going = require_going
        """Raises if somebody has stopped everything: nothing goes out, and nothing is given out."""
        self._rights, self._require_still = rights, require_still

    def narrowed(self, call: Call) -> Call:
        """Return `call` declaring only the extensions that are approved for its server.

        Of what has no target nothing stays but what the protocol has a place for.
        What is meant for us, an answer to a question of ours or the user's task, is taken out of the
        message and kept beside it. It comes before everything else, so what is decided on is still
        what is sent.
        """
        if says_only_its_call(call.message):
            return call
        approved = self._rules.extensions.get(call.server, frozenset())
        message = within(call.message, call.profile, approved)
        message, answered = answer_in(message, call.profile)
        origin = OriginKind.HOST_SANDBOX if says_program(message) else call.origin
        message, declared = told_us(message)
        row = find(Sender.CLIENT, message.method)
        message = bare(message, has_target=row is not None and row.kind is not None)
        if message is call.message:
            return call
        return replace(
            call,
            message=message,
            answered=answered,
            declared=declared or call.declared,
            origin=origin,
        )

    async def permit(self, call: Call, trail: Trail, *, follows: bool = False) -> Permit:
        """Carry `call` from stage 2 to stage 7; one that `follows` goes out as part of another.

        Raises:
            GatewayError: The refusal or the fault that ends it.

        """
        principal = await self._authenticated(call, trail)
        if principal.script is not None:
            call = trail.placed(self._placed(call, principal.script))
        if not BROUGHT_BACK.isdisjoint(call.message.params):
            call = self._rounds.opened(call, principal)
        operation = find(Sender.CLIENT, call.message.method) if follows else _operation(call)
        session = None if call.session is None else self._unsealed(call, call.session, principal)
        run = trail.run(await self._runs.of(principal, RunHint(handle=call.run_hint)))
        if call.endpoint == AGGREGATE:
            principal = self._selections.applied(call, principal, session, run.id)
        if call.message.form is not Form.RESPONSE and (
            operation is None or operation.handling is Handling.PROTOCOL
        ):
            if operation is not None:
                await self._require_own_words(call, principal, run, operation, trail)
                self._cancelled.note(call, principal, session)
            return trail.permit(
                protocol_permit(
                    call,
                    principal,
                    run,
                    session,
                    id_=trail.decision_id,
                    policy_digest=self._policy.digest,
                    last_look=self.require_unchanged,
                )
            )
        try:
            if operation is None:
                return await self._answer(call, principal, run, session, trail)
            known = await self._known(call, principal, operation, trail, follows=follows)
            call = await self._restored(call, principal, run, known, trail)
            access, due = await self._access(call, principal, run, known, trail=trail)
        except BaseException:
            await self._screened(principal, trail)  # it may have ended before anybody looked
            raise
        return await self._permitted(access, due, session, trail)

    async def _permitted(
        self, access: AccessRequest, due: Sequence[Due], session: str | None, trail: Trail
    ) -> Permit:
        """Decide on a call (stage 7), and charge what it would use."""
        call = access.call
        usable = UNHELD if call.script is None else await self._grants.covering(access, call.script)
        granted: Granted | None = None
        decision = await self._decided(access, trail)
        if decision.verdict is not Verdict.ALLOW:
            knowing, again, usable = await self._grants.consulted(access, decision, usable, trail)
            await self._approvals.require_no_refusal(access, knowing, decision, trail)
            access, decision, granted = await self._approvals.consulted(knowing, again, trail)
            self._quotas.require_not_used_up(due, decision)
        yes = None if granted is None else granted.approval
        look = self.require_unchanged
        permit = permit_for(access, decision, session, yes=yes, grants=usable, last_look=look)
        if decision.obligations:
            await self._meet_rate_limits(permit, trail)
        taken = await self._quotas.take(due, access) if due else None
        try:
            if most_nodes(len(call.message.body)) > QUICK_NODES:
                # Before anything is used up: it may be refused.
                await self._questions.require_turn(access)
            if trail.failed:
                self._grants.require_left(call, usable, trail)
                await self._approvals.require_unused(granted, trail)
        except BaseException:
            if taken is not None:
                taken.give_back()
            raise
        if taken is not None:
            trail.taken(taken)
        return permit

    async def _known(
        self, call: Call, principal: Principal, operation: Operation, trail: Trail, *, follows: bool
    ) -> Prepared:
        """Look up what a call is for, as it is shown now (stages 3 and 4)."""
        if follows:
            await self._require_protocol(call, principal, operation)
        known = await self._resolve(call, principal, operation, trail)
        if call.server == OWN:
            return known
        # Its pin counts once it was compared with a list that is recent enough.
        await self._catalogs.refresh(call.server, call.profile, known.pin.target.kind, principal)
        if known.epoch == self._epoch.now:
            return known
        pin = self._pins.find(known.pin.target, call.profile) or known.pin
        # Whether its caller may know of another one, nobody was asked.
        return known if pin is known.pin else self._looked_up(call, known.target, pin, NEVER)

    async def _require_own_words(
        self, call: Call, principal: Principal, run: Run, operation: Operation, trail: Trail
    ) -> None:
        """Hold a message of the protocol's own to its scopes, and to what may be said without a target."""
        trail.own_target(call)
        await self._screened(principal, trail)
        await self._require_protocol(call, principal, operation)
        if operation.method not in ABOUT_TASKS:  # whose answers are judged as a call's
            alone = without_followed(call)
            await self._questions.require_nothing_told(alone, principal, run)
        self._questions.require_own_page(call, principal)

    async def _answer(
        self, call: Call, principal: Principal, run: Run, session: str | None, trail: Trail
    ) -> Permit:
        """Permit an answer to a question of the server's, which is judged as what goes out with it.

        It was asked by leave of policy, for what may be told; this is what is told. A refusal leaves
        the question open, for another answer or for a person's leave.
        """
        # Also where it is decided anew: it is no answer to what was asked since.
        answers = trail.answers or self._conversations.asked(call, principal, session)
        trail.answers = answers
        target = Target(server=call.server, kind=Kind.SERVER_REQUEST, name=answers.method)
        pin = self._pin(pin_target(target, call.message.params), call.profile)
        trail.target(target, shown_digest(pin), said(call.message))
        if pin is None:
            raise UnknownTool("there is no server of this name")
        pinned = self._verified(call, pin.target, pin)
        subject = self._questions.subject(target, pin)
        case = self._questions.case(call, principal, run, subject)
        flow = await self._questions.review(case)
        dlp = await self._sensitive.in_call(case, (), flow)
        if holds_secrets(dlp):
            await self._screened(principal, trail)
        asked = self._questions.of(case, flow, dlp=dlp)
        access = AccessRequest(
            call=call,
            principal=principal,
            run=run,
            target=target,
            effect=None,
            pinned=pinned,
            review=flow,
            asked={**asked, "method": answers.method},
            answers=answers,
        )
        decision = await self._decided(access, trail)
        access, decision, granted = await self._approvals.consulted(access, decision, trail)
        yes = None if granted is None else granted.approval
        look = self.require_unchanged
        permit = permit_for(access, decision, session, yes=yes, last_look=look)
        await self._meet_rate_limits(permit, trail)
        await self._approvals.require_unused(granted, trail)
        self._conversations.require_asked(call, principal, session, answers)
        return permit

    async def _screened(self, principal: Principal, trail: Trail) -> None:
        """Leave nothing in the arguments that `trail` will tell which stands in no record."""
        if told := trail.arguments:
            trail.arguments = {}  # so that it holds whatever ends this
            trail.arguments = await self._sensitive.recorded(principal.person, told)

    async def recorded(self, access: AccessRequest) -> None:
        """Note what goes out on record and may have been led: it proves nothing when it comes back.

        Not before: a call that is decided anew would be judged by what it never sent.
        """
        await self._questions.note_sent(access)

    def take_back(self, permit: Permit) -> None:
        """Take back that `permit` was given: its question of the server's may be answered again."""
        access, id_ = permit.access, permit.call.message.id
        if access is not None and access.answers is not None and id_ is not None:
            self._conversations.ask_again(permit, id_, access.answers)

    async def _decided(self, access: AccessRequest, trail: Trail) -> Decision:
        """Return what policy says of a call, with all of it on the trail."""
        written: Mapping[str, str] = {}
        if access.call.restored:
            written = await self._sensitive.written(access)
        trail.reviewed(access, written)
        return trail.decision(await self._policy.evaluate(trail.asked(access.asked)))

    async def join_own(self, call: Call, trail: Trail) -> Principal:
        """Carry a request to the gateway itself as far as who makes it, and whether they may."""
        principal = await self._authenticated(call, trail)
        if call.session is not None:
            self._unsealed(call, call.session, principal)
        operation = _operation(call)
        if operation is not None:
            await self._require_protocol(call, principal, operation)
        return principal

    async def _authenticated(self, call: Call, trail: Trail) -> Principal:
        principal = await self.gate.authenticate(call.credential, call.endpoint)
        trail.principal(principal, self._rules.roles_of(principal.groups))
        self.require_going()
        if call.declared is not None:
            trail.task(counts=principal.trusted_host)
        # Whatever its form: each message is forwarded and fills the log.
        if trail.counts_for(principal.person):
            await self._limits.take(principal.person)
        return principal

    def _placed(self, call: Call, program: ScriptId) -> Call:
        """Return `call` as one of the `program` that its token is for: it follows the credential.

        Raises:
            Unauthenticated: That program has ended, or its token was revoked.

        """
        script = self._grants.running(program)
        within = InScript(script=script, seq=0)
        return replace(call, origin=OriginKind.HOST_SANDBOX, script=within)

    def require_unchanged(self, permit: Permit) -> None:
        """Return if the definition that was decided on is still the approved one.

        A list that passes, or a person, may have ended it since; and somebody may have stopped
        everything, or its client has cancelled it, or may not call any more.

        Raises:
            PinMismatch: It is not.
            Stopped: Nothing goes out.
            Unauthenticated: Whoever makes it may not any more.
            UpstreamFailed: Nobody waits for it any more.

        """
        try:
            self.require_going()
            if 0 < permit.call.arrived < self._cancelled.latest:
                self._cancelled.require_wanted(permit)
            if self._rights and permit.premises.people not in (None, self._rights.people):
                self._require_still(permit.call)
            if permit.access is None or permit.access.epoch == self._epoch.now:
                return
            pinned = permit.access.pinned
            now = self._pin(pinned.pin.target, permit.call.profile)
            if now is pinned.pin:
                return
            if self._verified(permit.call, pinned.pin.target, now).manifest != pinned.manifest:
                raise PinDrift("this definition has changed since the call was decided")
        except GatewayError as error:
            error.not_sent = True
            raise

    def _pin(self, target: Target, profile: Profile) -> Pin | None:
        """Return whatever stands for `target`: a pin, or what we say of a tool of our own."""
        return self._rules.own.get((target, profile)) or self._pins.find(target, profile)

    def _unsealed(self, call: Call, sealed: str, principal: Principal) -> str:
        """Return the upstream's own session id; a seal opens for its own principal only."""
        opened = (unseal(key, call.session_of, principal.key, sealed) for key in self._seal_keys)
        session = next((one for one in opened if one is not None), None)
        if session is None or self.sessions.have_ended(call.session_of, principal.key, session):
            raise not_found(call.message.id)
        return session

    async def _resolve(
        self, call: Call, principal: Principal, operation: Operation, trail: Trail
    ) -> Prepared:
        """Find what is called (stage 4); what the principal could never call, it cannot find."""
        params = call.message.params
        kind = operation.kind or Kind.SERVER
        target = Target(server=call.server, kind=kind, name=target_name(operation, params))
        known = self._prepared.find(call, principal, target)
        if known is not None:
            trail.target(target, known.digest, said(call.message, call.written))
            return known
        # Before anything is looked up: what changes meanwhile has changed for the next call.
        epoch = self._epoch.now
        pinned = pin_target(target, params)
        pin = self._pin(pinned, call.profile)
        is_named = pinned.kind is not Kind.TEMPLATE or pin is not None
        if kind is Kind.RESOURCE:
            is_named = self._questions.is_given(call, principal, target.name)
        digest = shown_digest(pin)
        trail.target(target, digest, said(call.message, call.written), is_named=is_named)
        if pin is not None and all(await self._visibility.of(call, principal, [(target, pin)])):
            # What stands for more than itself is told by its caller's words, and what ends, ends.
            lasts = pin.target == target and pin.expires_at is None
            known = self._looked_up(call, target, pin, epoch if lasts else NEVER)
            self._prepared.keep(call, principal, known)
            return known
        raise UnknownTool(
            f"there is no {target.kind.value.replace('_', ' ')} of this name",
            reasons=[("namesake", f"{name} may be meant") for name in call.namesakes],
        )

    def _looked_up(self, call: Call, target: Target, pin: Pin, epoch: int) -> Prepared:
        """Return what follows from `target` and its pin; that it is not approved is told at stage 5."""
        try:
            pinned = self._verified(call, pin.target, pin)
        except PinMismatch:
            pinned = None
        return Prepared(
            target=target,
            pin=pin,
            digest=shown_digest(pin),
            mirrored=_mirrored(pin),
            subject=self._questions.subject(target, pin),
            pinned=pinned,
            approved=None if pinned is None else self._schemas.of(pinned),
            epoch=epoch,
        )

    async def _require_protocol(
        self, call: Call, principal: Principal, operation: Operation
    ) -> None:
        """Hold the protocol's own messages to their scopes, and a subscription to what is visible."""
        params = call.message.params
        needed = scopes_of(operation, params)
        held = principal.scopes | {i for s in principal.scopes for i in _IMPLIED.get(s, ())}
        if not held.issuperset(needed):
            lacks = ", ".join(sorted(set(needed) - held))
            raise InsufficientScope(f"the token lacks a scope: {lacks}", scopes=needed)
        if operation.lists is not None and not principal.servers.shows(call.server):
            raise UnknownTool("there is no server of this name")
        if operation.method != LISTEN or not (uris := followed(call)):
            return
        server = Target(server=call.server, kind=Kind.SERVER, name=call.server)
        pin = self._pins.find(server, call.profile)
        targets = [Target(server=call.server, kind=Kind.RESOURCE, name=uri) for uri in uris]
        if pin is None or not all(
            await self._visibility.of(call, principal, [(target, pin) for target in targets])
        ):
            raise UnknownTool("there is no resource of this name")
        self._verified(call, server, pin)

    async def _access(
        self,
        call: Call,
        principal: Principal,
        run: Run,
        known: Prepared,
        *,
        trail: Trail,
    ) -> tuple[AccessRequest, Sequence[Due]]:
        """Verify the pin (stage 5), review the flow (stage 6), and see what the call would use."""
        target, pin, subject, rule = known.target, known.pin, known.subject, known.subject.rule
        try:
            pinned = known.pinned or self._verified(call, pin.target, pin)
            if call.definition_hash is not None:
                _require_read(call.definition_hash, known.digest)
            if trail.pinned is not None and trail.pinned.manifest != pinned.manifest:
                raise PinDrift("this definition has changed since the call was decided")
        except PinMismatch:
            await self._require_otherwise_allowed(call, principal, run, target, pin, trail=trail)
            raise
        approved = known.approved or self._schemas.of(pinned)
        if not approved.is_ready:
            await finished(turns_of(target), approved.nodes, approved.make_ready)
        labelled = (*rule.destination, *rule.payload)
        case = self._questions.case(call, principal, run, subject)
        plain = self._schemas.require_plain_arguments
        await in_turn(principal.person, case.nodes, plain, approved, call.message, labelled)
        if target.kind is Kind.TOOL:
            if call.endpoint == AGGREGATE and call.origin is not OriginKind.SANDBOX:
                # A server lists its tools whole, and a program was written from stubs.
                await self._descriptions.require_read(call, principal, pinned)
            if case.nodes > QUICK_NODES or not self._schemas.fits(approved, call.message):
                checked = self._schemas.require_arguments
                await finished(principal.person, CHECKING, checked, approved, call.message)
        flow = await self._questions.review(case)
        dlp = await self._sensitive.in_call(case, approved.named, flow)
        if holds_secrets(dlp):
            await self._screened(principal, trail)
        due = self._quotas.due(call, principal, run, subject) if self._quotas.are_set else ()
        usage = self._quotas.facts(due) if due else UNCOUNTED
        access = AccessRequest(
            call=call,
            principal=principal,
            run=run,
            target=target,
            effect=subject.effect,
            pinned=pinned,
            review=flow,
            asked=self._questions.of(case, flow, usage=usage, dlp=dlp),
            epoch=known.epoch,
        )
        return access, due

    async def _restored(
        self, call: Call, principal: Principal, run: Run, known: Prepared, trail: Trail
    ) -> Call:
        """Return `call` with values in place of its run's tokens, once its headers agree with what it says."""
        if known.mirrored is not None:
            require_params_agree(
                call.headers,
                call.message.params.get("arguments") or {},
                known.mirrored,
                rpc_id=call.message.id,
            )
        restored = await self._sensitive.restored(call, principal, run, known.pin)
        if not restored.restored:
            return restored
        trail.arguments = said(restored.message, restored.written)
        return trail.restored(restored)

    def _verified(self, call: Call, target: Target, pin: Pin | None) -> Pinned:
        return verify(target, pin, identity=self._rules.identities[call.server])

    async def _require_otherwise_allowed(
        self,
        call: Call,
        principal: Principal,
        run: Run,
        target: Target,
        pin: Pin,
        *,
        trail: Trail,
    ) -> None:
        """Return if all that stands against the call is its pin.

        That a definition waits or has changed is told only to whoever might have called it.
        """
        subject = self._questions.subject(target, pin, suppose=PinStatus.APPROVED)
        case = self._questions.case(call, principal, run, subject)
        flow = await self._questions.review(case)
        asked = self._questions.of(case, flow)
        decision = trail.decision(await self._policy.evaluate(trail.asked(asked)))
        if decision.verdict is Verdict.DENY:
            raise Denied("policy does not allow this call", reasons=told(decision))

    async def _meet_rate_limits(self, permit: Permit, trail: Trail) -> None:
        for obligation in permit.decision.obligations:
            if obligation.duty is Duty.RATE_LIMIT and permit.access is not None:
                key = f"{permit.principal.key}|{permit.access.target.approved_name}"
                if trail.counts_for(f"{key}|{obligation.detail['calls_per_minute']}"):
                    await self._limits.take(key, obligation.detail["calls_per_minute"])


def _operation(call: Call) -> Operation | None:
    """Return the row of the call's method; `None` for what has none: a response, GET, DELETE."""
    if call.message.form not in (Form.REQUEST, Form.NOTIFICATION):
        return None
    row = judge(call.message, call.profile)
    require_fixed(call.message)
    return row if call.server != OWN else own_row(call) or row


def _mirrored(pin: Pin) -> Document | None:
    """Return the definition that the headers of a call are held to; nothing, where it repeats nothing there."""
    if pin.target.kind is Kind.TOOL and pin.approved is not None:
        return pin.approved.definition if mirrors(pin.approved.definition) else None
    return None


def _require_read(was_read: str, digest: str) -> None:
    """Return if what the author of a call says that they have read was this."""
    if was_read != digest:
        raise ReadBefore("another definition of this tool is in force than the one that was read")


def pin_target(target: Target, params: Mapping[str, Any]) -> Target:
    """Return whose pin stands for `target`: its own, a completion's prompt or template.

    A single resource has no definition of its own to approve: the server's pin stands for it, as
    it does for a request of the server's.
    """
    match target.kind:
        case Kind.TOOL | Kind.PROMPT | Kind.TEMPLATE | Kind.SERVER:
            return target
        case Kind.COMPLETION:
            kind, name = completed(params)
            return Target(server=target.server, kind=kind, name=name)
        case Kind.RESOURCE | Kind.SERVER_REQUEST:
            return Target(server=target.server, kind=Kind.SERVER, name=target.server)
