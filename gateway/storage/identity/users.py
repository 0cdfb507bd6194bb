"""People, read from memory; their passwords and the links to choose one, from the disk."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gateway.domain.identity import User
from gateway.storage.identity.remembered import Columns, Remembered, Row, insert_into, listed
from gateway.storage.identity.revocations import Revocations, revoke_grants
from gateway.storage.identity.statements import IdentityDatabase, Refused, Statements

_USERS = Columns(User, "users")
_INSERT = insert_into("users", (*_USERS.names, "password"))
_NO_PASSWORD = ""
_SIGNED_IN = (
    f"{_INSERT} ON CONFLICT (issuer, subject) DO UPDATE SET"
    " name = excluded.name, groups = excluded.groups RETURNING id"
)
_LINK = insert_into("links", ("link_hash", "user_id", "expires_at"))

_SPENT = insert_into("assertions", ("issuer", "assertion_id", "expires_at"))
_FIRST_LINK = "the first person's link"
"""Stands where an issuer does: what is used once stands in one table."""

_CHOOSES = """
UPDATE users SET password = ? WHERE disabled = 0 AND id =
(SELECT user_id FROM links WHERE link_hash = ? AND expires_at > ?) RETURNING id
"""


class _Changed(NamedTuple):
    row: Row
    revoked: Sequence[str] = ()


class UserTables:
    """A `UserStore`. Memory holds what is committed, and nothing else."""

    def __init__(self, database: IdentityDatabase, revocations: Revocations) -> None:
        self._database = database
        self._revocations = revocations
        self._memory = Remembered(_USERS.value)
        self._subjects: Mapping[tuple[str, str], User] = {}
        database.remembers(self._load)

    def find(self, user_id: str) -> User | None:
        return self._memory.values.get(user_id)

    def by_subject(self, issuer: str, subject: str) -> User | None:
        return self._subjects.get((issuer, subject))

    def by_os_user(self, os_user: str) -> User | None:
        """Return whose user of the operating system this is; nobody has the empty one."""
        everybody = self._memory.values.values()
        return next((user for user in everybody if os_user and user.os_user == os_user), None)

    def all(self) -> Sequence[User]:
        """Return everybody, by name."""
        return sorted(self._memory.values.values(), key=lambda user: (user.name, user.id))

    def add(
        self, user: User, *, link_hash: str = "", link_until: float = 0, first: bool = False
    ) -> None:
        """Store a new person, and the link with which they choose a password; see `UserStore`."""

        def job(connection: Statements) -> _Changed:
            if first and connection.execute("SELECT 1 FROM users LIMIT 1").fetchone():
                raise ValueError("somebody else is the first person already")
            try:
                connection.execute(_INSERT, (*_USERS.row(user), _NO_PASSWORD))
                if first:
                    # Other processes hold it, but none beyond its end: whoever begins later makes another one.
                    connection.execute(_SPENT, (_FIRST_LINK, link_hash, link_until))
            except Refused as error:
                raise ValueError("there is a person of that name or user already") from error
            if link_hash:
                connection.execute(_LINK, (link_hash, user.id, link_until))
            return _Changed(_row_of(connection, user.id))

        self._changed(job)

    def signed_in(self, user: User) -> User:
        """Return the person of `user`'s issuer and subject, made now if they are new."""

        def job(connection: Statements) -> _Changed:
            ((user_id,),) = connection.execute(
                _SIGNED_IN, (*_USERS.row(user), _NO_PASSWORD)
            ).fetchall()
            return _Changed(_row_of(connection, user_id))

        return self._changed(job)

    def change(
        self,
        user_id: str,
        *,
        groups: frozenset[str] | None = None,
        os_user: str | None = None,
        disabled: bool | None = None,
        at: float,
    ) -> User:
        """Change what is given. Disabling also ends what they have begun, and revokes grants.

        That they were disabled stays known when they are not any more.
        """
        given = {
            "groups": None if groups is None else listed(sorted(groups)),
            "os_user": os_user,
            "disabled": None if disabled is None else int(disabled),
            "disabled_at": at if disabled else None,
        }
        changed = {column: to for column, to in given.items() if to is not None}

        def job(connection: Statements) -> _Changed:
            for column, to in changed.items():
                _set(connection, user_id, column, to)
            row = _row_of(connection, user_id)
            if not disabled:
                return _Changed(row)
            _end_sessions(connection, user_id)
            return _Changed(
                row, revoke_grants(connection, at=at, reason="user disabled", user_id=user_id)
            )

        return self._changed(job)

    def remove(self, user_id: str, *, at: float) -> User:
        """Forget a person and everything that is theirs, and revoke their grants."""

        def job(connection: Statements) -> _Changed:
            row = _row_of(connection, user_id)
            _end_sessions(connection, user_id)
            connection.execute("DELETE FROM users WHERE id = ?", (user_id,))
            return _Changed(
                row, revoke_grants(connection, at=at, reason="user removed", user_id=user_id)
            )

        def committed(changed: _Changed) -> None:
            self._revocations.add_grants(changed.revoked)
            self._memory.drop([user_id])
            self._index()

        return _USERS.value(self._database.write(job, committed=committed).row)

    def password_of(self, user_id: str) -> str:
        """Return the Argon2id hash of their password; empty if there is none."""
        found = self._database.read(
            lambda connection: connection.execute(
                "SELECT password FROM users WHERE id = ?", (user_id,)
            ).fetchone()
        )
        return str(found[0]) if found else ""

    def rehash(self, user_id: str, old: str, new: str) -> bool:
        """Replace the password hash `old`; false if it is `old` no longer."""
        changed = self._database.write(
            lambda connection: (
                connection.execute(
                    "UPDATE users SET password = ? WHERE id = ? AND password = ? AND password <> ''",
                    (new, user_id, old),
                ).rowcount
            )
        )
        return changed == 1

    def add_link(self, user_id: str, link_hash: str, *, until: float) -> None:
        """Let whoever has the link choose a password for this person, once.

        Raises:
            LookupError: There is no such person.

        """

        def job(connection: Statements) -> None:
            connection.execute("DELETE FROM links WHERE user_id = ?", (user_id,))
            try:
                connection.execute(_LINK, (link_hash, user_id, until))
            except Refused as error:
                raise nobody() from error

        self._database.write(job)

    def link(self, link_hash: str, *, now: float) -> User | None:
        """Return whose link this is, while it is unused, in time, and they are not disabled."""
        found = self._database.read(
            lambda connection: connection.execute(
                f"{_USERS.select} JOIN links ON user_id = id"
                " WHERE link_hash = ? AND expires_at > ? AND disabled = 0",
                (link_hash, now),
            ).fetchone()
        )
        return _USERS.value(found) if found else None

    def redeem_link(self, link_hash: str, password: str, *, now: float) -> User | None:
        """Set the password hash and use the link up; sessions opened before end."""

        def job(connection: Statements) -> Row | None:
            found = connection.execute(_CHOOSES, (password, link_hash, now)).fetchall()
            if not found:
                return None
            ((user_id,),) = found
            connection.execute("DELETE FROM links WHERE user_id = ?", (user_id,))
            _end_sessions(connection, user_id)
            return _row_of(connection, user_id)

        row = self._database.write(job)
        return _USERS.value(row) if row else None

    def _changed(self, job: Callable[[Statements], _Changed]) -> User:
        def committed(changed: _Changed) -> None:
            self._revocations.add_grants(changed.revoked)
            self._memory.put(changed.row)
            self._index()

        changed = self._database.write(job, committed=committed)
        return _USERS.value(changed.row)

    def _load(self, connection: Statements) -> None:
        self._memory.fill(connection.execute(_USERS.select))
        self._index()

    def _index(self) -> None:
        everybody = self._memory.values.values()
        self._subjects = {(user.issuer, user.subject): user for user in everybody}


def nobody() -> LookupError:
    """Return what is raised where there is no such person."""
    return LookupError("there is no such person")


def _set(connection: Statements, user_id: str, column: str, to: str | float) -> None:
    try:
        connection.execute(f"UPDATE users SET {column} = ? WHERE id = ?", (to, user_id))  # noqa: S608 - fixed names
    except Refused as error:
        raise ValueError("the user of the operating system is somebody else already") from error


def _end_sessions(connection: Statements, user_id: str) -> None:
    connection.execute("DELETE FROM sessions WHERE user_id = ?", (user_id,))
    # A sign-in that this person has got through but not finished would become a session, too.
    connection.execute("DELETE FROM transactions WHERE user_id = ?", (user_id,))


def _row_of(connection: Statements, user_id: str) -> Row:
    found = connection.execute(f"{_USERS.select} WHERE id = ?", (user_id,)).fetchone()
    if found is None:
        raise nobody()
    return found
