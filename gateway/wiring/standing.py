"""What of sign-in lasts as long as the process, whatever the configuration does meanwhile."""

import os
from collections.abc import Callable

from gateway.config import Config
from gateway.domain._value import value
from gateway.signin.device import Devices
from gateway.signin.journal import Journal
from gateway.signin.links import SetupLinks
from gateway.signin.passwords import Passwords
from gateway.signin.throttle import Attempts
from gateway.signin.transactions import Transactions
from gateway.wiring.foundation import new_id, now
from gateway.wiring.identity import Identity

_EVERY_ROLE = ("admin", "approver", "auditor", "user")


@value
class Standing:
    """What a reload must not forget: attempts that were counted, and the first person's link."""

    links: SetupLinks
    passwords: Passwords
    attempts: Attempts
    transactions: Transactions
    devices: Devices


def standing(config: Callable[[], Config], identity: Identity) -> Standing:
    """Make what lasts as long as the process; `config` gives the configuration in force."""

    def first_groups() -> frozenset[str]:
        roles = config().roles
        return frozenset(group for name in _EVERY_ROLE for group in getattr(roles, name).groups)

    stores = identity.store.identity
    journal = Journal(identity.store.audit, clock=now, new_id=new_id)
    passwords = Passwords(os.urandom)
    return Standing(
        links=SetupLinks(
            stores.users,
            passwords,
            journal,
            public_url=config().public_url,
            first_groups=first_groups,
            clock=now,
            random=os.urandom,
            new_id=new_id,
        ),
        passwords=passwords,
        attempts=Attempts(now, by_address=20, by_target=10),
        transactions=Transactions(stores.browsers, clock=now, random=os.urandom),
        devices=Devices(
            stores.grants,
            journal,
            clock=now,
            new_id=new_id,
            grant_lifetime_s=config().auth.grant_lifetime,
        ),
    )
