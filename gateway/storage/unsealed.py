"""What can be read once the vault is open: questions to people, programs, tasks, answers that stand."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gateway.domain._value import value
from gateway.domain.approvals import ApprovalRules
from gateway.errors import ConfigError, Unsealable
from gateway.ports import ApprovalStore, Ledger
from gateway.ports.late import LateCalls
from gateway.ports.scripts import ScriptStore
from gateway.ports.standing import StandingAnswers
from gateway.storage.ledger import KnownPolicy

Named = Callable[[str, str], str]
"""Says by which name gateways know a policy of that digest, for a call of that server.

Empty where that server was registered, and is so no more, or is another one by now.
"""


@value
class Bounds:
    """Of how much of it there may be, by the configuration in force."""

    approvals: Callable[[], ApprovalRules]
    tasks: Callable[[], int]
    """How many one principal may have open."""


@value
class Unsealed:
    """The stores of it, and where calls are recorded that rest on it."""

    approvals: ApprovalStore
    standing: StandingAnswers
    scripts: ScriptStore
    late: LateCalls
    """Calls whose answer is late."""
    ledger: Callable[[KnownPolicy, Named], Ledger]
    """Gives where calls are written down, as long as that policy decides."""


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Say of what it is that the vault does not open it.

    Raises:
        ConfigError: It was sealed with another key.

    """
    try:
        yield
    except Unsealable as error:
        raise ConfigError(
            f"{what} cannot be read: {error.public}", problems=[error.detail]
        ) from error
