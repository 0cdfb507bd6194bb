"""Every error this package raises on purpose.

* GatewayError
  x Refusal                the gateway works and says no
    - ProtocolError        the request is not one well-formed MCP message
    - Unauthenticated      no valid credential for this endpoint
      + ProofRefused         no valid proof that its sender holds the token's key
    - InsufficientScope    the token lacks a scope that the operation needs
    - UnknownTool          no such target, or none this principal may know of
    - PinMismatch          the target is not what a person approved
      + PinPending, PinDrift, PinRevoked
        . ReadBefore         approved, but not what the caller has read
    - Denied               policy says no
      + InvalidArguments   they are not what the approved definition says
    - Stopped              an operator has stopped everything
    - DescriptionRequired  the caller has not read what it calls
    - ApprovalRequired     policy wants a person's word first
    - RateLimited          too many calls
    - AccessRequestRefused a plane's request for access cannot be taken, or is not there
    - LimitExceeded        a message is larger than the limits allow
    - Forbidden            a person lacks the role for what they ask
    - NotFound             what a person named does not exist
    - BadCommand           no such command, or not the arguments it takes
    - EgressRefused        a URL on somebody's word leads where we do not go
    - OAuthError           a token request is refused (`gateway.oauth.errors`)
    - SignInRefused        a person's page or form is refused (`gateway.signin.errors`)
  x Fault                  the gateway cannot say yes, therefore no
    - PolicyUnavailable
    - AuditUnavailable
    - UpstreamFailed
      + UpstreamResting    it has failed too often or is too busy, and nothing was sent
    - CredentialRequired   the upstream wants a credential that the gateway does not hold
    - IdentityUnavailable  who somebody is cannot be told now
    - Unsealable           a secret at rest was sealed for another place or by another key
  x ConfigError            a file of the operator's is wrong; raised before anything is served
    - DirectoryInUse       another process writes in the data directory

A refusal's `public` text may reach the caller and holds no data of anybody; `detail` goes to the
audit log only.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple, Self


class GatewayError(Exception):
    """Base of all: a stable `code`, a text for the caller and one for the audit log."""

    code: ClassVar[str] = "error"

    def __init__(
        self,
        public: str,
        *,
        detail: str = "",
        reasons: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(f"{public} ({detail})" if detail else public)
        self.public = public
        self.detail = detail
        self.reasons = tuple(reasons)
        """Pairs of a reason's code and its message, for the caller."""
        self.recorded = False
        """Whether it stands in the audit log: whoever answers with it sees to that, once."""
        self.not_sent = False
        """Whether it came of the last look at a call before it would have left."""
        self.has_left = False
        """Whether the message was at the upstream before, which says that it did nothing with it."""

    def of_one(self, *, has_left: bool) -> Self:
        """Return the same of one message that did, or did not, leave; others may share this one."""
        error = type(self).__new__(type(self), *self.args)
        error.__dict__ |= {**self.__dict__, "has_left": has_left}
        return error


class Refusal(GatewayError):
    code = "refused"


