"""Names for ids in what is printed, as far as the person may see the gateway's clients."""

from gateway.admin.names import Names
from gateway.cli.connection import Connection

_MAY_LOOK = frozenset({"admin", "auditor"})


def names_of(gateway: Connection) -> Names:
    """Return the names of a gateway's clients; none to whoever may not look at them."""
    if _MAY_LOOK.isdisjoint(gateway.call("whoami").get("roles", ())):
        return Names([])
    return Names(gateway.call("clients.list"))
