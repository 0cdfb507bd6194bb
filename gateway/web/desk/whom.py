"""What the ids that a page of an act names stand for, in the words of the pages that they come from."""

from collections.abc import Awaitable, Callable, Mapping

from gateway.admin.rows import Rows
from gateway.web.desk.frame import Frame, Guest
from gateway.web.desk.rooms import OF_THE_LOG

_Say = Callable[[Frame, Guest, str], Awaitable[str]]


async def in_words(frame: Frame, guest: Guest, chosen: Mapping[str, str]) -> dict[str, str]:
    """Return what each id of `chosen` stands for; nothing of what is not there, or not for the guest."""
    found = {}
    for field, id_ in chosen.items():
        say = _SAYS.get(field)
        if say is not None and id_ and (told := await say(frame, guest, id_)):
            found[field] = told
    return found


async def _person(frame: Frame, guest: Guest, id_: str) -> str:
    rows = await _read(frame, guest, "users.list")
    return next((f"{row['name']} ({row['user']})" for row in rows if row["user_id"] == id_), "")


async def _grant(frame: Frame, guest: Guest, id_: str) -> str:
    rows = await _read(frame, guest, "grants.list")
    told = (f"{row['client']}, for {row['user']}, at {row['resource']}" for row in rows if row["grant"] == id_)  # fmt: skip
    return next(told, "")


async def _client(frame: Frame, guest: Guest, id_: str) -> str:
    told = (await frame.names(guest, [{"client": id_}])).client(id_)
    return "" if told == id_ else str(told)


async def _standing(frame: Frame, guest: Guest, id_: str) -> str:
    rows: Rows = await frame.ask(guest, "approvals.standing", places=False)
    row = next((row for row in rows if row["id"] == id_), None)
    if row is None:
        return ""
    who = (await frame.names(guest, [row])).subject(row["subject"])
    return f"{row['server']}/{row['name']}, for {who}"


async def _stop(frame: Frame, guest: Guest, id_: str) -> str:
    row = await frame.ask(guest, "policy.stopped")
    if row["standstill"] != id_:
        return ""
    return f"Stopped by {row['by']}: {row['note']}"


async def _read(frame: Frame, guest: Guest, command: str) -> Rows:
    """Return rows that only who audits may read: nobody else is on record for having tried."""
    if guest.person.roles.isdisjoint(OF_THE_LOG):
        return []
    rows: Rows = await frame.ask(guest, command)
    return rows


_SAYS: Mapping[str, _Say] = {
    "user": _person,
    "grant": _grant,
    "client": _client,
    "approval": _standing,
    "standstill": _stop,
}
"""By the field of a form."""
