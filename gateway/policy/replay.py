"""Recorded decisions, put to a policy that need not be the one that made them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from gateway.audit.rebuilt import Path, Rebuilt, rebuilt
from gateway.domain._value import value
from gateway.domain.decisions import Decision
from gateway.errors import PolicyUnavailable
from gateway.policy.archive import PolicyArchive
from gateway.policy.building import wasm_engine
from gateway.policy.bundle import compile_plan, prepare
from gateway.policy.dataflow import looks_of
from gateway.policy.looks import Look, needed
from gateway.policy.opa import Opa
from gateway.policy.places import Held, reasons_at, rules_of
from gateway.policy.settings import PolicySettings
from gateway.policy.sources import Sources, read_sources
from gateway.policy.toolchain import find_opa
from gateway.policy.trace import fired
from gateway.policy.wasm import DECISION, WasmEngine

_UNDECIDED = "error"


class Finding(StrEnum):
    """What a replay says of one decision."""

    SAME = "same"
    CHANGED = "changed"
    INEXACT = "inexact"
    """The answer may depend on what no record says, so none is given."""


@value
class Answer:
    """What a policy said, without its sentences: they may name what is not recorded."""

    verdict: str
    """`error` where there was no usable answer."""
    codes: tuple[str, ...] = ()
    obligations: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def recorded(cls, record: Mapping[str, Any]) -> "Answer":
        """Return what policy said by a record: a refusal's own verdict need not be that."""
        obligations = tuple(record.get("obligations", ()))
        refused = record["question"].get("answer")
        if refused is not None:
            return cls(
                verdict=refused["verdict"],
                codes=tuple(sorted(refused["reasons"])),
                obligations=obligations,
            )
        codes = sorted(reason["code"] for reason in record.get("reasons", ()))
        return cls(verdict=record["verdict"], codes=tuple(codes), obligations=obligations)

    @classmethod
    def of(cls, decision: Decision) -> "Answer":
        """Return what `decision` says."""
        return cls(
            verdict=decision.verdict.value,
            codes=tuple(sorted(reason.code for reason in decision.reasons)),
            obligations=tuple({"duty": o.duty.value, **o.detail} for o in decision.obligations),
        )

    @property
    def members(self) -> dict[str, Any]:
        """The answer as a JSON object."""
        told: dict[str, Any] = {"verdict": self.verdict, "reasons": list(self.codes)}
        if self.obligations:
            told["obligations"] = [dict(one) for one in self.obligations]
        return told


@value
class Compared:
    """One recorded decision beside the answer of another policy."""

    finding: Finding
    before: Answer
    after: Answer | None
    """`None` for one that is `INEXACT`."""
    lacking: tuple[str, ...] = ()
    """Members of the question that no record says and the answer may depend on: `arguments.to`."""

    @property
    def members(self) -> dict[str, Any]:
        """What was found, as a JSON object."""
        return {
            "finding": self.finding.value,
            "before": self.before.members,
            "after": None if self.after is None else self.after.members,
            "lacking": list(self.lacking),
        }


class Trial:
    """A policy that nobody is held to, asked what it would have said. One thread's at a time."""

    def __init__(
        self, engine: WasmEngine | None, looks: frozenset[Look], digest: str, clock: "_Then"
    ) -> None:
        self._engine = engine
        self._looks = looks
        self.digest = digest
        self._clock = clock

    @classmethod
    def of(
        cls,
        sources: Sources | PolicySettings,
        config: Mapping[str, Any],
        *,
        opa: Opa | None = None,
    ) -> "Trial":
        """Compile a policy, which takes some seconds. Its own tests are not run.

        Raises:
            ConfigError: It cannot be used, or not in this process.

        """
        opa = opa or find_opa()
        if isinstance(sources, PolicySettings):
            sources = read_sources(sources, opa)
        policy = prepare(opa, sources, config, tested=False)
        clock = _Then()
        if "decision" not in policy.entrypoints:
            return cls(None, frozenset(), policy.digest, clock)
        looks = looks_of(compile_plan(opa, policy), DECISION)
        return cls(wasm_engine(opa, policy, clock), looks, policy.digest, clock)

    def compare(self, record: Mapping[str, Any]) -> Compared | None:
        """Put the decision of `record` to the policy; `None` where it keeps no question."""
        asked = rebuilt(record)
        if asked is None:
            return None
        before = Answer.recorded(record)
        lacking = self._lacking(asked)
        if lacking:
            return Compared(finding=Finding.INEXACT, before=before, after=None, lacking=lacking)
        after = self.answer(asked)
        finding = Finding.SAME if before == after else Finding.CHANGED
        return Compared(finding=finding, before=before, after=after)

    def answer(self, asked: Rebuilt) -> Answer:
        """Return what the policy says at the time of the question."""
        if self._engine is None:
            return Answer(verdict="deny", codes=("no_policy",))
        self._clock.take(asked.question)
        try:
            return Answer.of(self._engine.decide(asked.question))
        except PolicyUnavailable:
            return Answer(verdict=_UNDECIDED)

    def _lacking(self, asked: Rebuilt) -> tuple[str, ...]:
        return tuple(map(_spelled, needed(self._looks, asked.question, asked.unknown)))


