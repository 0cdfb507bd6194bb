"""What became of one recorded call."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.flow.traces import Step

_HOLDS = frozenset({"approval_required"})
_DECIDED = frozenset({None, "denied", *_HOLDS})


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one step."""

    step: Step
    code: str | None
    """Of the refusal that the agent got; `None`: it got the recorded result."""
    reasons: tuple[str, ...] = ()
    """Codes of why it was refused."""
    executed: bool
    """Whether the call reached its server."""

    @classmethod
    def of(cls, step: Step, answer: Mapping[str, Any], *, executed: bool) -> "Outcome":
        """Read the JSON-RPC message that answered the call of `step`."""
        refusal = _refusal(answer)
        return cls(
            step=step,
            code=None if refusal is None else str(refusal.get("code", "failed")),
            reasons=tuple(reason["code"] for reason in (refusal or {}).get("reasons", ())),
            executed=executed,
        )

    @property
    def name(self) -> str:
        """Of the tool, with its server's."""
        return f"{self.step.server}/{self.step.tool}"

    @property
    def why(self) -> str:
        """Why it was refused; empty if it was not."""
        return ", ".join(sorted(set(self.reasons))) or self.code or ""

    @property
    def is_hold(self) -> bool:
        return self.code in _HOLDS

    @property
    def is_decided(self) -> bool:
        """Whether it ended by a decision, and not because it could not be carried at all."""
        return self.code in _DECIDED


def _refusal(answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what an answer says of why it is no result; an error may have no code of ours."""
    if "result" not in answer:
        data = (answer.get("error") or {}).get("data")
        return data if isinstance(data, Mapping) else {}
    found: Mapping[str, Any] | None = (answer["result"].get("_meta") or {}).get("douane/refusal")
    return found
