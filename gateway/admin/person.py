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


@value
class Person:
    """A person whom a door has authenticated."""

    name: str
    """As the audit log shows it: `os:emma`."""
    roles: frozenset[Role]

    def need(self, *roles: Role) -> None:
        """Go on only if the person has one of `roles`.

        Raises:
            Forbidden: They have none of them.

        """
        if self.roles.isdisjoint(roles):
            wanted = " or ".join(sorted(role.value for role in roles))
            raise Forbidden(f"{self.name} needs the role {wanted}", detail=self.name)
