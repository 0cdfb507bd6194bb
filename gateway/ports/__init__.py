"""Every seam of the gateway, as a Protocol. What implements them meets only in wiring.

No transaction crosses a port: whatever must be atomic is one method.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from gateway.domain.approvals import Approval, ApprovalId, ApprovalRequest, ApprovalState, Span
from gateway.domain.audit import AuditRecord, LogEntry
from gateway.domain.calls import Permit, RawAnswer
from gateway.domain.decisions import Decision
from gateway.domain.document import Digest
from gateway.domain.flow import Run, RunHandle, RunHint, RunId, RunState, Source, Task
from gateway.domain.identity import Credential, Principal
from gateway.domain.labels import Label
from gateway.domain.premises import Premises, Uses
from gateway.domain.scripts import ScriptId
from gateway.domain.tools import Kind, Pin, Profile, Sighting, Target, UpstreamId


class Authenticator(Protocol):
    async def authenticate(self, credential: Credential, endpoint: str) -> Principal:
        """Return who holds `credential`, valid now and made for `endpoint` (RFC 8707).

        Raises:
            Unauthenticated: Anything else.
            IdentityUnavailable: It cannot be told now, for want of another's keys.

        """
        ...


class Rights(Protocol):
    @property
    def people(self) -> int:
        """How often rights of anybody have ended, as far as is known here."""
        ...


class RunStore(Protocol):
    """Runs and their labels; a label that was raised survives a restart."""

    async def of(self, principal: Principal, hint: RunHint) -> Run:
        """Return the run that a call of the principal's belongs to.

        A handle that `begin` gave to this principal, which still is a trusted host, and that has
        not ended names its run. Whatever else is hinted, and by whichever grant it comes, it is the
        one run of all that the client does for its person, which ends by idle time or by `end`. Of
        a call that hints at a run that is not known, nobody knows what else its author has read: its
        label is joined with untrusted and private.
        """
        ...

    async def begin(
        self, principal: Principal, task: Task | None, handle: RunHandle | None = None
    ) -> tuple[RunHandle, Run]:
        """Begin a run of its own for `task`, which has seen nothing; durable on return.

        For trusted hosts only, which vouch that its calls have nothing in their context besides.
        Whatever the run sees, the client's whole run has seen too. It is known by `handle` where one is
        given, and by a new one else.

        Raises:
            Fault: There was a run of that handle: one that has ended does not begin again. Or so many
                have ended that nobody knows.

        """
        ...

    def live(self, principal: Principal) -> frozenset[RunId]:
        """Return the runs that calls of the principal's may be in; from memory, never waits."""
        ...

    def whose(self, run: RunId) -> str:
        """Return what all runs are filed under that have one whole run with `run`; from memory.

        It tells nothing about whose they are. A run that is not known is filed under its own name.
        """
        ...

    async def end(self, run: RunId) -> Run | None:
        """End a run, durably, with all that were begun in it: its next call begins another one.

        `None`: there is no such run, or it has ended.
        """
        ...

    def find(self, run: RunId) -> RunState | None:
        """Return a run as it is now, also one that has ended; from memory, never waits."""
        ...

    async def raise_label(
        self,
        run: RunId,
        label: Label,
        source: Source | None,
        program: ScriptId | None = None,
        *,
        heard: Run | None = None,
    ) -> Run:
        """Join `label` into the run's and into its principal's whole run, atomically and durably.

        What a `program` of a host's reads without naming a run, every run has seen that the host
        began: in one of them the host reads of it. In whichever run it calls later, that has too.

        Returns the run after, with the label that it has by itself. One that has ended meanwhile
        is raised as well, and so is what came in its place, which is returned then.

        What raises it is remembered in the run that was `heard`, which is the returned one if nothing
        else is said, and in its whole run. Any other run that is raised has `roamed` from then on.

        Raises:
            Fault: There is no such run.

        """
        ...


