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
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_GAP = re.compile(r"%[#+\-0-9. ]*[a-zA-Z]")
"""What `sprintf` puts something in the place of."""


@value
class Place:
    """A reason in the text of a policy."""

    file: str
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


def places_of(sources: Sources, codes: Collection[str]) -> Iterator[Place]:
    """Yield where rules have one of `codes`, in the order of the files."""
    for path in sources.rego:
        lines = sources.files[path].decode(errors="replace").splitlines()
        rule = ""
        for number, line in enumerate(lines, 1):
            if head := _HEAD.match(line):
                rule = head[1]
            for found in _CODE.finditer(line):
                if found[1] in codes:
                    texts = _texts(lines, number - 1)
                    yield Place(file=path, line=number, rule=rule, code=found[1], texts=texts)


def rules_of(sources: Sources, record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rules that can have given a record's reasons: `file`, `line`, `rule`, `code`.

    Of each reason those that say its very words, where there are any; of a refusal no rule that only
    asks, and the other way around.
    """
    reasons = [(str(one["code"]), str(one["message"])) for one in record.get("reasons", ())]
    known = list(places_of(sources, frozenset(code for code, _ in reasons)))
    found: dict[tuple[str, int], Place] = {}
    for code, message in reasons:
        own = [place for place in known if place.code == code]
        for place in _nearest(own, str(record.get("verdict", "")), message):
            found.setdefault((place.file, place.line), place)
    return [
        {"file": one.file, "line": one.line, "rule": one.rule, "code": one.code}
        for one in found.values()
    ]


def _nearest(places: Sequence[Place], verdict: str, message: str) -> Sequence[Place]:
    of_verdict = [place for place in places if place.rule.rpartition("_")[2] == verdict]
    fitting = [place for place in of_verdict or places if place.says(message)]
    return [place for place in fitting if place.texts] or fitting


def _texts(lines: Sequence[str], at: int) -> tuple[str, ...]:
    """Return the texts of the message of the rule whose reason stands in line `at`."""
    for line in _to_the_end(lines, at):
        if (found := _MESSAGE.search(line)) and '"' in found[1]:
            told = (_read(text) for text in _TEXT.findall(found[1]))
            return tuple(part for text in told for part in _GAP.split(text) if part)
    return ()


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
