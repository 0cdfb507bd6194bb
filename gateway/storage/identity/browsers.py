"""Signed-in browsers, sign-ins under way, and what people consented to."""

from collections.abc import Sequence

from gateway.domain.grants import BrowserSession, Consent, Transaction
from gateway.ports import Clock
from gateway.storage.identity.remembered import Columns, Row
from gateway.storage.identity.revocations import Revocations, revoke_grants
from gateway.storage.identity.standing import end_answers
from gateway.storage.identity.statements import IdentityDatabase, Refused, Statements
from gateway.storage.identity.users import nobody

_SESSIONS = Columns(BrowserSession, "sessions")
_CONSENTS = Columns(Consent, "consents")
_TRANSACTIONS = Columns(Transaction, "transactions")
_OF_THE_ENABLED = "user_id IN (SELECT id FROM users WHERE disabled = 0)"
_MOST_SESSIONS = 50
"""Of a person: a browser that keeps no cookie has another one at each sign-in."""
_BEYOND_THE_NEWEST = (
    "DELETE FROM sessions WHERE user_id = ? AND id_hash NOT IN"
    " (SELECT id_hash FROM sessions WHERE user_id = ? ORDER BY created_at DESC, id_hash LIMIT ?)"
)
_SAID_BEFORE = (
    "DELETE FROM consents WHERE user_id = ? AND client_id = ? AND endpoint = ? AND redirect_uri = ?"
)


class BrowserTables:
    """A `BrowserStore`."""

    def __init__(
        self, database: IdentityDatabase, revocations: Revocations, *, clock: Clock
    ) -> None:
        self._database = database
        self._revocations = revocations
        self._clock = clock

    def begin(self, transaction: Transaction) -> None:
        """Store a sign-in under way."""
        self._change(_TRANSACTIONS.insert, *_TRANSACTIONS.row(transaction))

    def transaction(self, transaction_id: str, *, now: float) -> Transaction | None:
        """Return a transaction that is neither finished nor expired."""
        found = self._rows(
            f"{_TRANSACTIONS.select} WHERE id = ? AND finished_at IS NULL AND expires_at > ?",
            transaction_id,
            now,
        )
        return _TRANSACTIONS.value(found[0]) if found else None

    def update(self, transaction: Transaction) -> bool:
        """Store what changed of an unfinished transaction; its browser and its end never do."""
        found = dict(zip(_TRANSACTIONS.names, _TRANSACTIONS.row(transaction), strict=True))
        changed = self._change(
            "UPDATE transactions SET request = ?, detail = ?, user_id = ?, provider = ?,"
            " secrets = ? WHERE id = ? AND browser_hash = ? AND finished_at IS NULL",
            *map(found.__getitem__, ("request", "detail", "user_id", "provider", "secrets")),
            transaction.id,
            transaction.browser_hash,
        )
        return changed == 1

    def finish(self, transaction_id: str, *, now: float) -> bool:
        """Use it up: true for exactly one caller, and never after its time."""
        changed = self._change(
            "UPDATE transactions SET finished_at = ?"
            " WHERE id = ? AND finished_at IS NULL AND expires_at > ?",
            now,
            transaction_id,
            now,
        )
        return changed == 1

    def open_session(self, session: BrowserSession) -> None:
        """Store a signed-in browser; of a person with too many the oldest ends.

        Raises:
            LookupError: There is no such person.

        """
        row = _SESSIONS.row(session)
        oldest = (_BEYOND_THE_NEWEST, (session.user_id, session.user_id, _MOST_SESSIONS - 1))
        self._of_somebody(_SESSIONS.insert, row, instead=oldest)

    def session(self, id_hash: str, *, now: float) -> BrowserSession | None:
        """Return a session that is not expired, of a person who is not disabled."""
        found = self._rows(
            f"{_SESSIONS.select} WHERE id_hash = ? AND expires_at > ? AND {_OF_THE_ENABLED}",
            id_hash,
            now,
        )
        return _SESSIONS.value(found[0]) if found else None

    def sessions(self, user_id: str | None = None) -> Sequence[BrowserSession]:
        """Return sessions that are not expired, the newest first."""
        rows = self._rows(
            f"{_SESSIONS.select} WHERE expires_at > ? AND user_id = coalesce(?, user_id)"
            " ORDER BY created_at DESC",
            self._clock(),
            user_id,
        )
        return [*map(_SESSIONS.value, rows)]

    def end_session(self, id_hash: str) -> bool:
        """Forget a session; false if there is none."""
        return self._change("DELETE FROM sessions WHERE id_hash = ?", id_hash) == 1

    def end_sessions(self, user_id: str) -> int:
        """Forget a person's sessions; return how many they were."""
        return self._change("DELETE FROM sessions WHERE user_id = ?", user_id)

    def consents(self, user_id: str | None = None) -> Sequence[Consent]:
        """Return what is remembered, the newest first."""
        rows = self._rows(
            f"{_CONSENTS.select} WHERE user_id = coalesce(?, user_id) ORDER BY given_at DESC",
            user_id,
        )
        return [*map(_CONSENTS.value, rows)]

    def consent(self, consent: Consent) -> None:
        """Remember it; the scopes of an earlier one for the same four are replaced.

        Raises:
            LookupError: There is no such person.

        """
        place = consent.user_id, consent.client_id, consent.endpoint, consent.redirect_uri
        row = _CONSENTS.row(consent)
        self._of_somebody(_CONSENTS.insert, row, instead=(_SAID_BEFORE, place))

    def withdraw(self, user_id: str, client_id: str, *, at: float) -> int:
        """Forget consents, revoke grants and end what stands; return how many of the first two.

        Where there is neither, of answers that stood: they may be all that is left of a client.
        """
        forgotten = ended = 0

        def job(connection: Statements) -> Sequence[str]:
            nonlocal forgotten, ended
            forgotten = connection.execute(
                "DELETE FROM consents WHERE user_id = ? AND client_id = ?", (user_id, client_id)
            ).rowcount
            revoked = revoke_grants(
                connection, at=at, reason="withdrawn", user_id=user_id, client_id=client_id
            )
            # No grant may be left whose revocation would end them.
            ended = end_answers(connection, user_id, client_id, "the consent was withdrawn")
            return revoked

        revoked = self._database.write(job, committed=self._revocations.add_grants)
        return forgotten + len(revoked) or ended

    def _rows(self, statement: str, *values: object) -> Sequence[Row]:
        return self._database.read(
            lambda connection: connection.execute(statement, values).fetchall()
        )

    def _change(self, statement: str, *values: object) -> int:
        return self._database.write(
            lambda connection: connection.execute(statement, values).rowcount
        )

    def _of_somebody(
        self, statement: str, row: Row, *, instead: tuple[str, Row] | None = None
    ) -> None:
        def job(connection: Statements) -> None:
            if instead is not None:
                connection.execute(*instead)
            try:
                connection.execute(statement, row)
            except Refused as error:
                raise nobody() from error

        self._database.write(job)