class ApprovalStore(Protocol):
    """Questions to people and their answers, durable. Reading is from memory and never waits."""

    def find(self, fingerprint: Digest, scope: Digest, *, now: float) -> Approval | None:
        """Return what is on file for a call: an answer that holds for it, else a waiting question.

        An answer for its `fingerprint` goes before one for its `scope`, a no before a yes.
        """
        ...

    def get(self, id_: ApprovalId, *, now: float) -> Approval | None:
        """Return a question as it is `now`: what has run out says so."""
        ...

    def all(self, *, now: float) -> Sequence[Approval]:
        """Return all that is kept, oldest first, as it is `now`."""
        ...

    def counts(self, *, now: float) -> Mapping[ApprovalState, int]:
        """Return how many there are in each state `now`; much cheaper than `all`."""
        ...

    def earlier(self, request: ApprovalRequest) -> Approval | None:
        """Return the newest answer, in force or not, to a question that says the same.

        Of the same principal, for the same target and the same arguments, whatever else was so.
        """
        ...

    def yeses(self, principal: str | None = None) -> Sequence[Approval]:
        """Return what was said yes to of what `principal` asked, in force or not, oldest first.

        Of what anybody asked where none is named.
        """
        ...

    def under(self, digest: Digest, *, now: float) -> Sequence[Approval]:
        """Return the questions with this `fingerprint` or `submission`, oldest first, as they are `now`."""
        ...

    async def file(self, request: ApprovalRequest) -> Approval:
        """File a question, or count it where the same one waits; durable on return.

        Raises:
            RateLimited: Too many questions of this principal's wait, or were asked this hour.
            Changed: It was answered in another process, and memory has the answer by now.

        """
        ...

    async def answer(
        self,
        id_: ApprovalId,
        *,
        allow: bool,
        span: Span,
        by: str,
        by_user_id: str,
        note: str,
        now: float,
    ) -> Approval:
        """Answer a waiting question, once.

        Raises:
            NotFound: There is no such question.
            Denied: It has been answered already, or has run out.

        """
        ...

    async def withdraw(self, id_: ApprovalId, *, now: float) -> Approval:
        """Have a waiting question answered by nobody, as whoever asked wants.

        Raises:
            NotFound: There is no such question.
            Denied: It has been answered already, or has run out.

        """
        ...

    async def end(self, id_: ApprovalId, *, now: float) -> Approval:
        """Have a question wait no more, or a yes count no more that does not stand.

        Raises `NotFound` where there is no such question, `Denied` where it does neither.
        """
        ...

    async def use(self, id_: ApprovalId, *, now: float) -> bool:
        """Use up a yes for one call; of many who try at once, one gets True.

        A yes for the run stays, and True is what everybody gets until it runs out.
        """
        ...


class PinStore(Protocol):
    """Pins by target and profile. Reading is from memory and never waits."""

    def find(self, target: Target, profile: Profile) -> Pin | None: ...

    def all(self, server: UpstreamId | None = None) -> Sequence[Pin]: ...

    @property
    def version(self) -> int:
        """A number that is another one whenever `all` may answer differently."""
        ...

    async def observe(self, sightings: Sequence[Sighting]) -> Sequence[Pin]:
        """Note what upstreams show, all in one transaction, durable on return.

        `gateway.pins.observe` says what becomes of each pin. Returns the pins that changed.
        """
        ...

    async def approve(
        self,
        target: Target,
        profile: Profile,
        *,
        expected: str,
        identity: str | None = None,
        by: str,
        note: str,
        user_id: str = "",
        people: int = 1,
        counts: Callable[[str], bool] = lambda _: False,
        expires_at: float | None = None,
    ) -> Pin:
        """Approve what was last observed, if its digest is still `expected`, and it is still `identity`'s.

        `user_id` is the person's `User.id`; where `people` have to approve, theirs differ. `counts`
        says, from any thread, of whose id an approval that was filed earlier counts still. An
        approval with `expires_at`, in seconds since the epoch, is in force until then.

        Raises:
            PinMismatch: There is no such pin, or it has changed since the person looked.
            Forbidden: This person's approval does not count where `people` are needed.

        """
        ...

    async def revoke(self, target: Target, profile: Profile, *, by: str, note: str) -> Pin: ...

    async def keep_body(self, target: Target, profile: Profile, digest: str) -> Pin:
        """Keep the digest of what a prompt said when it was first used; only the first counts.

        Raises:
            PinMismatch: There is no such pin.

        """
        ...


