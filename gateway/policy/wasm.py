"""Evaluating a policy in this process: Rego that OPA compiled to WebAssembly (its ABI 1.x).

A decision costs tens of microseconds, most of it the way into WebAssembly and back, which is why
the module is entered through a shim without arguments or results.
"""

import asyncio
import ctypes
import struct
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import orjson
import wasmtime

from gateway.domain.bounded import Bounded, digest_of
from gateway.domain.decisions import Decision
from gateway.errors import ConfigError, PolicyUnavailable
from gateway.policy.answer import (
    read_decision,
    read_disposition,
    read_pin_approvals,
    read_self_approval,
)
from gateway.policy.builtins import BUILTINS, Unsupported
from gateway.policy.host import Aborted, Guest, Host
from gateway.policy.ids import new_decision_id
from gateway.policy.reads import Reads
from gateway.policy.settings import FUEL

DECISION = "douane/decision"
PIN = "douane/pin"
PIN_APPROVALS = "douane/pin_approvals"
SELF_APPROVAL = "douane/self_approval"

FUEL_A_BYTE = 100
"""On top of it, for reading the question; the same for reading the data."""

MEMORY_BYTES = 128 * 1024**2
_PAGE_BYTES = 64 * 1024
_LARGE: Final = 32 * 1024**2
"""An instance that has grown beyond it is let go: the memory of a program never shrinks."""
_HEADER = struct.Struct("<IIII")
"""Before the input: its length, going in; where the result is and how many pages the memory has,
coming out."""

_BATCH = 64
"""Decisions of one list between two turns of the event loop."""

_MOST_ANSWERS: Final = 10_000
_OCTETS: Final = 16 * 1024**2
"""What is remembered at once: decisions whose reasons may say anything, by digests of questions."""

_I32 = wasmtime.ValType.i32()

_FAILURES = (wasmtime.WasmtimeError, wasmtime.Trap, Aborted, Unsupported, TypeError, ValueError)
"""How an evaluation can fail; the last two are JSON that cannot be written or read."""

