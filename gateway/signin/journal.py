"""What of sign-in is written down, before anybody is told."""

from collections.abc import Callable, Mapping

from gateway.domain._value import value
from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.decisions import Verdict
from gateway.domain.identity import User, named_in_records
from gateway.ports import AuditLog, Clock


@value
class Event:
    """Something that a person did with a browser, or tried to."""

    code: str
    """What happened: `signed_in`."""
    method: str
    """The page: `sign-in`."""
    source_ip: str
    verdict: Verdict = Verdict.ALLOW
    kind: RecordKind = RecordKind.AUTH
    user: User | None = None
    """Who; nobody while that is not known, as a typed name may be a password."""
    client: str = ""
    endpoint: str = ""
    server: str = ""
    message: str = ""
    run: str = ""
    """The run that it is about."""
    label_before: Mapping[str, str] | None = None
    """What that had seen."""


class Journal:
    """Writes events into the audit log."""

    def __init__(
        self, log: AuditLog, *, clock: Clock, new_id: Callable[[], str], issuer: str
    ) -> None:
        """Name people of our own `issuer` by their user name, all others with theirs."""
        self._issuer = issuer
        self._log = log
        self._clock = clock
        self._new_id = new_id

    async def write(self, event: Event) -> None:
        """Return only once `event` is durable.

        Raises:
            AuditUnavailable: It is not: whatever it says must not happen.

        """
        named = {
            "principal": named_in_records(event.user.issuer, event.user.subject, own=self._issuer)
            if event.user
            else "",
            "client": event.client,
            "endpoint": event.endpoint,
            "server": event.server,
            "run": event.run,
        }
        fields = {
            **{name: text for name, text in named.items() if text},
            "method": event.method,
            "source_ip": event.source_ip,
            "verdict": event.verdict.value,
            "code": event.code,
            "reasons": [{"code": event.code, "message": event.message or event.code}],
            **({} if event.label_before is None else {"label_before": event.label_before}),
        }
        await self._log.append(
            AuditRecord(kind=event.kind, time=self._clock(), id=self._new_id(), fields=fields)
        )
