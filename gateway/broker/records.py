"""What is written down of connections: that one began or ended, and why one did not."""

from collections.abc import Callable

from gateway.domain.audit import AuditRecord, RecordKind
from gateway.domain.decisions import Verdict
from gateway.domain.identity import named_in_records
from gateway.errors import GatewayError
from gateway.ports import AuditLog, Clock
from gateway.ports.identity import UserStore


class Records:
    """Writes names only: no token, code, secret or state ever comes here."""

    def __init__(
        self,
        audit: AuditLog,
        users: UserStore,
        *,
        clock: Clock,
        new_id: Callable[[], str],
        issuer: str,
    ) -> None:
        """Name people of our own `issuer` by their user name, all others with theirs."""
        self._issuer = issuer
        self._audit = audit
        self._users = users
        self._clock = clock
        self._new_id = new_id

    async def connected(
        self, server: str, user_id: str, *, issuer: str, scopes: tuple[str, ...], source_ip: str
    ) -> None:
        """Record that a person connects to `server`.

        Raises:
            AuditUnavailable: It is not recorded.

        """
        message = _asked(issuer, scopes)
        await self._append(server, user_id, Verdict.ALLOW, "connected", message, source_ip)

    async def refused(
        self, server: str, user_id: str, error: GatewayError, *, source_ip: str
    ) -> None:
        """Record why a person could not connect."""
        message = error.detail or error.public
        await self._append(server, user_id, Verdict.DENY, error.code, message, source_ip)
        error.recorded = True

    async def declined(
        self, server: str, user_id: str, *, issuer: str, scopes: tuple[str, ...], source_ip: str
    ) -> None:
        """Record that a person was asked whether to connect to `server`, and said no.

        Raises:
            AuditUnavailable: It is not recorded.

        """
        message = _asked(issuer, scopes)
        await self._append(server, user_id, Verdict.DENY, "refused", message, source_ip)

    async def ended(self, server: str, user_id: str, why: str) -> None:
        """Record that a connection is worth nothing any more."""
        await self._append(server, user_id, Verdict.DENY, "disconnected", why, "")

    async def _append(  # noqa: PLR0917 - the columns of one record
        self, server: str, user_id: str, verdict: Verdict, code: str, message: str, source_ip: str
    ) -> None:
        user = self._users.find(user_id)
        fields = {
            "method": "connect",
            "server": server,
            # As their calls are recorded; somebody who is gone has no name but this.
            "principal": user_id
            if user is None
            else named_in_records(user.issuer, user.subject, own=self._issuer),
            "verdict": verdict.value,
            "code": code,
            "reasons": [{"code": code, "message": message}],
        }
        if source_ip:
            fields["source_ip"] = source_ip
        await self._audit.append(
            AuditRecord(kind=RecordKind.TOKEN, time=self._clock(), id=self._new_id(), fields=fields)
        )


def _asked(issuer: str, scopes: tuple[str, ...]) -> str:
    return f"by {issuer}, scope {' '.join(scopes) or 'as it gives'}"