# `opa_eval` takes seven arguments, and wasmtime-py pays for each: the shim knows the fixed ones
# and finds the input's length in memory. The heap begins anew behind the input, so nothing that an
# evaluation allocates outlives it.
_SHIM = """
(module
  (import "opa" "opa_eval" (func $eval (param i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "opa" "memory" (memory 1))
  (func (export "run")
    (i32.store offset=4 (i32.const {header})
      (call $eval (i32.const 0) (i32.const {entrypoint}) (i32.const {data}) (i32.const {input})
        (i32.load (i32.const {header}))
        (i32.and (i32.const -8)
          (i32.add (i32.const {after}) (i32.load (i32.const {header}))))
        (i32.const 0)))
    (i32.store offset=8 (i32.const {header}) (memory.size))))
"""


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
        self._engine = wasmtime.Engine(config)
        try:
            self._module = wasmtime.Module(self._engine, wasm)
        except wasmtime.WasmtimeError as error:
            raise ConfigError(
                "the compiled policy is no WebAssembly", problems=[str(error)]
            ) from error
        self._data = orjson.dumps(dict(data))
        self._digest = digest
        self._clock = clock
        self._new_id = new_id
        self._fuel = fuel
        self._reads = reads
        self._answers: Bounded[bytes, Decision] = Bounded(most=_MOST_ANSWERS, octets=_OCTETS)
        instance = self._fresh()
        self._instance: _Instance | None = instance
        """None where the last one failed or grew large: the next question gets a new one."""
        self._entrypoints = frozenset(instance.entrypoints)
        if instance.missing:
            raise MissingBuiltins(sorted(instance.missing))
        if DECISION not in self._entrypoints:
            raise ConfigError("the compiled policy does not say what data.douane.decision is")

    def _fresh(self) -> "_Instance":
        try:
            return _Instance(self._engine, self._module, self._data)
        except (wasmtime.WasmtimeError, wasmtime.Trap, Aborted) as error:
            raise ConfigError("the compiled policy cannot be run", problems=[str(error)]) from error

    @property
    def digest(self) -> str:
        """Names the policy: `sha256:...` over its files and data."""
        return self._digest

    async def evaluate(self, question: Mapping[str, Any]) -> Decision:
        """Answer one question, without waiting for anything.

        Raises:
            PolicyUnavailable: The answer is undefined or malformed, or took too much.

        """
        return self.decide(question)

    def decide(self, question: Mapping[str, Any]) -> Decision:
        """Answer one question, for whoever has no event loop.

        Raises:
            PolicyUnavailable: As `evaluate`.

        """
        if self._reads is None:
            return self._evaluated(question)
        key = digest_of(self._reads.key(question))
        known = self._answers.get(key)
        if known is None:
            known = self._evaluated(question)
            self._answers.put(key, known, _octets(known))
            return known
        return Decision(
            id=self._new_id(),
            verdict=known.verdict,
            reasons=known.reasons,
            obligations=known.obligations,
            policy_digest=known.policy_digest,
        )

    async def evaluate_many(self, questions: Sequence[Mapping[str, Any]]) -> Sequence[Decision]:
        """Answer each question, in order; other work gets its turn in between."""
        decisions = []
        for count, question in enumerate(questions, start=1):
            decisions.append(self.decide(question))
            if count % _BATCH == 0:
                await asyncio.sleep(0)
        return decisions

    async def judge_pin(self, question: Mapping[str, Any]) -> str:
        """Ask what is to become of a changed manifest; a policy that does not say has it held."""
        if PIN not in self._entrypoints:
            return read_disposition(None)
        return read_disposition(self._run(PIN, question))

    async def pin_approvals(self, question: Mapping[str, Any]) -> int:
        """Ask how many people must approve a definition; one, if the policy does not say.

        Raises:
            PolicyUnavailable: The answer is malformed, or took too much.

        """
        if PIN_APPROVALS not in self._entrypoints:
            return 1
        return read_pin_approvals(self._run(PIN_APPROVALS, question, undefined=1))

    async def self_approval(self, question: Mapping[str, Any]) -> bool:
        """Ask whether the person whose call it is may say yes to it; no, if the policy is silent.

        Raises:
            PolicyUnavailable: It could not be evaluated, or took too much.

        """
        if SELF_APPROVAL not in self._entrypoints:
            return False
        return read_self_approval(self._run(SELF_APPROVAL, question))

    async def close(self) -> None:
        """Nothing is held that would have to be given back."""

    def _evaluated(self, question: Mapping[str, Any]) -> Decision:
        answer = self._run(DECISION, question)
        return read_decision(answer, id_=self._new_id(), policy_digest=self._digest)

    def _run(self, entrypoint: str, question: Mapping[str, Any], *, undefined: Any = None) -> Any:
        try:
            asked = orjson.dumps(question)
            found = self._asked(entrypoint, asked)
        except (*_FAILURES, ConfigError) as error:
            detail = str(error)
        else:
            return found[0]["result"] if found else undefined
        # Not from within, so that what is raised holds nothing of what failed.
        raise PolicyUnavailable("policy could not be evaluated", detail=detail)

    def _asked(self, entrypoint: str, question: bytes) -> list[dict[str, Any]]:
        """Evaluate, and keep the instance only if it can be used again."""
        if self._instance is None:
            self._instance = self._fresh()
        try:
            found = self._instance.run(entrypoint, question, self._clock, self._fuel)
        except BaseException as error:
            # Whatever stopped it half-way left the instance's memory in an unknown state.
            self._let_go()
            _unhold(error)
            raise
        if self._instance.octets > _LARGE:
            self._let_go()
        return found

    def _let_go(self) -> None:
        """Give the instance's memory back now, whoever may still refer to it."""
        if self._instance is not None:
            self._instance.close()
            self._instance = None


def _octets(decision: Decision) -> int:
    told = sum(len(reason.code) + len(reason.message) for reason in decision.reasons)
    return 4 * told + sum(len(repr(duty)) for duty in decision.obligations)


def _unhold(error: BaseException) -> None:
    """Empty the frames that `error` came through, and all that it came from.

    wasmtime raises what one of our functions raised out of a frame that refers to it: a cycle, in
    which an instance would be kept until somebody collects it.
    """
    seen: BaseException | None = error
    while seen is not None:
        traceback.clear_frames(seen.__traceback__)
        seen = seen.__context__


