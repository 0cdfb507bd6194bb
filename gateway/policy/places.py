"""Where in a policy's text the reasons of an answer stand: read, so that nothing has to be asked."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from gateway.domain._value import value
from gateway.policy.sources import Sources

_CODE = re.compile(r'"code":\s*"([^"]*)"')
_HEAD = re.compile(r"(?:default\s+)?([A-Za-z_]\w*)")
_MESSAGE = re.compile(r'(?:"message":|\bmessage\s*:=)(.*)')
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|[(\[{}\]),]')
"""A text, or what a value may end at."""
_GAP = re.compile(r"%[#+\-0-9. ]*[a-zA-Z]")
"""What `sprintf` puts something in the place of."""
_DECISION = "decision"

Held = tuple[str, int, str]
"""A rule that held: its file, the line where it begins, its name."""


@value
class Place:
    """A reason in the text of a policy."""

    file: str
    head: int
    """The line in which its rule begins."""
    line: int
    rule: str
    """The name of the rule that it stands in: `deny`."""
    code: str
    texts: tuple[str, ...]
    """What its message says for certain, in its order; nothing where that is put together elsewhere."""

    def says(self, message: str) -> bool:
        """Whether the message may be this one's."""
        at = 0
        for text in self.texts:
            found = message.find(text, at)
            if found < 0:
                return False
            at = found + len(text)
        return True

    def is_of(self, held: Collection[Held]) -> bool:
        """Whether one of these is the rule that it stands in."""
        return any(file == self.file and self.head <= row <= self.line for file, row, _ in held)

    @property
    def members(self) -> dict[str, Any]:
        """The place as a JSON object."""
        return {"file": self.file, "line": self.line, "rule": self.rule, "code": self.code}


def places_of(sources: Sources, codes: Collection[str]) -> Iterator[Place]:
    """Yield where rules have one of `codes`, in the order of the files."""
    for path in sources.rego:
        lines = sources.files[path].decode(errors="replace").splitlines()
        rule, begins = "", 0
        for number, line in enumerate(lines, 1):
            if head := _HEAD.match(line):
                rule, begins = head[1], number
            for found in _CODE.finditer(line):
                if found[1] in codes:
                    texts = _texts(lines, number - 1)
                    yield Place(
                        file=path, head=begins, line=number, rule=rule, code=found[1], texts=texts
                    )


def rules_of(sources: Sources, record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rules that can have given a record's reasons: `file`, `line`, `rule`, `code`.

    Of each reason those that say its very words, where there are any; of a refusal no rule that only
    asks, and the other way around.
    """
    return [place.members for place in _saying(sources, record)]


def reasons_at(
    sources: Sources, record: Mapping[str, Any], held: Sequence[Held] | None
) -> list[dict[str, Any]]:
    """Return where the reasons of policy's answer stand, as `rules_of` does, in its order.

    `record` says what policy said: its verdict, and its reasons. `held` are the rules that held, where
    it is known that this answer came of them: a reason whose rule did not hold is not told then, and
    what no text says whole is told by the rules that are called after the verdict.
    """
    codes = frozenset(str(one["code"]) for one in record.get("reasons", ()))
    # What a message said may be covered in the record; its code never is.
    places = _saying(sources, record) or list(places_of(sources, codes))
    if held is None:
        return [place.members for place in places]
    holding = [place for place in places if place.is_of(held)]
    untold = codes - {place.code for place in holding}
    if holding and not untold:
        return [place.members for place in holding]
    code = min(untold) if len(untold) == 1 else ""
    others = [
        {"file": file, "line": row, "rule": rule, "code": code}
        for file, row, rule in _bearing(held, str(record.get("verdict", "")))
        if not any(place.is_of([(file, row, rule)]) for place in holding)
    ]
    return [place.members for place in holding] + others or [place.members for place in places]


def _bearing(held: Sequence[Held], verdict: str) -> Sequence[Held]:
    """Return the rules that are called after a verdict (`deny`, `flow_ask`), or the decision itself."""
    own = [one for one in held if _bears(one[2], verdict)]
    return own or [one for one in held if one[2] == _DECISION]


def _bears(rule: str, verdict: str) -> bool:
    return rule.rpartition("_")[2] == verdict


def _saying(sources: Sources, record: Mapping[str, Any]) -> list[Place]:
    reasons = [(str(one["code"]), str(one["message"])) for one in record.get("reasons", ())]
    known = list(places_of(sources, frozenset(code for code, _ in reasons)))
    found: dict[tuple[str, int], Place] = {}
    for code, message in reasons:
        own = [place for place in known if place.code == code]
        for place in _nearest(own, str(record.get("verdict", "")), message):
            found.setdefault((place.file, place.line), place)
    return list(found.values())


def _nearest(places: Sequence[Place], verdict: str, message: str) -> Sequence[Place]:
    of_verdict = [place for place in places if _bears(place.rule, verdict)]
    fitting = [place for place in of_verdict or places if place.says(message)]
    return [place for place in fitting if place.texts] or fitting


def _texts(lines: Sequence[str], at: int) -> tuple[str, ...]:
    """Return the texts of the message of the rule whose reason stands in line `at`."""
    for line in _to_the_end(lines, at):
        if (found := _MESSAGE.search(line)) and '"' in found[1]:
            told = (_read(text) for text in _of_value(found[1]))
            return tuple(part for text in told for part in _GAP.split(text) if part)
    return ()


def _of_value(line: str) -> Iterator[str]:
    """Yield the texts in a line up to where the value ends: a body behind it says others."""
    depth = 0
    for piece in _PIECE.findall(line):
        if piece in "([{":
            depth += 1
        elif piece in ")]},":
            if depth == 0:
                return
            depth -= piece != ","
        else:
            yield piece


def _to_the_end(lines: Sequence[str], at: int) -> Iterator[str]:
    """Yield the rest of a rule, whose last line alone begins where its first one does."""
    yield lines[at]
    for line in lines[at + 1 :]:
        if line[:1].strip():
            return
        yield line


def _read(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError:
        return ""
