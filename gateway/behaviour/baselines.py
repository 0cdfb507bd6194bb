"""Everybody's ordinary behaviour, learned from the record, and what departs from it."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from gateway.behaviour.deviations import KINDS, Deviation, Kind, Subject, View
from gateway.behaviour.observation import Observation
from gateway.behaviour.profile import DAY_S, HOUR_S, Profile, key_of
from gateway.behaviour.timeline import Timeline

MOST: Mapping[View, int] = {View.PRINCIPAL: 4000, View.CLIENT: 1000, View.TOOL: 8000}
"""How many of each are remembered; who was not seen for longest is forgotten first."""

MOST_TOLD = 10
"""Deviations of one kind that are told in a day: a policy that refuses everybody is not told of
everybody."""

LAYOUT = 1
"""Of what is written down; with another one all is learned anew."""

_COMMON = 8
"""From so many principals on, what more than half of the active ones do has a common cause."""
_MOST_KEYS = 16
_EVERYBODY = '["all"]'

_Name = tuple[str, ...]
"""A principal's or a client's name; for a tool the principal's, the server's and its own."""
_COUNTED = {
    Kind.RATE: "calls in an hour",
    Kind.TOOL: "tools in a day that were never used before",
    Kind.DESTINATION: "destinations in a day that were never sent to before",
    Kind.REFUSALS: "refused calls in a day",
}


class Baselines:
    """What is usual for whom. Fed the same records in the same order, it is always the same."""

    def __init__(self, *, learning_s: float) -> None:
        """Say nothing of anybody who was not known for `learning_s` seconds."""
        self._learning_s = learning_s
        self._known: dict[View, OrderedDict[_Name, Profile]] = {
            view: OrderedDict() for view in View
        }
        self._timeline = Timeline()
        self._keys: dict[str, float] = {}
        """When a key of destinations' hashes was first seen."""
        self._day, self._told = 0, dict.fromkeys(map(str, Kind), 0)
        self._hour, self._active, self._outside = 0, 0, 0
        """How many principals called in this hour, and for how many of them it is no usual one."""
        self._changed: set[tuple[View, _Name]] = set()

    def learn(self, seen: Observation) -> Sequence[Deviation]:
        """Take one call in; return what it makes out of the ordinary."""
        if not self._timeline.takes(seen.time):
            return ()
        self._turn_to(seen.time)
        name: _Name = (seen.principal,)
        owner = self._profile(View.PRINCIPAL, name, seen)
        known = owner.is_known(seen.time, self._learning_s)
        if owner.learn(seen, new_keys=self._new_keys(seen)):
            self._active += 1
            self._outside += known and owner.is_out_of_hours
        found = self._odd(View.PRINCIPAL, name, owner, owner, seen)
        if seen.tool and not seen.refused:
            # Only what was let through: names that a caller makes up are not remembered.
            name = (seen.principal, seen.server, seen.tool)
            profile = self._profile(View.TOOL, name, seen)
            profile.count(seen)
            found += self._odd(View.TOOL, name, profile, owner, seen)
        if seen.client:
            name = (seen.client,)
            profile = self._profile(View.CLIENT, name, seen)
            profile.count(seen)
            # What was told of one of its users is not told of the client again.
            profile.said |= owner.said
            found += self._odd(View.CLIENT, name, profile, profile, seen)
        return found

    def size(self) -> Mapping[str, int]:
        """Return how many are known of each view."""
        return {view.value: len(known) for view, known in self._known.items()}

    def learned(self) -> Mapping[str, int]:
        """Return of how many enough is known to tell what departs from it."""
        now = self._timeline.newest
        return {
            view.value: sum(one.is_known(now, self._learning_s) for one in known.values())
            for view, known in self._known.items()
        }

    def changes(self) -> Mapping[str, bytes | None]:
        """Return what is to be written down since `saved`, by its key; `None` is to be deleted."""
        if not self._changed:
            return {}
        rows = {_row(view, name): self._dumped(view, name) for view, name in sorted(self._changed)}
        return {_EVERYBODY: self._everybody(), **rows}

    def saved(self) -> None:
        """Note that all changes are written down."""
        self._changed.clear()

    def restore(self, rows: Iterable[tuple[str, bytes]]) -> None:
        """Take up what was written down, in any order.

        Raises:
            ValueError: It was written by a version that wrote something else down.

        """
        kept: list[tuple[View, _Name, Profile]] = []
        for key, row in rows:
            content = orjson.loads(row)
            if key == _EVERYBODY:
                if content[0] != LAYOUT:
                    raise ValueError(f"layout {content[0]} of baselines is not {LAYOUT}")
                _, line, self._keys, self._day, self._told, hours = content
                self._timeline.load(line)
                self._hour, self._active, self._outside = hours
            else:
                view, *name = orjson.loads(key)
                kept.append((View(view), tuple(name), Profile.load(content)))
        for view, named, profile in sorted(kept, key=lambda one: one[2].leaf_index):
            self._known[view][named] = profile

    def _profile(self, view: View, name: _Name, seen: Observation) -> Profile:
        known = self._known[view]
        profile = known.get(name)
        if profile is None:
            profile = known[name] = Profile(seen.time)
            if len(known) > MOST[view]:
                gone, _ = known.popitem(last=False)
                self._changed.add((view, gone))
        else:
            known.move_to_end(name)
        self._changed.add((view, name))
        return profile

    def _odd(
        self, view: View, name: _Name, profile: Profile, telling: Profile, seen: Observation
    ) -> list[Deviation]:
        """Return what is to be told of `profile`; that it was is kept with `telling`."""
        found: list[Deviation] = []
        if self._timeline.is_quiet or not profile.is_known(seen.time, self._learning_s):
            return found
        for kind in profile.odd(KINDS[view]):
            if kind.value in telling.said or (kind is Kind.HOUR and self._is_common()):
                continue
            telling.said.add(kind.value)
            self._told[kind.value] += 1
            if self._told[kind.value] <= MOST_TOLD:
                found.append(_deviation(kind, _subject(view, name), profile, seen))
        return found

    def _is_common(self) -> bool:
        return self._outside >= _COMMON and self._outside * 2 > self._active

    def _turn_to(self, time: float) -> None:
        hour, day = int(time // HOUR_S), int(time // DAY_S)
        if hour != self._hour:
            self._hour, self._active, self._outside = hour, 0, 0
        if day != self._day:
            self._day, self._told = day, dict.fromkeys(map(str, Kind), 0)

    def _new_keys(self, seen: Observation) -> frozenset[str]:
        """Return the keys that hashes have not been made with for long: all of theirs are new."""
        found = set()
        for place in seen.destinations:
            key = key_of(place)
            if not key:
                continue  # a server's name
            since = self._keys.setdefault(key, seen.time)
            if len(self._keys) > _MOST_KEYS:
                del self._keys[next(iter(self._keys))]
            if seen.time - since < self._learning_s:
                found.add(key)
        return frozenset(found)

    def _everybody(self) -> bytes:
        hours = [self._hour, self._active, self._outside]
        content: list[Any] = [
            LAYOUT, self._timeline.dump(), self._keys, self._day, self._told, hours,
        ]  # fmt: skip
        return orjson.dumps(content)

    def _dumped(self, view: View, name: _Name) -> bytes | None:
        profile = self._known[view].get(name)
        return None if profile is None else orjson.dumps(profile.dump())


def _row(view: View, name: _Name) -> str:
    return orjson.dumps([view.value, *name]).decode()


def _subject(view: View, name: _Name) -> Subject:
    if view is View.PRINCIPAL:
        return Subject(view=view, principal=name[0])
    if view is View.CLIENT:
        return Subject(view=view, client=name[0])
    principal, server, tool = name
    return Subject(view=view, principal=principal, server=server, tool=tool)


def _deviation(kind: Kind, subject: Subject, profile: Profile, seen: Observation) -> Deviation:
    usual = profile.usual(kind)
    return Deviation(
        kind=kind,
        subject=subject,
        time=seen.time,
        leaf_index=seen.leaf_index,
        record=seen.record,
        message=sentence(kind, subject, profile, usual),
        usual=usual,
        seen=profile.seen(kind),
        cases=profile.cases(kind),
        names=profile.names(kind),
    )


def sentence(kind: Kind, subject: Subject, profile: Profile, usual: Mapping[str, Any]) -> str:
    """Return what was seen, and what was usual."""
    if kind is Kind.HOUR:
        return (
            f"{subject}: {profile.seen(kind)} calls between {profile.hour:02}:00 and "
            f"{profile.hour:02}:59 UTC, far from the usual hours of {usual['days']} days"
        )
    return (
        f"{subject}: {profile.seen(kind)} {_COUNTED[kind]}; on {usual['days']} days it was "
        f"{usual['median']:g} as a rule and {usual['most']} at most"
    )
