"""Run twice by `races`: tries, as soon as it is told a number, to use that round's things up."""

import sys
import time

from gateway.domain.identity import Client
from gateway.storage.identity.store import IdentityStores
from tests.storage.identity.identities import NOW, token
from tests.storage.identity.places import opened
from tests.storage.suite import client

AT = NOW + 1


def attempts(stores: IdentityStores, number: int, me: str) -> list[bool]:
    """Return whether this process won, one by one in the order of `races.SUBJECTS`."""
    grants, connections = stores.grants, stores.connections
    server, mine = f"s{number}", f"{me}{number}"
    return [
        grants.redeem_code(f"code{number}", token(f"first {mine}", of=f"c{number}"), at=AT),
        grants.rotate(f"token{number}", token(f"next {mine}", of=f"t{number}"), sealed=mine, at=AT),
        grants.redeem_device(f"device{number}", None, at=AT),
        stores.browsers.finish(f"x{number}", now=AT),
        stores.users.redeem_link(f"link{number}", mine, now=AT) is not None,
        grants.first_use("issuer", f"assertion{number}", until=AT + 60),
        connections.lease("u_emma", server, by=mine, now=AT, until=AT + 60),
        stores.signing_keys.activate_key(f"key{number}", at=AT),
        is_added(stores, client(mine, f"name{number}")),
    ]


def is_added(stores: IdentityStores, new: Client) -> bool:
    try:
        stores.clients.add(new)
    except ValueError:
        return False
    return True


def main(place: str, me: str) -> None:
    stores = opened(place, clock=time.time)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        if command == "race":
            won = attempts(stores, int(argument), me)
            answer = " ".join("won" if one else "lost" for one in won)
        else:
            stores.follow()
            answer = "revoked" if stores.grants.is_revoked(argument, "") else "live"
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    stores.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
