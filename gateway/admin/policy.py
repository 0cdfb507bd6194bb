"""What people do with policy: name it, compile it, test it, and ask it a question."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gateway.admin.journal import Journal
from gateway.admin.person import EVERY_ROLE, Person, Role
from gateway.admin.rows import Row
from gateway.ports import PolicyEngine


class PolicyFiles(Protocol):
    """The policy in its configured place, which need not be the one in force yet."""

    async def check(self) -> Mapping[str, Sequence[str]]:
        """Compile it: `{"problems", "notices"}`, lists of `file:line: text`.

        Raises:
            ConfigError: There is no OPA to compile it with.

        """
        ...

    async def rules(self) -> Mapping[str, Any]:
        """Read what is there: its `digest`, and of each of its `files` the `codes` that it can give.

        Both are empty where the policy is somebody's server's.

        Raises:
            ConfigError: It cannot be read.

        """
        ...

    async def test(self) -> Mapping[str, Any]:
        """Run its own tests: `{"passed": number, "failed": number, "failures": [text], "notices"}`.

        A shipped test that says otherwise because of a rule beside the shipped ones has not failed.
        It is counted as `changed`, and `notices` say which rule it is.

        Raises:
            ConfigError: There is no OPA to run them with.

        """
        ...


async def check_files(files: PolicyFiles) -> Row:
    """Return `{"ok", "problems", "notices"}`; what is remarkable is not wrong."""
    found = await files.check()
    return {
        "ok": not found["problems"],
        "problems": list(found["problems"]),
        "notices": list(found["notices"]),
    }


async def test_files(files: PolicyFiles) -> Row:
    """Return `{"ok"}` and what `PolicyFiles.test` does; a policy without tests is not ok."""
    found = await files.test()
    return {"ok": found["failed"] == 0 and found["passed"] + found["changed"] > 0, **found}


class PolicyInForce(PolicyEngine, Protocol):
    @property
    def candidate_digest(self) -> str | None:
        """Names the candidate beside it; `None` if none is asked, empty if it cannot be used."""
        ...


class PolicyDesk:
    """Use cases over the policy in force and its files. Results are plain JSON.

    What somebody has policy say, or has OPA do, is on record before they are told.
    """

    def __init__(self, engine: PolicyInForce, files: PolicyFiles, journal: Journal) -> None:
        self._engine = engine
        self._files = files
        self._journal = journal

    async def status(self, person: Person) -> Row:
        """Return the `digest` of the policy in force, and that of the `candidate` if one is asked."""
        person.need(*EVERY_ROLE)
        return {"digest": self._engine.digest, "candidate": self._engine.candidate_digest}

    async def check(self, person: Person) -> Row:
        """Compile the files: `{"ok", "problems", "notices"}`.

        Raises:
            AuditUnavailable: It could not be recorded; so for `test` and `eval`.

        """
        person.need(*EVERY_ROLE)
        row = await check_files(self._files)
        said = f"{len(row['problems'])} problems, {len(row['notices'])} notices"
        await self._journal.found(person, "policy.check", "checked", said)
        return row

    async def rules(self, person: Person) -> Row:
        """Return the files in the configured place with the codes of their rules, and whether they are in force.

        Raises:
            Forbidden: The person is neither approver, auditor nor admin.

        """
        person.need(Role.APPROVER, Role.AUDITOR, Role.ADMIN)
        found = await self._files.rules()
        return {
            **found,
            "in_force": bool(found["digest"]) and found["digest"] == self._engine.digest,
        }

    async def test(self, person: Person) -> Row:
        """Run the files' tests: `{"ok", "passed", "changed", "failed", "failures", "notices"}`."""
        person.need(*EVERY_ROLE)
        row = await test_files(self._files)
        said = f"{row['passed']} passed, {row['changed']} changed, {row['failed']} failed"
        await self._journal.found(person, "policy.test", "tested", said)
        return row

    async def eval(self, person: Person, *, question: dict[str, Any]) -> Row:
        """Return the decision on `question` by the policy in force; nothing is done with it.

        Raises:
            Forbidden: The person is neither admin nor auditor.
            PolicyUnavailable: There was no usable answer.

        """
        person.need(Role.ADMIN, Role.AUDITOR)
        decision = await self._engine.evaluate(question)
        # Not what was asked: a question holds what calls say, or what somebody tries.
        said = f"{decision.verdict.value} by {decision.policy_digest}, as decision {decision.id}"
        await self._journal.found(person, "policy.eval", "evaluated", said)
        return {
            "decision_id": decision.id,
            "verdict": decision.verdict.value,
            "reasons": [{"code": r.code, "message": r.message} for r in decision.reasons],
            "obligations": [{"duty": o.duty.value, **o.detail} for o in decision.obligations],
            "policy_digest": decision.policy_digest,
        }
