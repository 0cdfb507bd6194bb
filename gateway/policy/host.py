"""Both sides of the border of a compiled policy: what it calls of ours, what we call of its."""

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import wasmtime

from gateway.policy.builtins import BUILTINS, Moment

Storelike = wasmtime.Store | wasmtime.Caller

_NANOSECONDS = 1_000_000_000
_LONGEST_MESSAGE = 1_000


class Aborted(Exception):
    """The policy's program gave up."""


class Guest:
    """The functions and the memory of an instance, for as long as `store` may be used."""

    def __init__(self, store: Storelike, export: Callable[[str], Any]) -> None:
        """`export` gives what the instance exports under a name."""
        self._store = store
        self._export = export

    def call(self, name: str, *arguments: int) -> int:
        """Call an exported function on numbers; what returns nothing gives 0."""
        found: int | None = self._export(name)(self._store, *arguments)
        return found or 0

    def text(self, address: int, longest: int | None = None) -> bytes:
        """Return the bytes at `address` up to the zero that ends them, at most `longest`."""
        memory = self._export("memory")
        available = memory.data_len(self._store) - address
        if address <= 0 or available <= 0:
            raise Aborted("an address outside of its memory")
        base = ctypes.addressof(memory.data_ptr(self._store).contents)
        if longest is None:
            return ctypes.string_at(base + address)
        return ctypes.string_at(base + address, min(longest, available)).split(b"\0", 1)[0]

    def dump(self, address: int) -> Any:
        """Return the JSON value of the policy's value at `address`."""
        return orjson.loads(self.text(self.call("opa_json_dump", address)))

    def parse(self, text: bytes) -> int:
        """Make `text`, which is JSON, a value of the policy's, and return its address."""
        address = self.call("opa_malloc", len(text))
        self._export("memory").write(self._store, text, address)
        parsed = self.call("opa_json_parse", address, len(text))
        if not parsed:
            raise Aborted("it cannot read this JSON")
        return parsed

    def table(self, name: str) -> dict[str, int]:
        """Return what the exported function `name` lists: names and their numbers."""
        found: dict[str, int] = self.dump(self.call(name))
        return found


class Host:
    """What a policy's program imports. Holds nothing of the instance: it reaches us by `caller`.

    What one of these functions raised is kept here: wasmtime keeps it in one place for all threads,
    where another's evaluation may find it.
    """

    def __init__(self) -> None:
        self.names: Mapping[int, str] = {}
        """Which built-in a number stands for."""
        self._clock: Callable[[], float] = float
        self._moment: Moment | None = None
        self._failure: BaseException | None = None

    def begin(self, clock: Callable[[], float]) -> None:
        """Begin an evaluation; `clock` is read once, and only if the policy asks for the time."""
        self._clock, self._moment, self._failure = clock, None, None

    def failed(self) -> BaseException | None:
        """Return, once, what a function of ours raised in this evaluation."""
        found, self._failure = self._failure, None
        return found

    def abort(self, caller: wasmtime.Caller, address: int) -> None:
        """End the evaluation with the program's own message."""
        message = Guest(caller, caller.__getitem__).text(address, _LONGEST_MESSAGE)
        self._failure = Aborted(message.decode(errors="replace"))
        raise self._failure

    def builtin(self, caller: wasmtime.Caller, number: int, _: int, *arguments: int) -> int:
        """Call a built-in on the values at `arguments`; 0 stands for undefined."""
        try:
            return self._built_in(caller, number, arguments)
        except BaseException as error:
            self._failure = error
            raise

    def _built_in(self, caller: wasmtime.Caller, number: int, arguments: tuple[int, ...]) -> int:
        guest = Guest(caller, caller.__getitem__)
        if self._moment is None:
            self._moment = Moment(now_ns=int(self._clock() * _NANOSECONDS))
        function = BUILTINS[self.names[number]]
        try:
            result = function(self._moment, *map(guest.dump, arguments))
        except ValueError:
            return 0
        return guest.parse(orjson.dumps(result))
