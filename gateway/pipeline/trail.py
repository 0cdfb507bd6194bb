"""What became known about a call, in the order in which it became known."""

from collections.abc import Callable, Mapping
from typing import Any

from gateway.audit.question import kept
from gateway.domain.approvals import ApprovalId
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.calls import AccessRequest, Asked, Call, OriginKind, Permit
from gateway.domain.decisions import Decision, Verdict
from gateway.domain.document import quoted_name
from gateway.domain.flow import NOWHERE, Run, RunId
from gateway.domain.identity import Principal
from gateway.domain.labels import BOTTOM, Label
from gateway.domain.late import LateCall
from gateway.domain.scripts import digest_of
from gateway.domain.tools import OWN, Kind, Pin, Pinned, Target
from gateway.errors import ApprovalRequired, Fault, GatewayError
from gateway.pipeline.counts import Taken
from gateway.ports import Clock
from gateway.wire.operations import (
    TOOL_DESCRIPTIONS,
    Sender,
    find,
    own_resource,
    own_row,
    own_tool,
)

_JOINS = (
    "principal", "client", "endpoint", "revision", "server", "target", "effect", "pin_digest",
    "roles", "source_ip", "token_id", "label_before", "label_because",
    "policy_digest", "run", "origin", "parent",
    "script_sha256", "seq", "trace_id", "parent_span",
)  # fmt: skip


_OF_PLANES = ("plane", "request_id")
_NAMES = "uri"
"""What names a target that has its name from whoever calls: a resource, or a template to complete."""


class Carried:
    """What a call's run was raised to; all together, if it ended or was relabelled since.

    Apart from the trail: whoever keeps it keeps nothing of the call.
    """

    label: Label = BOTTOM
    heard: tuple[RunId, RunId | None] = NOWHERE.id, None

    def now(self) -> Run:
        """Return the run that has heard it, labelled as that."""
        id_, part_of = self.heard
        return Run(id=id_, label=self.label, part_of=part_of)


