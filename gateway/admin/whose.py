"""Whose calls something is about, and who else may look at it."""

from gateway.admin.person import Person, Role
from gateway.domain.approvals import ApprovalRequest
from gateway.domain.standing import StandingAnswer

_SEES_ALL = frozenset({Role.APPROVER, Role.ADMIN, Role.AUDITOR})


def is_own(person: Person, asked: ApprovalRequest | StandingAnswer, issuer: str) -> bool:
    """Whether these are this person's calls, under whatever account they come.

    `issuer` is our own: the one of people who sign in here.
    """
    if person.user_id and person.user_id == asked.user_id:
        return True
    owner = asked.principal.removesuffix(f"|{asked.client_id}")
    names = {f"user:{owner}"}
    if owner == f"{issuer}|{asked.subject}":
        names.add(f"user:{asked.subject}")
    return person.name in names


def sees(person: Person, asked: ApprovalRequest | StandingAnswer, issuer: str) -> bool:
    """Whether they may see what such calls say."""
    return not person.roles.isdisjoint(_SEES_ALL) or is_own(person, asked, issuer)
