"""What a call was decided on that may change before it is on record, and what it uses up."""

from enum import StrEnum

from gateway.domain._value import value
from gateway.domain.approvals import ApprovalId
from gateway.domain.flow import RunId
from gateway.domain.scripts import ScriptId
from gateway.domain.tools import Pinned, Profile


class Premise(StrEnum):
    """Each thing that may have changed."""

    RUN = "run"
    PIN = "pin"
    POLICY = "policy"
    APPROVAL = "approval"
    STANDING = "standing"
    BUDGET = "budget"
    PEOPLE = "people"


@value
class Premises:
    """What a decision rests on. Whoever writes the call down compares it, or the call is decided again."""

    run: RunId
    version: int
    """`Run.version`, as the run was judged."""
    policy: str
    """Digest of the policy that decided."""
    people: int | None
    """`Principal.people`, of whoever makes the call."""
    pinned: Pinned | None = None
    """The definition; `None` for what has none, and for what we say of ourselves."""
    profile: Profile | None = None
    """Of the pin."""
    yes: ApprovalId | None = None
    """A person's answer by which it goes out."""
    standing: tuple[ApprovalId, ...] = ()
    """Answers that stand, by which a person chose where it goes."""
    carries: bool = True
    """Whether it says or shows anything that is remembered of its run: what does not is said anywhere."""


@value
class Uses:
    """What a call uses up by going out. Of many that would use the same, one is recorded."""

    yes: ApprovalId | None = None
    """An answer that is good for one call."""
    script: ScriptId | None = None
    """The program whose budget it is of."""
    grants: tuple[int | None, ...] = ()
    """Places of its program's grants: the first that has a call left is used."""


NOTHING = Uses()