class _Instance:
    """One instance of a policy with its data loaded, and where things are in its memory."""

    def __init__(self, engine: wasmtime.Engine, module: wasmtime.Module, data: bytes) -> None:
        self._store = wasmtime.Store(engine)
        self._store.set_limits(memory_size=MEMORY_BYTES)
        self._store.set_fuel(FUEL + FUEL_A_BYTE * len(data))
        self._memory = _new_memory(self._store, module)
        self._base = ctypes.addressof(self._memory.data_ptr(self._store).contents)
        self._size = 0
        """In bytes, as it was after the last evaluation; it only grows."""
        self._host = Host()
        exports = _linked(engine, self._store, module, self._memory, self._host)
        guest = Guest(self._store, exports.__getitem__)
        self._host.names = {number: name for name, number in guest.table("builtins").items()}
        self._entrypoints = guest.table("entrypoints")
        parsed = guest.parse(data)
        self._header = (guest.call("opa_heap_ptr_get") + 7) & ~7
        self._runs = {
            name: self._shim(engine, exports, number, parsed)
            for name, number in self._entrypoints.items()
        }

    @property
    def octets(self) -> int:
        """How large its memory was after the last evaluation."""
        return self._size

    def close(self) -> None:
        """Free its memory. It cannot be used any more."""
        self._runs = {}
        self._store.close()

    @property
    def entrypoints(self) -> Collection[str]:
        """What can be asked: `douane/decision`."""
        return self._runs

    @property
    def missing(self) -> frozenset[str]:
        """Built-ins that it calls and we lack."""
        return frozenset(self._host.names.values()) - BUILTINS.keys()

    def _shim(
        self, engine: wasmtime.Engine, exports: Mapping[str, Any], number: int, data: int
    ) -> wasmtime.Func:
        start = self._header + _HEADER.size
        text = _SHIM.format(
            header=self._header, entrypoint=number, data=data, input=start, after=start + 7
        )
        linker = wasmtime.Linker(engine)
        linker.define(self._store, "opa", "opa_eval", exports["opa_eval"])
        linker.define(self._store, "opa", "memory", self._memory)
        instance = linker.instantiate(self._store, wasmtime.Module(engine, text))
        run = instance.exports(self._store)["run"]
        if not isinstance(run, wasmtime.Func):
            raise Aborted("the shim exports no function")
        return run

    def run(
        self, entrypoint: str, question: bytes, clock: Callable[[], float], fuel: int
    ) -> list[dict[str, Any]]:
        """Evaluate `entrypoint`; the result set is empty where it is undefined."""
        self._host.begin(clock)
        store, at = self._store, self._base + self._header
        lacking = self._header + _HEADER.size + len(question) + _PAGE_BYTES - self._size
        if lacking > 0:
            self._memory.grow(store, lacking // _PAGE_BYTES + 1)
        entry = _HEADER.pack(len(question), 0, 0, 0) + question
        ctypes.memmove(at, entry, len(entry))
        store.set_fuel(fuel + FUEL_A_BYTE * len(question))
        self._runs[entrypoint](store)
        _, address, pages, _ = _HEADER.unpack(ctypes.string_at(at, _HEADER.size))
        self._size = pages * _PAGE_BYTES
        if not 0 < address < self._size:
            raise Aborted("it gave no result")
        found: list[dict[str, Any]] = orjson.loads(ctypes.string_at(self._base + address))
        return found


def _new_memory(store: wasmtime.Store, module: wasmtime.Module) -> wasmtime.Memory:
    for needed in module.imports:
        if isinstance(needed.type, wasmtime.MemoryType):
            return wasmtime.Memory(store, needed.type)
    raise Aborted("it imports no memory")


def _linked(
    engine: wasmtime.Engine,
    store: wasmtime.Store,
    module: wasmtime.Module,
    memory: wasmtime.Memory,
    host: Host,
) -> Mapping[str, Any]:
    linker = wasmtime.Linker(engine)
    linker.define(store, "env", "memory", memory)
    linker.define_func(
        "env", "opa_abort", wasmtime.FuncType([_I32], []), host.abort, access_caller=True
    )
    for arity in range(5):
        kind = wasmtime.FuncType([_I32] * (arity + 2), [_I32])
        linker.define_func("env", f"opa_builtin{arity}", kind, host.builtin, access_caller=True)
    return linker.instantiate(store, module).exports(store)
