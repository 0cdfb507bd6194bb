"""Evaluating a policy in this process: Rego that OPA compiled to WebAssembly (its ABI 1.x)."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, TypeVar

import orjson
import wasmtime

from gateway.domain.bounded import Bounded, digest_of
from gateway.domain.decisions import Decision
from gateway.domain.nodes import amount
from gateway.domain.question import VARIED, Question
from gateway.errors import ConfigError, PolicyUnavailable
from gateway.policy.answer import (
    read_decision,
    read_disposition,
    read_pin_approvals,
    read_self_approval,
)
from gateway.policy.builtins import Unsupported
from gateway.policy.host import Aborted
from gateway.policy.ids import new_decision_id
from gateway.policy.instance import Seat, Weary
from gateway.policy.reads import Reads
from gateway.policy.settings import FUEL
from gateway.turns import QUICK_NODES, Turns

Told = TypeVar("Told")

DECISION = "douane/decision"
PIN = "douane/pin"
PIN_APPROVALS = "douane/pin_approvals"
SELF_APPROVAL = "douane/self_approval"

QUICK_FUEL = 5_000_000
"""Of an evaluation on the event loop: some milliseconds."""

_BATCH = 32
"""Decisions of one list between two turns of the event loop."""

_MOST_ANSWERS: Final = 10_000
_OCTETS: Final = 16 * 1024**2
"""What is remembered at once: decisions whose reasons may say anything, by digests of questions."""

_UNBOUNDED: Final = ("arguments", "result")
"""Everything else in the question of a call is bounded; of these policy is shown what it reads."""

_FAILURES = (wasmtime.WasmtimeError, wasmtime.Trap, Aborted, Unsupported, TypeError, ValueError)
"""How an evaluation can fail; the last two are JSON that cannot be written or read."""


class MissingBuiltins(ConfigError):
    """The policy calls built-in functions, `names`, that this engine does not have."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__("the policy needs built-ins that `engine: wasm` lacks", problems=names)
        self.names = tuple(names)


