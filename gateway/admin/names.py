"""Names for ids: a client that acts for itself is in the log by its id."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

_ITSELF = "client_credentials"
_REGISTERED = "registered"
_DIGITS = 8
_NAMING = ("principal", "client", "name", "subject")
"""Members of records and answers in which ids of clients stand."""


class Names:
    """What people call the clients whose ids stand in rows; ids that nobody knows stay."""

    def __init__(self, clients: Sequence[Mapping[str, Any]]) -> None:
        self._by_id = {str(one["client_id"]): _named(one) for one in clients}
        # Only an administrator registers one that acts for itself: no stranger takes a name here.
        own = [one for one in clients if one["kind"] == _REGISTERED and _ITSELF in one["grants"]]
        self._acting = {str(one["client_id"]): str(one["name"]) for one in own}

    def principal(self, text: Any) -> Any:
        """Return who a principal is: `agent`, or `emma via Claude` of `ISSUER|emma|ID`.

        Only an issuer, which is a URL, is left out: a provider's `sub` may have bars of its own.
        """
        if not isinstance(text, str):
            return text
        issuer, bar, rest = text.partition("|")
        if not bar or "://" not in issuer:
            return self.subject(text)
        subject, bar, client = rest.rpartition("|")
        if bar and client in self._by_id:
            return f"{self.subject(subject)} via {self.client(client)}"
        return self.subject(rest)

    def subject(self, text: Any) -> Any:
        """Return who a `sub` is: a client that acts for itself by its name, a person as it stands."""
        return self._acting.get(text, text)

    def client(self, text: Any) -> Any:
        return self._by_id.get(text, text)

    def beside(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a record with a name before each id of a client, for people to read."""
        shown = dict(row)
        for member, named in (("principal", self.principal), ("client", self.client)):
            told = named(row.get(member))
            if told != row.get(member):
                shown[member] = f"{told} ({row[member]})"
        return shown

    def id_of(self, given: str | None) -> str | None:
        """Return the id of the one client that acts for itself and is called `given`, or `given`."""
        found = [id_ for id_, name in self._acting.items() if name == given]
        return found[0] if len(found) == 1 else given

    def told(self, member: str = "principal") -> Callable[[Mapping[str, Any]], Any]:
        """Return what shows a row's principal by name."""
        return lambda row: self.principal(row.get(member))


def ids_in(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what in the rows' principals and clients may be a client's id, each once."""
    found: dict[str, None] = {}
    for row in rows:
        for member in _NAMING:
            told = row.get(member)
            if isinstance(told, str) and told:
                found |= dict.fromkeys((told, *told.split("|")[1:]))
    return list(found)


def _named(client: Mapping[str, Any]) -> str:
    """Return a client's name; one that it gave itself in quotes, with what begins its id."""
    name = str(client["name"])
    if client["kind"] == _REGISTERED:
        return name
    return f'"{name}" ({str(client["client_id"])[:_DIGITS]})'
