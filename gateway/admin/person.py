"""Who acts, and what their roles let them do."""

from enum import StrEnum

from gateway.domain._value import value
from gateway.errors import Forbidden


class Role(StrEnum):
    USER = "user"
    APPROVER = "approver"
    ADMIN = "admin"
    AUDITOR = "auditor"


EVERY_ROLE = frozenset(Role)


class How(StrEnum):
    """How a door knows who somebody is."""

    SOCKET = "socket"
    """The kernel named the operating system's user at the other end."""
    TOKEN = "token"  # noqa: S105 - a word, no token
    """They showed an access token for the admin API."""
    PAGE = "page"
    """They are signed in, in a browser, on a page of ours."""


@value
class Person:
    """A person whom a door has authenticated."""

    name: str
    """As the audit log shows it: `user:emma`, or `os:root` for whom no person stands."""
    roles: frozenset[Role]
    user_id: str = ""
    """Their `User.id`. Two people count as two only if each has one and they differ."""
    how: How = How.SOCKET

    def need(self, *roles: Role) -> None:
        """Go on only if the person has one of `roles`.

        Raises:
            Forbidden: They have none of them.

        """
        if self.roles.isdisjoint(roles):
            wanted = " or ".join(sorted(role.value for role in roles))
            raise Forbidden(f"{self.name} needs the role {wanted}", detail=self.name)