class ProtocolError(Refusal):
    """The request is not one well-formed message of a revision we know.

    `status` is the HTTP status and `rpc_code` the JSON-RPC error code to answer with; `rpc_id` is
    the request's id where it could be read; `data` is the JSON-RPC error's member of that name.
    """

    code = "protocol_error"

    def __init__(
        self,
        public: str,
        *,
        status: int = 400,
        rpc_code: int = -32600,
        rpc_id: str | int | None = None,
        data: Mapping[str, object] | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(public, detail=detail)
        self.status = status
        self.rpc_code = rpc_code
        self.rpc_id = rpc_id
        self.data = data


class Unauthenticated(Refusal):
    code = "unauthenticated"


class ProofRefused(Unauthenticated):
    """A request's DPoP proof is not valid for it (RFC 9449 section 7.1)."""


class InsufficientScope(Refusal):
    """`scopes` are all the scopes that the operation needs (RFC 6750 section 3.1)."""

    code = "insufficient_scope"

    def __init__(self, public: str, *, scopes: Sequence[str], detail: str = "") -> None:
        super().__init__(public, detail=detail)
        self.scopes = tuple(scopes)


class UnknownTool(Refusal):
    code = "unknown_tool"


class PinMismatch(Refusal):
    code = "pin_mismatch"


class PinPending(PinMismatch):
    code = "pin_pending"


class PinDrift(PinMismatch):
    code = "pin_drift"


class ReadBefore(PinDrift):
    """It was read before the definition that is approved now was."""


class PinRevoked(PinMismatch):
    code = "pin_revoked"


class Denied(Refusal):
    code = "denied"


class InvalidArguments(Denied):
    """They are not what the tool's approved definition says, whatever policy would say."""


class Stopped(Refusal):
    """Everything is refused, whatever policy says, until an operator lets it go on."""

    code = "policy_stopped"


class DescriptionRequired(Refusal):
    """`told` is what the model gets to know: where to read, and what to do then."""

    code = "description_required"

    def __init__(self, public: str, *, told: Mapping[str, object]) -> None:
        super().__init__(public)
        self.told = told


class ApprovalRequired(Refusal):
    """`approval_id` names the question that waits, and `page` is where people answer it; empty if
    none was filed, or there are no pages.

    The rest is there only where the person whose call it is may answer it: `url` is the page, and
    `question` with `state` what a form asks them, and what proves that we asked it.
    """

    code = "approval_required"

    def __init__(
        self,
        public: str,
        *,
        approval_id: str = "",
        page: str = "",
        url: str = "",
        question: str = "",
        state: str = "",
        detail: str = "",
        reasons: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(public, detail=detail, reasons=reasons)
        self.approval_id = approval_id
        self.page = page
        self.url = url
        self.question = question
        self.state = state


class Limit(NamedTuple):
    """A limit that was met, as header fields tell it (draft-ietf-httpapi-ratelimit-headers-10)."""

    name: str
    most: int
    unit: str
    """What counts: `requests`, `content-bytes`, `concurrent-requests`, or a word of ours."""
    span_s: int | None
    """For how long `most` is; `None` for what time does not make less."""
    left: int
    wait_s: int
    """After how many seconds there is more."""


class RateLimited(Refusal):
    """`wait_s` is after how many seconds another try makes sense; 0 if nobody can say."""

    code = "rate_limited"

    def __init__(
        self,
        public: str,
        *,
        detail: str = "",
        reasons: Sequence[tuple[str, str]] = (),
        wait_s: int = 0,
        limits: Sequence[Limit] = (),
    ) -> None:
        super().__init__(public, detail=detail, reasons=reasons)
        self.wait_s = wait_s
        self.limits = tuple(limits)


class AccessRequestRefused(Refusal):
    """`problem` is the last part of the problem's URN, and `status` the HTTP status that goes with it
    (AuthZEN, Access Request and Approval Profile, error responses).
    """

    code = "access_request_refused"

    def __init__(self, public: str, *, problem: str, status: int) -> None:
        super().__init__(public, detail=f"{problem}: {public}", reasons=[(problem, public)])
        self.problem = problem
        self.status = status

    @classmethod
    def not_requestable(cls, why: str) -> Self:
        return cls(why, problem="not_requestable", status=400)

    @classmethod
    def invalid_denial_binding(cls, why: str) -> Self:
        return cls(why, problem="invalid_denial_binding", status=400)

    @classmethod
    def expired_denial(cls) -> Self:
        return cls("this refusal can be submitted no more", problem="expired_denial", status=410)

    @classmethod
    def duplicate_request(cls, why: str) -> Self:
        return cls(why, problem="duplicate_request", status=409)

    @classmethod
    def unknown_task(cls) -> Self:
        return cls("there is no such request of yours", problem="unknown_task", status=404)

    @classmethod
    def task_expired(cls) -> Self:
        return cls("its answer has run out", problem="task_expired", status=410)

    @classmethod
    def invalid_task_state(cls) -> Self:
        return cls("it waits no more", problem="invalid_task_state", status=409)


class LimitExceeded(Refusal):
    code = "limit_exceeded"


class Forbidden(Refusal):
    code = "forbidden"


class NotFound(Refusal):
    code = "not_found"


class BadCommand(Refusal):
    code = "bad_command"


class EgressRefused(Refusal):
    code = "egress_refused"


class Fault(GatewayError):
    code = "fault"


class PolicyUnavailable(Fault):
    code = "policy_unavailable"


class AuditUnavailable(Fault):
    code = "audit_unavailable"


class StateChanged(Fault):
    """What a call was decided on changed again and again while it was to be recorded."""

    code = "state_changed"


class UpstreamFailed(Fault):
    code = "upstream_failed"


class UpstreamBroke(UpstreamFailed):
    """The connection ended in the middle of an answer; the server may go on with it."""


class UpstreamResting(UpstreamFailed):
    """Nothing was sent: the upstream has failed too often, or too much is under way there for now."""


class CredentialRequired(Fault):
    """`url` is where the person can connect the upstream; empty if only an operator can help."""

    code = "credential_required"

    def __init__(
        self,
        public: str,
        *,
        url: str = "",
        detail: str = "",
        reasons: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(public, detail=detail, reasons=reasons)
        self.url = url


NOT_DONE = (CredentialRequired, EgressRefused, UpstreamResting)
"""What the client of an upstream raises where nothing was done: mostly before anything has left."""


def is_nothing_done(error: GatewayError) -> bool:
    """Whether it is known of a call that ended with `error` that its upstream did nothing."""
    return error.not_sent or isinstance(error, NOT_DONE)


class IdentityUnavailable(Fault):
    code = "identity_unavailable"


class Unsealable(Fault):
    code = "unsealable"


class ConfigError(GatewayError):
    """What an operator wrote cannot be used; `problems` are `file:line: text`, all at once."""

    code = "config"

    def __init__(self, public: str, *, problems: Sequence[str] = ()) -> None:
        super().__init__(public, detail="; ".join(problems))
        self.problems = tuple(problems)


class DirectoryInUse(ConfigError):
    """Another process writes in the data directory: a gateway, or another command."""


class Changed(Exception):
    """A record was not written: what its call was decided on does not hold any more.

    Nobody outside hears of it. `what` names each premise that failed.
    """

    def __init__(self, what: Iterable[str]) -> None:
        """Take what failed."""
        self.what = frozenset(what)
        super().__init__(", ".join(sorted(self.what)))