class PolicyEngine(Protocol):
    async def evaluate(self, question: Mapping[str, Any]) -> Decision:
        """Answer one question: the contract's policy input.

        Raises:
            PolicyUnavailable: There was no usable answer, rather than a guess.

        """
        ...

    async def evaluate_many(self, questions: Sequence[Mapping[str, Any]]) -> Sequence[Decision]:
        """Answer each question, in order, all by the same policy."""
        ...

    async def judge_pin(self, question: Mapping[str, Any]) -> str:
        """Ask `data.douane.pin`: `approve`, `hold` or `serve_approved`; `hold` if in doubt."""
        ...

    async def pin_approvals(self, question: Mapping[str, Any]) -> int:
        """Ask `data.douane.pin_approvals` how many people must approve; 1 if it does not say.

        Raises:
            PolicyUnavailable: There was no usable answer.

        """
        ...

    async def self_approval(self, question: Mapping[str, Any]) -> bool:
        """Ask `data.douane.self_approval` whether the person whose call it is may say yes to it.

        True only if it says true. `question` is that of the call.
        """
        ...

    @property
    def digest(self) -> str:
        """Names the policy in force: `sha256:...` over its files and data."""
        ...

    def holds(self, digest: str) -> bool:
        """Whether what the policy of this name decided may still be done: as it is in force.

        Any thread may ask.
        """
        ...


class AuditLog(Protocol):
    async def append(self, record: AuditRecord) -> LogEntry:
        """Return only once `record` is durable.

        It is written down also where whoever waits for that is cancelled meanwhile.

        Raises:
            AuditUnavailable: It is not, or not known to be, within the deadline.

        """
        ...


class Ledger(Protocol):
    """Where a call is written down that was decided on."""

    async def put(self, record: AuditRecord, premises: Premises, uses: Uses) -> LogEntry:
        """Return once `record` is durable, and `uses` are used up with it, in one.

        It is written only if `premises` hold then: what was acknowledged before they are looked at
        counts.

        Raises:
            Changed: They do not, or something is used up already; nothing was written or used.
            AuditUnavailable: It is not durable, or not known to be, within the deadline.

        """
        ...

    async def caught_up(self) -> bool:
        """Have memory show all that other processes have changed by now; say whether it lacked any.

        Raises:
            AuditUnavailable: That is not known now.

        """
        ...


class Upstream(Protocol):
    async def forward(self, permit: Permit) -> RawAnswer:
        """Send the permit's message and return the answer's head, its body whole or streamed.

        Raises:
            UpstreamFailed: No answer in time, or not one of MCP.
            CredentialRequired: The upstream wants a credential that we do not hold.
            LimitExceeded: The answer is larger than the limits allow.

        """
        ...

    async def reject(self, permit: Permit, body: bytes) -> None:
        """Answer a request of the server's in the client's place, with a JSON-RPC error `body`."""
        ...


class CatalogSink(Protocol):
    """What wants to know what upstreams show: compares it with the pins."""

    async def seen(
        self,
        server: UpstreamId,
        profile: Profile,
        kind: Kind,
        items: Sequence[Mapping[str, Any]],
        server_version: str,
    ) -> Collection[str]:
        """Take note of a whole list of `kind` (or the one `SERVER` item), as parsed raw JSON.

        Return the names under which it shows something else than what is in force there; empty for
        what has no pin at all.
        """
        ...

    def compared_with(self, server: UpstreamId) -> object:
        """Return what is equal as long as the same list would be compared with the same pins."""
        ...


class Catalogs(Protocol):
    async def refresh(
        self, server: UpstreamId, profile: Profile, kind: Kind, principal: Principal
    ) -> Collection[str]:
        """Return once what `server` lists of `kind` was compared with the pins recently enough.

        Where each person has a credential of their own it is what it lists to `principal`. Returns
        the names under which that shows something else than what is in force, as `CatalogSink.seen`.

        Raises:
            UnknownTool: No such server.
            UpstreamFailed: It cannot be read now.
            CredentialRequired: The person has to connect anew; `url` is where.

        """
        ...


class UpstreamDirectory(Protocol):
    def of(self, server: UpstreamId) -> Upstream:
        """Return the upstream of a configured server.

        Raises:
            UnknownTool: No such server.

        """
        ...

    def announce(self, server: UpstreamId, kind: Kind) -> None:
        """Note that the server said its list of `kind` changed; it is listed again soon."""
        ...


class Clock(Protocol):
    def __call__(self) -> float:
        """Seconds since the epoch."""
        ...
