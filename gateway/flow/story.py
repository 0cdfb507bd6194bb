"""The story of a run, told from its audit records: what was called, in which order, what came of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gateway.domain._value import value

_REFUSED = frozenset({"deny", "error", "ask"})
_STARTS = "intent"
_ASKED = "approval"
_CALLS = frozenset({"intent", "outcome", "list"})
_TOLD = frozenset({"intent", "outcome", "list", "run", "approval"})
"""Kinds of records that are of a run."""
_CUT_SHORT = frozenset({"client_gone", "outcome_unknown"})
"""Codes of calls whose end nobody was there to see."""

Words = Mapping[str, str]
"""A label in the contract's form."""


@value
class Step:
    """One call, or one thing that a person or a host did with the run."""

    seq: int
    """Its place in the story, from 1."""
    time: str
    """RFC 3339, UTC."""
    server: str
    name: str
    """The target; the method, where there is none."""
    method: str
    effect: str
    """Empty for what is no tool."""
    verdict: str
    """`allow`, `ask`, `deny`, `error`; `unknown` for a call that has not ended, or was cut short."""
    code: str
    """Why it was refused, as the caller was told; empty for what was not."""
    reasons: tuple[str, ...]
    """Codes of what policy gave for it."""
    label_before: Words | None
    label_because: str
    """Why that is stricter than what the run has read: `unknown_run`; empty where it is not."""
    label_after: Words | None
    destinations: Sequence[Mapping[str, Any]]
    decision_id: str
    record: str
    """Id of the record that says how it ended."""
    parent: str
    origin: str = ""
    """Where it entered: `direct`, `sandbox` for what a program called, and so on."""
    script_sha256: str = ""
    """Of the program that was run, or that made the call."""
    children: "tuple[Step, ...]" = ()
    """What was asked for while it was under way."""

    @property
    def refused(self) -> bool:
        """Whether it was stopped."""
        return self.verdict in _REFUSED

    @property
    def why(self) -> str:
        """The most telling code of a refusal: policy's own, before that of the refusal."""
        told = (code for code in self.reasons if code != self.code)
        return next(told, self.code)


@value
class Story:
    """What happened in a run, oldest first."""

    run: str
    steps: tuple[Step, ...]
    left_out: bool = False
    """Whether there were more steps before these."""
    principals: tuple[str, ...] = ()
    """Whose calls these are."""

    def walk(self) -> Iterator[tuple[int, Step]]:
        """Yield every step with how deep it is nested, parents first."""
        yield from _walk(self.steps, 0)


def tell(
    run: str, records: Iterable[Mapping[str, Any]], *, most: int = 1000, cut: bool = False
) -> Story:
    """Return the story that a run's records tell; they come oldest first.

    The protocol's own messages (a handshake, a list) are left out unless they were refused. Of more
    than `most` steps the last ones are told. `cut` is whether there were more records before these.
    """
    joined = _joined(records)
    kept = joined[-most:]
    steps = [_step(number, fields) for number, fields in enumerate(kept, 1)]
    callers = {_text(fields, "principal") for fields in kept if fields["kind"] in _CALLS} - {""}
    return Story(
        run=run,
        steps=_nested(steps),
        left_out=cut or len(joined) > most,
        principals=tuple(sorted(callers)),
    )


def rows(story: Story) -> list[dict[str, Any]]:
    """Return a story's steps as JSON objects, parents before what is nested in them."""
    return [
        {
            "run": story.run,
            "seq": step.seq,
            "depth": depth,
            "time": step.time,
            "server": step.server,
            "target": step.name,
            "method": step.method,
            "effect": step.effect or None,
            "verdict": step.verdict,
            "code": step.code or None,
            "reasons": list(step.reasons),
            "label_before": step.label_before,
            "label_because": step.label_because or None,
            "label_after": step.label_after,
            "destinations": list(step.destinations),
            "decision_id": step.decision_id,
            "record": step.record,
            "origin": step.origin or None,
            "script_sha256": step.script_sha256 or None,
        }
        for depth, step in story.walk()
    ]