class Trail:
    """Collects each stage's result for the audit log. Records nothing by itself.

    An intent and its outcome share their `decision_id`; so does the refusal that the caller sees.
    It refers to no call: it may be kept for longer than what the call said.
    """

    def __init__(self, call: Call, *, clock: Clock, new_id: Callable[[], str]) -> None:
        self._id = call.id
        self._asker = call.asker
        self._written = call.restored
        self._clock = clock
        self._new_id = new_id
        self._began = clock()
        self._counted: set[str] = set()
        """Under which names its rate was counted, once however often it is decided."""
        self.failed: frozenset[str] = frozenset()
        """What was found changed when it was last to be recorded."""
        self.pinned: Pinned | None = None
        """The definition that it was decided on then."""
        self.answers: Asked | None = None
        """Which question of the server's it is an answer to, however often it is decided."""
        self.carried = Carried()
        self._taken: Taken | None = None
        self._claims: dict[str, Any] = {
            "endpoint": call.endpoint,
            "revision": call.revision,
            "method": call.message.method or call.message.form.value,
            "server": call.server,
            "origin": call.origin.value,
            "source_ip": call.source_ip,
        }
        """What the call says of itself."""
        self._fields = self._claims
        if call.parent:
            self._claims["parent"] = call.parent
        if call.script is not None:
            self.placed(call)
        if call.trace is not None:
            self._claims["trace_id"] = call.trace.trace_id
            if call.origin is not OriginKind.SANDBOX:  # its caller is the program: `parent`
                self._claims["parent_span"] = call.trace.span_id
        self._begin({})

    def anew(self, failed: frozenset[str]) -> None:
        """Forget all but who asks and when: the call is decided anew, because these have changed."""
        self.not_used()
        self.failed = failed
        self._begin({name: self._fields[name] for name in _OF_PLANES if name in self._fields})

    def not_used(self) -> None:
        """Give back what the call took of quotas: it was permitted, and does not go out."""
        if self._taken is not None:
            self._taken.give_back()
            self._taken = None

    def counts_for(self, name: str) -> bool:
        """Whether the call is still to be counted under `name`, which it is from now on."""
        known = name in self._counted
        self._counted.add(name)
        return not known

    def _begin(self, kept: Mapping[str, Any]) -> None:
        self.decision_id = f"d_{self._id}"
        """The engine's, once it has decided."""
        self.intent_id = ""
        """Id of the intent's record, once that is durable."""
        self.sent = False
        """Whether it was handed to the client of its upstream."""
        self.has_ended = False
        """Whether an outcome was made of it, which is on record once it was handed to the log."""
        self.is_late = False
        """Whether the answer is late: the outcome is recorded when that has come."""
        self._made_up: Kind | None = None
        """Of what kind a target is that has its name from whoever calls."""
        self.tool = ""
        """Which tool it is about, if it is about one: by that one's level it is written down."""
        self._taken = None
        self._stands: dict[str, tuple[Any, ...]] = {}
        self._asked: Mapping[str, Any] | None = None
        self._decided: Decision | None = None
        self._refused = False
        self._restored = self._written
        """Tokens, and the values that they stand for."""
        self._whose = self._asker
        self._answer = ""
        """Id of the answer that stands for where it goes."""
        self._fields = {**self._claims, **kept}

    def principal(self, principal: Principal, roles: tuple[str, ...]) -> Principal:
        """Note who calls, and return it, so that a stage reads as one assignment."""
        self._fields |= {
            "principal": principal.recorded,
            "client": principal.client_id,
            "token_id": principal.token_id,
            "roles": roles,
        }
        self._whose = principal.person
        return principal

    def plane(self, name: str, request_id: str) -> "Trail":
        """Note which data plane asks, and how it calls its question; both may be unknown."""
        if name:
            self._fields["plane"] = name
        if request_id:
            self._fields["request_id"] = request_id
        return self

    def placed(self, call: Call) -> Call:
        """Note which program makes the call, where one does."""
        if call.script is not None:
            self._fields["origin"] = call.origin.value
            self._fields["script_sha256"] = call.script.script.sha256
            self._fields["seq"] = call.script.seq
            if not call.parent:
                self._fields["parent"] = call.script.script.parent
        return call

    def restored(self, call: Call) -> Call:
        """Note that tokens of `call` stand for values, which are told as tokens from here on."""
        self._restored = call.restored
        return call

    def run(self, run: Run) -> Run:
        self._fields["run"] = run.id
        self.carried.heard = run.id, run.part_of
        self._fields["label_before"] = run.label.words
        if run.task is not None:
            self.task(counts=True)
        if run.unnamed:
            self._fields["label_because"] = "unknown_run"
        return run

    def target(
        self,
        target: Target,
        pin_digest: str,
        arguments: Mapping[str, Any],
        *,
        is_named: bool = True,
    ) -> None:
        """Note what is called and with what.

        `is_named` says that its name is one that its server gave it. What a caller made up is as
        much an argument as all else that they say, and kept as such.
        """
        self.tool = target.name if target.kind is Kind.TOOL else ""
        self._made_up = None if is_named else target.kind
        self._fields["target"] = target.name if is_named else quoted_name(target.name)
        self._fields["arguments"] = arguments
        if pin_digest:
            self._fields["pin_digest"] = pin_digest
        if target.server == OWN and isinstance(code := arguments.get("code"), str):
            self._fields["script_sha256"] = digest_of(code)

    def own_target(self, call: Call) -> None:
        """Note which tool or resource of the gateway's own is used, if the call is for one."""
        params = call.message.params
        if own_tool(call) is not None:
            target = Target(server=call.server, kind=Kind.TOOL, name=params["name"])
            self.target(target, "", params.get("arguments") or {})
        elif own_resource(call) is not None:
            target = Target(server=call.server, kind=Kind.RESOURCE, name=TOOL_DESCRIPTIONS)
            self.target(target, "", {"uri": params["uri"]})

    def asked_by_server(self, method: str, parent: str) -> None:
        """Note that this is the server's request `method`, on the stream of decision `parent`."""
        self._fields["parent"] = parent
        self._fields["method"] = method

    @classmethod
    def of_late(
        cls, late: LateCall, call: Call, *, clock: Clock, new_id: Callable[[], str]
    ) -> "Trail":
        """Return the trail of a call whose answer has come late: what its intent's record has, it has.

        `call` is it, as it is judged now.
        """
        trail = cls(call, clock=clock, new_id=new_id)
        trail.decision_id = late.decision["id"]
        trail.intent_id = late.record
        trail.sent = True
        trail.tool = late.target
        trail.restored(call)
        trail._began = late.began
        trail._fields = {**late.joined, "method": call.message.method, "verdict": "allow"}
        return trail

    def begun_late(self) -> None:
        """Note that the answer is late, which ends what it takes of quotas."""
        self.is_late = True
        if self._taken is not None:
            self._taken.ended(answered=0)

    def ended_late(self, code: str) -> None:
        """Note how a call has ended whose answer was late."""
        self._fields["code"] = code

    def about(self, late: LateCall) -> None:
        """Note that this is about an earlier call, whose answer is late."""
        self.tool = late.target
        self._fields["parent"] = late.decision["id"]

    def task(self, *, counts: bool) -> None:
        """Note that the call or its run declares a task, and whether it counts; not what it says."""
        self._fields["task"] = "counted" if counts else "ignored"

    def reviewed(self, access: AccessRequest, written: Mapping[str, str]) -> None:
        """Note where the run's label comes from, what the call does, and why each destination is known to be good.

        Of its value the log keeps a keyed hash, unless it may be read. `written` is what each is with
        the call's tokens, if it has any.
        """
        run, effect, review = access.run, access.effect, access.review
        if run.sources:
            self._fields["sources"] = [
                {"server": s.server, "tool": s.tool, "record": s.record, "label": s.label.words}
                for s in run.sources
            ]
        if effect is not None:
            self._fields["effect"] = effect.value
        self._answer = next((d.answer for d in review.destinations if d.answer), "")
        if review.destinations:
            self._fields["destinations"] = [
                {
                    "path": d.path,
                    "value": written[d.value] if self._restored else d.value,
                    "proof": d.proof.value,
                    "integrity": d.integrity.word,
                    **({} if d.origin is None else {"from": d.origin}),
                    **({"by": d.by.value, "answer": d.answer} if d.answer else {}),
                }
                for d in review.destinations
            ]

    def own(self, run: Run, code: str, declared: Any) -> None:
        """Note that a host's `run` was begun or ended, and the task that it declared for it."""
        self.run(run)
        self._fields["verdict"] = "allow"
        self.unknown(code, "as its host asked")
        if declared is not None:
            self._fields["arguments"] = declared

    def permit(self, permit: Permit) -> Permit:
        self.decision(permit.decision)
        return permit

    def asked(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Note what policy is asked, and return it; of several questions the last one decides."""
        self._asked = question
        self._decided = None
        return question

    def decision(self, decision: Decision) -> Decision:
        self._decided = decision
        self.decision_id = decision.id
        if decision.candidate is not None:
            self._fields["candidate"] = decision.candidate
        self._fields["verdict"] = decision.verdict.value
        self._fields["policy_digest"] = decision.policy_digest
        self._fields["reasons"] = [
            {"code": reason.code, "message": reason.message} for reason in decision.reasons
        ]
        if self._answer and decision.verdict is Verdict.ALLOW:
            self._fields.setdefault("approval_id", self._answer)
        self._fields.pop("obligations", None)  # an earlier answer's
        if decision.obligations:
            self._fields["obligations"] = [
                {"duty": o.duty.value, **o.detail} for o in decision.obligations
            ]
        return decision

    def result_decision(self, decision: Decision) -> None:
        """Add what policy said of the result to what it said of the call."""
        if decision.candidate is not None:
            self._fields["candidate"] = decision.candidate
        self._fields["verdict"] = decision.verdict.value
        self._fields["reasons"] = [
            *self._fields.get("reasons", ()),
            *({"code": reason.code, "message": reason.message} for reason in decision.reasons),
        ]
        if decision.obligations:
            self._fields["obligations"] = [
                *self._fields.get("obligations", ()),
                *({"duty": o.duty.value, **o.detail} for o in decision.obligations),
            ]

    def taken(self, taken: Taken) -> None:
        """Note what of quotas the call has taken, until it ends."""
        self._taken = taken
        if charged := taken.charged:
            self._fields["charged"] = charged

    def approval(self, id_: ApprovalId) -> None:
        """Note which question to a person the call is about, or went out by."""
        self._fields["approval_id"] = id_

    def label(self, label: Label) -> None:
        self._fields["label_after"] = label.words
        before = self.carried.label
        self.carried.label = label if before is BOTTOM else label.join(before)

    def answer(self, status: int, body: bytes | None) -> None:
        """Note what the upstream answered; the log keeps a keyed hash of `body`, or less."""
        self._fields["upstream_status"] = status
        if body is not None:
            self._fields["result"] = body
            self._fields["result_bytes"] = len(body)

    def error(self, error: GatewayError) -> None:
        """Note the refusal or the fault that ends the call."""
        self._refused = True
        self._fields["verdict"] = _verdict(error)
        self.unknown(error.code, error.detail or error.public)
        for code, message in error.reasons:
            self._fields["reasons"].append({"code": code, "message": message})

    def unknown(self, code: str, message: str) -> None:
        """Note why nobody knows how the call ended, or why it was refused."""
        self._fields["code"] = code
        self._fields["reasons"] = [{"code": code, "message": message}]

    def reasons(self, code: str, message: str) -> None:
        """Add a reason beside the decision's."""
        self._fields.setdefault("reasons", []).append({"code": code, "message": message})

    def withheld(self, method: str, error: GatewayError) -> None:
        """Note that something that the server said beside its answer was kept back; once for each why."""
        why = {"code": error.code, "message": f"{method} was withheld: {error.public}"}
        noted = self._fields.setdefault("reasons", [])
        if why not in noted:
            noted.append(why)

    @property
    def arguments(self) -> Any:
        """What the record will say that the call carries, by the level of its tool."""
        return self._fields.get("arguments", {})

    @arguments.setter
    def arguments(self, told: Any) -> None:
        self._fields["arguments"] = told
        if self._made_up is not None:
            holder = told.get("ref", {}) if self._made_up is Kind.COMPLETION else told
            self._fields["target"] = quoted_name(str(holder.get(_NAMES, "")))

    @property
    def told_target(self) -> str:
        """The target as a record may have it."""
        return str(self._fields.get("target", ""))

    @property
    def joined(self) -> Mapping[str, Any]:
        """What a further record about the call has in common with the call's own."""
        return {name: self._fields[name] for name in _JOINS if name in self._fields}

    def intent(self, *, owes: tuple[Label, float] | None = None) -> AuditRecord:
        """Return the intent, which says what is owed by it: what it may bring, and until when to tell."""
        if owes is not None:
            worst, until = owes
            self._fields["owes"] = {**worst.words, "until": until}
        return self._record(RecordKind.INTENT, self._began)

    def outcome(self, kind: RecordKind = RecordKind.OUTCOME) -> AuditRecord:
        self.has_ended = True
        now = self._clock()
        self._fields["duration_us"] = max(0, round((now - self._began) * 1e6))
        if self._taken is not None:
            self._settle(self._taken)
        record = self._record(kind, now)
        # A trail may be kept for longer than its call: the answer is in this one record.
        self._fields.pop("result", None)
        return record

    def _settle(self, taken: Taken) -> None:
        """Note what the call used beside, each once: what was not sent has used nothing.

        An intent that is not known to be durable is not taken back: it may still come into the log.
        """
        if self.sent or not self.intent_id:
            charged = taken.ended(answered=self._fields.get("result_bytes", 0))
        else:
            charged = taken.unsent()
        if charged:
            self._fields["charged"] = charged

    def _record(self, kind: RecordKind, now: float) -> AuditRecord:
        fields = {**self._fields, "decision_id": self.decision_id}
        if self._asked is not None:
            fields["question"] = question = kept(self._asked, self._fields)
            if self._refused:
                # The record's own verdict and reasons are the refusal's, which need not be policy's.
                decided = self._decided
                question["answer"] = {
                    "verdict": "error" if decided is None else decided.verdict.value,
                    "reasons": [] if decided is None else [r.code for r in decided.reasons],
                }
        # The one record that carries the decision has them; the next one is about the result.
        self._asked = None
        self._fields.pop("candidate", None)
        self._fields.pop("charged", None)
        self._fields.pop("owes", None)
        return AuditRecord(
            kind=kind,
            time=now,
            id=self._new_id(),
            fields=fields,
            stands=self._stands,
            whose=self._whose,
            tool=self.tool,
        )


def shown_digest(pin: Pin | None) -> str:
    """Return the digest of the definition that `pin` is about, as records have it; empty for none."""
    return "" if pin is None else str((pin.approved or pin.observed).digest)


def _verdict(error: GatewayError) -> str:
    if isinstance(error, ApprovalRequired):
        return "ask"
    return "error" if isinstance(error, Fault) else "deny"


def outcome_kind(permit: Permit) -> RecordKind:
    """Return under which kind the outcome of a permitted call is recorded."""
    if permit.access is not None:
        return RecordKind.OUTCOME  # whatever is decided about by itself lists nothing
    operation = own_row(permit.call) or find(Sender.CLIENT, permit.call.message.method)
    if operation is not None and operation.lists is not None:
        return RecordKind.LIST
    return RecordKind.OUTCOME
