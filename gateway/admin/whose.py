"""Whose calls something is about, and who else may look at it."""

from gateway.admin.person import Person, Role
from gateway.domain.approvals import ApprovalRequest
from gateway.domain.identity import PROGRAM
from gateway.domain.standing import StandingAnswer
from gateway.ports.identity import ClientStore

_SEES_ALL = frozenset({Role.APPROVER, Role.ADMIN, Role.AUDITOR})


def is_own(person: Person, asked: ApprovalRequest | StandingAnswer, issuer: str) -> bool:
    """Whether these are this person's calls, under whatever account they come.

    `issuer` is our own: the one of people who sign in here.
    """
    if person.user_id and person.user_id == asked.user_id:
        return True
    owner = asked.principal.removesuffix(f"|{asked.client_id}")
    return person.name in {f"user:{owner}", f"user:{owner.removeprefix(f'{issuer}|')}"}


def registered(person: Person, client_id: str, clients: ClientStore) -> bool:
    """Whether this person registered the client, be it by a program that they registered.

    What it does by itself is as much their word as a call of their own. Where nobody knows who did,
    because a client on the way there is gone, it counts as anybody's own; one that a plane vouches for
    may have been registered nowhere here, and by nobody. An operating system's user for whom no person
    stands is told from nobody; what it registered is theirs whose it became.
    """
    client = clients.find(client_id)
    if client is None or not person.name.startswith("user:"):
        return False
    while client is not None and client.created_by.startswith(PROGRAM):
        client = clients.find(client.created_by.removeprefix(PROGRAM))
    return client is None or client.created_by in {person.name, f"os:{person.os_user}"}


def sees(person: Person, asked: ApprovalRequest | StandingAnswer, issuer: str) -> bool:
    """Whether they may see what such calls say."""
    return not person.roles.isdisjoint(_SEES_ALL) or is_own(person, asked, issuer)