def _joined(records: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return one mapping a call: what its intent and its outcome say together.

    What a person did is one record. It may name the decision of a call, and does not change how that
    ended. That a question was filed is told by the call that was refused.
    """
    calls: dict[str, dict[str, Any]] = {}
    for record in records:
        kind = _text(record, "kind")
        if kind not in _TOLD or (kind == _ASKED and _text(record, "code") == "asked"):
            continue
        of = "" if kind == _ASKED else _text(record, "decision_id")
        key = of or _text(record, "id")
        before = calls.get(key, {})
        if record["kind"] == _STARTS and before:
            continue
        calls[key] = before | dict(record)
    return [fields for fields in calls.values() if _matters(fields)]


def _matters(fields: Mapping[str, Any]) -> bool:
    if fields["kind"] in {"run", "approval"} or _text(fields, "verdict") in _REFUSED:
        return True
    return "target" in fields and fields["kind"] != "list"


def _step(seq: int, fields: Mapping[str, Any]) -> Step:
    under_way = fields["kind"] == _STARTS
    reasons = fields.get("reasons")
    found = reasons if isinstance(reasons, list) else []
    verdict, code = _text(fields, "verdict"), _text(fields, "code")
    server, target = _text(fields, "server"), _text(fields, "target")
    if fields["kind"] == _ASKED:
        # What a person said went to no server; that they could say it is not what they said.
        server = target = ""
        found = []  # policy gave none of them
        verdict = "deny" if code == "denied" else verdict
    return Step(
        seq=seq,
        time=_text(fields, "time"),
        server=server,
        name=target or _text(fields, "method"),
        method=_text(fields, "method"),
        effect=_text(fields, "effect"),
        verdict="unknown" if under_way or code in _CUT_SHORT else verdict,
        code="outcome_unknown" if under_way else code,
        reasons=tuple(_text(one, "code") for one in found if isinstance(one, dict)),
        label_before=_words(fields, "label_before"),
        label_because=_text(fields, "label_because"),
        label_after=_words(fields, "label_after") or _words(fields, "label_before"),
        destinations=_mappings(fields, "destinations"),
        decision_id=_text(fields, "decision_id"),
        record=_text(fields, "id"),
        parent=_text(fields, "parent"),
        origin=_text(fields, "origin"),
        script_sha256=_text(fields, "script_sha256"),
    )


def _nested(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Put every step under the one that its `parent` names, a decision or a call before it."""
    places = {step.decision_id: step.seq for step in steps if step.decision_id}
    under: dict[int, list[Step]] = {}
    roots: list[Step] = []
    for step in steps:
        place = places.get(step.parent, places.get(f"d_{step.parent}", 0)) if step.parent else 0
        # Only what began earlier can have asked for it, so that nothing is its own parent.
        (under.setdefault(place, []) if 0 < place < step.seq else roots).append(step)

    def grown(step: Step) -> Step:
        children = tuple(grown(child) for child in under.get(step.seq, ()))
        return replace(step, children=children) if children else step

    return tuple(grown(step) for step in roots)


def _walk(steps: Sequence[Step], depth: int) -> Iterator[tuple[int, Step]]:
    for step in steps:
        yield depth, step
        yield from _walk(step.children, depth + 1)


def _text(fields: Mapping[str, Any], name: str) -> str:
    found = fields.get(name)
    return found if isinstance(found, str) else ""


def _words(fields: Mapping[str, Any], name: str) -> Words | None:
    found = fields.get(name)
    if not isinstance(found, dict):
        return None
    return {part: _text(found, part) for part in ("integrity", "confidentiality")}


def _mappings(fields: Mapping[str, Any], name: str) -> tuple[Mapping[str, Any], ...]:
    found = fields.get(name)
    return tuple(one for one in found if isinstance(one, dict)) if isinstance(found, list) else ()
