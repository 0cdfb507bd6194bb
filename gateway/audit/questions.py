"""The ready-made questions about the log: what there is to ask, and what an answer says."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gateway.domain._value import value

Row = dict[str, Any]

QUESTIONS: Mapping[str, str] = {
    "sent-outside": "Who sent data of a server outside, under which policy, who approved it?",
    "who-called": "Who called a tool, through which client, how often?",
    "denied": "What was refused, newest first?",
    "denied-by-rule": "Which rules refused how often?",
    "flows": "Which tools got calls of runs that had seen data of a server?",
    "top": "Who, or what, calls most?",
    "undeclared": "Which clients do not declare their users' tasks?",
    "where-went": "In which records does a value stand?",
    "timeline": "What did a principal do, newest first?",
}
"""Every question by its name."""

LATE_S = 1.0
"""Within this a record that is durable comes into the log."""

_ANSWERS = {"allowed": "allowed", "denied": "denied"}


@value
class Progress:
    """How far the index that answers come from has come."""

    through: int
    """The leaf index of the last record that is in it; -1 before the first."""
    newest: int
    """That of the log's last record."""
    lag_s: float = 0.0
    """For how long the oldest record waits that is durable and has no place in the log yet."""

    @property
    def caught_up(self) -> bool:
        """Whether everything that is in the log is in the index."""
        return self.through >= self.newest

    @property
    def late(self) -> bool:
        """Whether the log itself is further behind than it ever should be."""
        return self.lag_s >= LATE_S

    @property
    def complete(self) -> bool:
        """Whether it has every record that had to have a place by now."""
        return self.caught_up and not self.late


def sending(
    record: Row,
    *,
    source: str,
    same: Sequence[Row],
    approvals: Sequence[Row],
    policies: Sequence[Row],
    signed: int,
) -> Row:
    """Return the whole story of one call that sent something, or was to.

    `record` is the one of before it went out, or its refusal; `same` are all of its decision,
    `approvals` those of its question to a person, `policies` those of its policy.
    """
    ended = next((r for r in same if r["kind"] in {"outcome", "list"}), None)
    last = ended or record
    return {
        "time": record["time"],
        "principal": record.get("principal"),
        "client": record.get("client"),
        "source_ip": record.get("source_ip"),
        "server": record.get("server"),
        "tool": record.get("target"),
        "effect": record.get("effect"),
        "went_out": record["kind"] == "intent",
        "verdict": last.get("verdict") if ended else "unknown",
        "code": last.get("code"),
        "rules": _rules(last),
        "seen": [s for s in _objects(record.get("sources")) if s.get("server") == source],
        "label": record.get("label_before"),
        "destinations": _objects(record.get("destinations")),
        "policy_digest": record.get("policy_digest"),
        "policy_since": _in_force_since(record, policies),
        "approval": _approval(last.get("approval_id"), approvals),
        "run": record.get("run"),
        "decision_id": record.get("decision_id"),
        "record": record["id"],
        "leaf_index": record["leaf_index"],
        "outcome": ended and ended["leaf_index"],
        "signed": last["leaf_index"] < signed,
    }


def finding(record: Row, hashes: Sequence[str]) -> Row | None:
    """Return where in a record one of `hashes` stands; `None` if nowhere."""
    wanted = frozenset(hashes)
    where = sorted({path for path, leaf in _leaves(record, "") if leaf in wanted})
    if not where:
        return None
    told = ("time", "kind", "principal", "client", "server", "target", "verdict", "code", "run")
    return {
        **{name: record.get(name) for name in told},
        "where": where,
        "record": record["id"],
        "leaf_index": record["leaf_index"],
    }


def of_approval(records: Sequence[Row], id_: str) -> list[Row]:
    return [r for r in records if r.get("approval_id") == id_ and r["kind"] == "approval"]


def of_policy(records: Sequence[Row], digest: str) -> list[Row]:
    return [r for r in records if r.get("policy_digest") == digest and r["kind"] == "policy"]


def of_decision(records: Sequence[Row], id_: str) -> list[Row]:
    return [r for r in records if r.get("decision_id") == id_]


def _in_force_since(record: Row, policies: Sequence[Row]) -> str | None:
    """Return when the policy last came into force before the call: it may have done so before."""
    at = record["leaf_index"]
    began = [r for r in policies if r.get("code") == "in_force" and r["leaf_index"] < at]
    return max(began, key=lambda r: r["leaf_index"])["time"] if began else None


def _answer(approvals: Sequence[Row]) -> Row | None:
    """Return the record of the answer that counts: the first one that was not too late.

    An answer is on record before it is given, and once more if somebody else was quicker.
    """
    given: list[Row] = []
    for record in sorted(approvals, key=lambda r: r["leaf_index"]):
        by = record.get("principal"), record.get("method")
        open_ = [r for r in given if (r.get("principal"), r.get("method")) == by]
        if record.get("verdict") == "deny" and open_:
            given.remove(open_[-1])
        elif record.get("code") in _ANSWERS:
            given.append(record)
    return given[0] if given else None


def _approval(id_: str | None, approvals: Sequence[Row]) -> Row | None:
    if id_ is None:
        return None
    answer = _answer(approvals)
    if answer is None:
        return {"id": id_, "answer": None, "by": None, "at": None, "note": None}
    notes = [r["message"] for r in _objects(answer.get("reasons")) if r.get("code") == "note"]
    return {
        "id": id_,
        "answer": _ANSWERS[answer["code"]],
        "by": answer.get("principal"),
        "at": answer["time"],
        "note": notes[0] if notes else None,
    }


def _rules(record: Row) -> list[str]:
    codes = [str(r.get("code")) for r in _objects(record.get("reasons"))]
    return [code for code in codes if code != record.get("code")]


def _objects(content: Any) -> list[Row]:
    if not isinstance(content, list):
        return []
    return [each for each in content if isinstance(each, dict)]


def _leaves(content: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(content, dict):
        for name, inner in content.items():
            yield from _leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(content, list):
        for number, inner in enumerate(content):
            yield from _leaves(inner, f"{path}[{number}]")
    else:
        yield path, content