class WasmEngine:
    """Answers from a compiled policy and its data. One event loop's; not for threads."""

    def __init__(
        self,
        wasm: bytes,
        data: Mapping[str, Any],
        *,
        digest: str,
        clock: Callable[[], float],
        reads: Reads | None = None,
        new_id: Callable[[], str] = new_decision_id,
        fuel: int = FUEL,
    ) -> None:
        """Compile `wasm` for this machine, some tenths of a second, and load `data`.

        With `reads`, questions that the policy cannot tell apart are evaluated once.

        Raises:
            MissingBuiltins: It calls functions that we do not have.
            ConfigError: It is no policy that can be run.

        """
        config = wasmtime.Config()
        config.consume_fuel = True
        # So the address of a memory can be kept: asking for it costs more than using it.
        config.memory_may_move = False
        engine = wasmtime.Engine(config)
        try:
            module = wasmtime.Module(engine, wasm)
        except wasmtime.WasmtimeError as error:
            raise ConfigError(
                "the compiled policy is no WebAssembly", problems=[str(error)]
            ) from error
        octets = orjson.dumps(dict(data))
        self._digest = digest
        self._clock = clock
        self._new_id = new_id
        self._fuel = fuel
        self._reads = reads
        self._reads_besides = None if reads is None else reads.at(VARIED)
        """What is read of what differs in the same circumstances."""
        besides = () if self._reads_besides is None else self._reads_besides.paths
        self._unbounded = tuple(at for at, path in enumerate(besides) if path[0] in _UNBOUNDED)
        """Which of that may be large."""
        self._shown = {} if reads is None else {name: reads.below(name) for name in _UNBOUNDED}
        self._answers: Bounded[bytes, Decision] = Bounded(most=_MOST_ANSWERS, octets=_OCTETS)
        self._here = Seat(engine, module, octets)
        self._beside = Seat(engine, module, octets)
        """Where that is answered which takes long: one after the other, in one thread."""
        self._turns = Turns(places=1)
        instance = self._here.ready()
        self._entrypoints = frozenset(instance.entrypoints)
        if instance.missing:
            raise MissingBuiltins(sorted(instance.missing))
        if DECISION not in self._entrypoints:
            raise ConfigError("the compiled policy does not say what data.douane.decision is")

    @property
    def digest(self) -> str:
        """Names the policy: `sha256:...` over its files and data."""
        return self._digest

    def holds(self, digest: str) -> bool:
        """Whether this is the policy of that name; see `PolicyEngine`."""
        return digest == self._digest

    async def evaluate(self, question: Mapping[str, Any]) -> Decision:
        """Answer one question: at once where that is quick, else beside the event loop.

        Raises:
            PolicyUnavailable: The answer is undefined or malformed, or took too much.
            RateLimited: So much of the same principal's waits already; never of a result.

        """
        if (known := self._known(question)) is not None:
            return self._again(known)
        large = [question.get(name) for name in _UNBOUNDED]
        quick = amount(large, QUICK_NODES) <= QUICK_NODES
        return await self._in_time(question, self._decided, quick=quick)

    def decide(self, question: Mapping[str, Any]) -> Decision:
        """Answer one question, for whoever has no event loop.

        Raises:
            PolicyUnavailable: As `evaluate`.

        """
        return self._decided(self._here, self._fuel, question)

    async def evaluate_many(self, questions: Sequence[Mapping[str, Any]]) -> Sequence[Decision]:
        """Answer each question, in order; other work gets its turn in between."""
        decisions: list[Decision] = []
        for count, question in enumerate(questions, start=1):
            decisions.append(await self.evaluate(question))
            if count % _BATCH == 0:
                await asyncio.sleep(0)
        return decisions

    async def judge_pin(self, question: Mapping[str, Any]) -> str:
        """Ask what is to become of a changed manifest; a policy that does not say has it held."""
        if PIN not in self._entrypoints:
            return read_disposition(None)
        return read_disposition(await self._told(PIN, question))

    async def pin_approvals(self, question: Mapping[str, Any]) -> int:
        """Ask how many people must approve a definition; one, if the policy does not say.

        Raises:
            PolicyUnavailable: The answer is malformed, or took too much.

        """
        if PIN_APPROVALS not in self._entrypoints:
            return 1
        return read_pin_approvals(await self._told(PIN_APPROVALS, question, undefined=1))

    async def self_approval(self, question: Mapping[str, Any]) -> bool:
        """Ask whether the person whose call it is may say yes to it; no, if the policy is silent.

        Raises:
            PolicyUnavailable: It could not be evaluated, or took too much.

        """
        if SELF_APPROVAL not in self._entrypoints:
            return False
        return read_self_approval(await self._told(SELF_APPROVAL, question))

    async def close(self) -> None:
        """Nothing is held that would have to be given back."""

    async def _told(
        self, entrypoint: str, question: Mapping[str, Any], *, undefined: Any = None
    ) -> Any:
        def run(seat: Seat, fuel: int, asked: Mapping[str, Any]) -> Any:
            return self._run(seat, fuel, entrypoint, asked, undefined=undefined)

        quick = amount(question, QUICK_NODES) <= QUICK_NODES
        return await self._in_time(question, run, quick=quick)

    async def _in_time(
        self, question: Mapping[str, Any], answer: Callable[..., Told], *, quick: bool
    ) -> Told:
        """Return what `answer` makes of a question, without holding the loop for long.

        It is `quick` to read. How long policy thinks about it nobody knows before: what is not done
        soon is done anew elsewhere. The same question ends alike in both places.
        """
        if quick:
            try:
                return answer(self._here, min(QUICK_FUEL, self._fuel), question)
            except Weary:
                pass
        # What is asked about was sent already, if it is a result: its answer is not kept from it.
        turn = self._turns.finish if question.get("phase") == "result" else self._turns.take
        return await turn(_asker(question), answer, self._beside, self._fuel, question)

    def _decided(self, seat: Seat, fuel: int, question: Mapping[str, Any]) -> Decision:
        if self._reads is None:
            return self._evaluated(seat, fuel, question)
        key = digest_of(self._reads.key(question))
        known = self._answers.get(key)
        if known is None:
            known = self._evaluated(seat, fuel, question)
            self._answers.put(key, known, _octets(known))
        if isinstance(question, Question) and self._reads_besides is not None:
            besides = blake2b(self._reads_besides.key(question), digest_size=32).digest()
            question.circumstances.decide(self, besides, known)
        return self._again(known)

    def _known(self, question: Mapping[str, Any]) -> Decision | None:
        """Return what was said before in the same circumstances, if nothing else is read that differs."""
        if not isinstance(question, Question) or self._reads_besides is None:
            return None
        read = self._reads_besides.found(question)
        if amount([read[at] for at in self._unbounded], QUICK_NODES) > QUICK_NODES:
            return None  # not to be gone through here
        besides = blake2b(orjson.dumps(read), digest_size=32).digest()
        return question.circumstances.decision_of(self, besides)

    def _again(self, known: Decision) -> Decision:
        return Decision(
            id=self._new_id(),
            verdict=known.verdict,
            reasons=known.reasons,
            obligations=known.obligations,
            policy_digest=known.policy_digest,
        )

    def _evaluated(self, seat: Seat, fuel: int, question: Mapping[str, Any]) -> Decision:
        answer = self._run(seat, fuel, DECISION, {**question, **self._narrowed(question)})
        return read_decision(answer, id_=self._new_id(), policy_digest=self._digest)

    def _narrowed(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is large in `question` with the members that policy reads: it answers alike."""
        return {
            name: {member: held[member] for member in shown if member in held}
            for name, shown in self._shown.items()
            if shown is not None and isinstance(held := question.get(name), dict)
        }

    def _run(
        self,
        seat: Seat,
        fuel: int,
        entrypoint: str,
        question: Mapping[str, Any],
        *,
        undefined: Any = None,
    ) -> Any:
        try:
            asked = orjson.dumps(question)
            found = seat.asked(entrypoint, asked, self._clock, fuel)
        except Weary as error:
            if fuel < self._fuel:
                raise
            detail = str(error)
        except (*_FAILURES, ConfigError) as error:
            detail = str(error)
        else:
            return found[0]["result"] if found else undefined
        # Not from within, so that what is raised holds nothing of what failed.
        raise PolicyUnavailable("policy could not be evaluated", detail=detail)


def _asker(question: Mapping[str, Any]) -> str:
    """Return whose turn is taken: of what no principal asks, all have one together."""
    principal = question.get("principal")
    if not isinstance(principal, Mapping):
        return ""
    return repr([principal.get(name) for name in ("iss", "sub")])


def _octets(decision: Decision) -> int:
    told = sum(len(reason.code) + len(reason.message) for reason in decision.reasons)
    return 4 * told + sum(len(repr(duty)) for duty in decision.obligations)