def explained(archive: PolicyArchive, record: Mapping[str, Any]) -> dict[str, Any]:
    """Put a recorded decision to the policy that made it once more, and say which rules held.

    `finding` is that of the comparison; `gone` where the policy's text is not kept, `no_question`
    where the record keeps no question. `places` are where the reasons of its answer stand, as
    `reasons_at` returns them: always where the text is kept. `rules` are all that held, as
    `file:line: name`, where that can be told exactly.

    Raises:
        ConfigError: The policy cannot be evaluated here.

    """
    digest = str(record.get("policy_digest", ""))
    told: dict[str, Any] = {"decision_id": record.get("decision_id"), "policy_digest": digest}
    asked, kept = rebuilt(record), archive.find(digest)
    if kept is None:
        return {**told, "finding": "no_question" if asked is None else "gone"}
    sources, config = kept
    if asked is None:
        return {**told, "finding": "no_question", "places": rules_of(sources, record)}
    opa = find_opa()
    compared = Trial.of(sources, config, opa=opa).compare(record)
    if compared is None or compared.finding is Finding.INEXACT:
        found = {} if compared is None else compared.members
        return {**told, **found, "places": _places(sources, record, None)}
    # What the policy cannot depend on changes nothing of which rules hold for the rest.
    held = fired(opa, sources, config, asked.question)
    same = compared.finding is Finding.SAME
    return {
        **told,
        **compared.members,
        "places": _places(sources, record, held if same else None),
        "rules": [f"{file}:{row}: {rule}" for file, row, rule in held],
    }


def placed(archive: PolicyArchive, record: Mapping[str, Any]) -> dict[str, Any]:
    """Say by which rules a record's reasons can have come about, by the policy's text alone.

    Nothing is asked, so that it takes milliseconds. `finding` is `not_asked`, or `gone` where the
    text is not kept; `rules` as `rules_of` returns them.
    """
    digest = str(record.get("policy_digest", ""))
    kept = archive.find(digest)
    return {
        "decision_id": record.get("decision_id"),
        "policy_digest": digest,
        "finding": "gone" if kept is None else "not_asked",
        "rules": [] if kept is None else rules_of(kept[0], record),
    }


def _places(
    sources: Sources, record: Mapping[str, Any], held: Sequence[Held] | None
) -> list[dict[str, Any]]:
    """Return where what policy said stands; of what the gateway refused by itself, nothing."""
    own = Answer.recorded(record)
    said = [one for one in record.get("reasons", ()) if one["code"] in own.codes]
    if own.verdict != record["verdict"] and not said:
        return []
    return reasons_at(sources, {"verdict": own.verdict, "reasons": said}, held)


class _Then:
    """A clock that stands at the time of the question that is asked."""

    def __init__(self) -> None:
        self._at = 0.0

    def take(self, question: Mapping[str, Any]) -> None:
        self._at = datetime.fromisoformat(question["context"]["time"]).timestamp()

    def __call__(self) -> float:
        return self._at


def _spelled(path: Path) -> str:
    return ".".join(path).replace(".*", "[*]")
