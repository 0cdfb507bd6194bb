"""Instances of a policy that OPA compiled to WebAssembly, and who may ask them.

A decision costs tens of microseconds, most of it the way into WebAssembly and back, which is why
the module is entered through a shim without arguments or results.
"""

import ctypes
import struct
import traceback
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import orjson
import wasmtime

from gateway.errors import ConfigError
from gateway.policy.builtins import BUILTINS
from gateway.policy.host import Aborted, Guest, Host
from gateway.policy.settings import FUEL

FUEL_A_BYTE = 100
"""On top of it, for reading the question; the same for reading the data."""

MEMORY_BYTES = 128 * 1024**2
_PAGE_BYTES = 64 * 1024
_LARGE: Final = 32 * 1024**2
"""An instance that has grown beyond it is let go: the memory of a program never shrinks."""
_HEADER = struct.Struct("<IIII")
"""Before the input: its length, going in; where the result is and how many pages the memory has,
coming out."""

_I32 = wasmtime.ValType.i32()

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


class Weary(Exception):
    """An evaluation took all the fuel that it was given."""


class Seat:
    """At most one instance of a policy, which answers one question after the other; not for threads."""

    def __init__(self, engine: wasmtime.Engine, module: wasmtime.Module, data: bytes) -> None:
        self._engine = engine
        self._module = module
        self._data = data
        self._shims: dict[str, wasmtime.Module] = {}
        """By their text: equal data are at equal places of every instance."""
        self.instance: Instance | None = None
        """None where the last one failed or grew large: the next question gets a new one."""

    def ready(self) -> "Instance":
        """Return an instance that can be asked.

        Raises:
            ConfigError: None can be made.

        """
        if self.instance is None:
            try:
                self.instance = Instance(self._engine, self._module, self._data, self._shims)
            except (wasmtime.WasmtimeError, wasmtime.Trap, Aborted) as error:
                problems = [str(error)]
                raise ConfigError("the compiled policy cannot be run", problems=problems) from error
        return self.instance

    def asked(
        self, entrypoint: str, question: bytes, clock: Callable[[], float], fuel: int
    ) -> list[dict[str, Any]]:
        """Evaluate, and keep the instance only if it can be used again.

        Raises:
            Weary: It took more than `fuel`, and what its question's bytes are worth.

        """
        instance = self.ready()
        try:
            found = instance.run(entrypoint, question, clock, fuel)
        except BaseException as error:
            # Whatever stopped it half-way left the instance's memory in an unknown state.
            self.let_go()
            _unhold(error)
            raise
        if instance.octets > _LARGE:
            self.let_go()
        return found

    def let_go(self) -> None:
        """Give the instance's memory back now, whoever may still refer to it."""
        if self.instance is not None:
            self.instance.close()
            self.instance = None


def _unhold(error: BaseException) -> None:
    """Empty the frames that `error` came through, and all that it came from.

    wasmtime raises what one of our functions raised out of a frame that refers to it: a cycle, in
    which an instance would be kept until somebody collects it.
    """
    seen: BaseException | None = error
    while seen is not None:
        traceback.clear_frames(seen.__traceback__)
        seen = seen.__context__


class Instance:
    """One instance of a policy with its data loaded, and where things are in its memory."""

    def __init__(
        self,
        engine: wasmtime.Engine,
        module: wasmtime.Module,
        data: bytes,
        shims: dict[str, wasmtime.Module],
    ) -> None:
        """`shims` are those that were compiled before, to which what is missing is added."""
        self._shims = shims
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
        if text not in self._shims:
            self._shims[text] = wasmtime.Module(engine, text)
        instance = linker.instantiate(self._store, self._shims[text])
        run = instance.exports(self._store)["run"]
        if not isinstance(run, wasmtime.Func):
            raise Aborted("the shim exports no function")
        return run

    def run(
        self, entrypoint: str, question: bytes, clock: Callable[[], float], fuel: int
    ) -> list[dict[str, Any]]:
        """Evaluate `entrypoint`; the result set is empty where it is undefined.

        Raises:
            Weary: It took all its fuel.

        """
        self._host.begin(clock)
        store, at = self._store, self._base + self._header
        lacking = self._header + _HEADER.size + len(question) + _PAGE_BYTES - self._size
        if lacking > 0:
            self._memory.grow(store, lacking // _PAGE_BYTES + 1)
        entry = _HEADER.pack(len(question), 0, 0, 0) + question
        ctypes.memmove(at, entry, len(entry))
        store.set_fuel(fuel + FUEL_A_BYTE * len(question))
        try:
            self._runs[entrypoint](store)
        except BaseException as error:
            # What is raised may be what stopped another thread's evaluation: see `Host`.
            if failed := self._host.failed():
                raise failed from None
            if store.get_fuel() == 0:
                raise Weary("all fuel consumed by WebAssembly") from None
            if not isinstance(error, wasmtime.Trap | wasmtime.WasmtimeError):
                raise Aborted("it was stopped") from None
            raise
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
