"""Who acts, and what their roles let them do."""

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, TypeVar

from gateway.domain._value import value
from gateway.errors import Forbidden
from gateway.turns import QUICK_NODES, in_turn

T = TypeVar("T")


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
    os_user: str = field(default="", compare=False)
    """The operating system's user that they are, if they were made one: what it did before is theirs."""
    how: How = How.SOCKET
    source_ip: str = field(default="", compare=False)
    """Where they are; empty at the socket."""
    token_id: str = field(default="", compare=False)
    """The `jti` of the token that they showed, if they did."""

    @property
    def told(self) -> Mapping[str, Any]:
        """Who they are, in the words of an audit record."""
        whereabouts = {"source_ip": self.source_ip, "token_id": self.token_id}
        return {
            "principal": self.name,
            "roles": sorted(role.value for role in self.roles),
            **{name: text for name, text in whereabouts.items() if text},
        }

    def need(self, *roles: Role) -> None:
        """Go on only if the person has one of `roles`.

        Raises:
            Forbidden: They have none of them.

        """
        if self.roles.isdisjoint(roles):
            wanted = " or ".join(sorted(role.value for role in roles))
            raise Forbidden(f"{self.name} needs the role {wanted}", detail=self.name)


async def beside(person: Person, work: Callable[..., T], *args: Any) -> T:
    """Return `work(*args)`, done beside the event loop: how long it takes is for others to say.

    Raises:
        RateLimited: So much of the same person's waits already.

    """
    return await in_turn(person.name, QUICK_NODES + 1, work, *args)
