"""What a policy's answer can depend on, member by member: found in OPA's plan of it.

`gateway.policy.reads` looks at names in the source, and takes a list with all that is in it. Here
values are followed from the input through variables, functions and comprehensions to whatever
looks at them, so that a rule over `flow.destinations` that looks at `proof` is not taken to look at
`value`. What cannot be followed is taken to look at everything.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gateway.domain._value import value
from gateway.policy.looks import ALWAYS, DEEP, EVERYTHING, Condition, Look, Path

_SHALLOW = frozenset({"is_array", "is_boolean", "is_null", "is_number", "is_object", "is_set",
                      "is_string", "type_name"})  # fmt: skip
"""Functions that look at what kind of value it is, and not into it."""
_MOST_ROUNDS = 50
_NOTHING: frozenset[Path] = frozenset()


class _Unfollowed(Exception):
    """A statement that is not known here."""


def looks_of(plan: Mapping[str, Any], name: str) -> frozenset[Look]:
    """Return what the entry point `name` of `plan` looks at in its input."""
    (entry,) = (one for one in plan["plans"]["plans"] if one["name"] == name)
    try:
        return _Program(plan).followed(entry["blocks"])
    except (_Unfollowed, KeyError, TypeError, IndexError):
        return frozenset({EVERYTHING})


@value
class _Held:
    """What a variable may hold: places of the input, or containers made of such."""

    is_: frozenset[Path] = _NOTHING
    has: frozenset[Path] = _NOTHING
    made: bool = False
    """Whether it may also be what is no place of the input, such as a constant."""
    true_when: frozenset[Condition] | None = ALWAYS
    """What holds if it is neither false nor undefined; `None` if it never is."""

    def joined(self, other: "_Held") -> "_Held":
        if self is other:
            return self
        mine, theirs = self.true_when, other.true_when
        both = theirs if mine is None else mine if theirs is None else mine & theirs
        return _Held(
            is_=self.is_ | other.is_,
            has=self.has | other.has,
            made=self.made or other.made,
            true_when=both,
        )

    def at(self, name: str) -> "_Held":
        """Return what stands in it under `name`."""
        places = frozenset((*path, name) for path in self.is_) | self.has
        return _Held(is_=places, has=self.has, made=self.made)

    @property
    def all(self) -> frozenset[Path]:
        return self.is_ | self.has


_EMPTY = _Held(made=True)
_UNSET = _Held(true_when=None)


@value
class _State:
    """What is known at one point of a function."""

    held: Mapping[int, _Held]
    when: frozenset[Condition]

    def joined(self, other: "_State | None") -> "_State":
        if other is None or other is self:
            return self
        held = dict(self.held)
        for local, theirs in other.held.items():
            mine = held.get(local)
            held[local] = theirs if mine is None else mine.joined(theirs)
        return _State(held=held, when=self.when & other.when)

    def holding(self, local: int, held: _Held) -> "_State":
        return _State(held={**self.held, local: held}, when=self.when)

    def where(self, more: Iterable[Condition]) -> "_State":
        return replace(self, when=self.when.union(more))


_Exits = dict[int, _State]
"""How a block is left: 0 is its end, be it reached or not; others leave as many more around it."""


class _Program:
    """One plan, walked over and over until nothing new is found."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self._strings = [one["value"] for one in plan["static"]["strings"]]
        self._functions = {one["name"]: one for one in plan["funcs"]["funcs"]}
        self._entered: dict[str, _State] = {}
        self._returned: dict[str, _Held] = defaultdict(lambda: _UNSET)
        self._looks: set[Look] = set()
        self._statements: Mapping[str, Callable[[Mapping[str, Any], _State], _State]] = {
            "AssignVarStmt": self._assign,
            "AssignVarOnceStmt": self._assign_once,
            "ArrayAppendStmt": lambda s, now: self._put(now, s["array"], s["value"]),
            "CallDynamicStmt": self._call_dynamic,
            "CallStmt": self._call,
            "DotStmt": self._dot,
            "EqualStmt": self._equal,
            "IsArrayStmt": self._kind,
            "IsObjectStmt": self._kind,
            "IsSetStmt": self._kind,
            "LenStmt": self._length,
            "NotEqualStmt": self._not_equal,
            "ObjectInsertOnceStmt": self._insert_once,
            "ObjectInsertStmt": self._insert,
            "ObjectMergeStmt": self._merge,
            "ResultSetAddStmt": self._answer,
            "SetAddStmt": self._set_add,
        }

    def followed(self, blocks: Sequence[Mapping[str, Any]]) -> frozenset[Look]:
        """Return what is looked at by `blocks`, in which variable 0 is the input."""
        self._entered[""] = _State(held={0: _Held(is_=frozenset({()}))}, when=ALWAYS)
        for _ in range(_MOST_ROUNDS):
            before = (dict(self._entered), dict(self._returned), set(self._looks))
            self._looks.clear()
            self._blocks("", blocks, self._entered[""])
            for name, function in self._functions.items():
                if name in self._entered:
                    self._blocks(name, function["blocks"], self._entered[name])
            if before == (self._entered, self._returned, self._looks):
                return frozenset(self._looks)
        raise _Unfollowed("it does not settle")

    def _blocks(
        self, function: str, blocks: Iterable[Mapping[str, Any]], now: _State
    ) -> tuple[_State | None, _Exits]:
        """Walk `blocks` in their order; return what is known after them, and other ways out."""
        out: _Exits = {}
        after: _State | None = now
        for block in blocks:
            if after is None:
                break
            exits = self._block(function, block, after)
            after = exits.pop(0, None)
            for count, state in exits.items():
                out[count - 1] = state.joined(out.get(count - 1))
        return after, out

    def _block(self, function: str, block: Mapping[str, Any], now: _State) -> _Exits:
        exits: _Exits = {}
        for one in block["stmts"] or ():
            kind, stmt = one["type"], one["stmt"]
            if kind == "BreakStmt":
                exits[stmt["index"]] = now.joined(exits.get(stmt["index"]))
                return exits
            exits[0] = now.joined(exits.get(0))  # any statement may be the last that is reached
            if kind == "ReturnLocalStmt":
                found = now.held.get(stmt["source"], _UNSET)
                self._returned[function] = self._returned[function].joined(found)
                return exits
            if kind in {"BlockStmt", "NotStmt", "ScanStmt"}:
                after, out = self._nested(function, kind, stmt, now)
                for count, state in out.items():
                    exits[count] = state.joined(exits.get(count))
                if after is None:
                    return exits
                now = after
            elif kind not in _HARMLESS:
                if kind not in self._statements:
                    raise _Unfollowed(kind)
                now = self._statements[kind](stmt, now)
            elif (target := stmt.get("target")) is not None:
                now = now.holding(target, _UNSET if kind == "ResetLocalStmt" else _EMPTY)
        exits[0] = now.joined(exits.get(0))
        return exits

    def _nested(
        self, function: str, kind: str, stmt: Mapping[str, Any], now: _State
    ) -> tuple[_State | None, _Exits]:
        if kind == "BlockStmt":
            return self._blocks(function, stmt["blocks"], now)
        if kind == "NotStmt":
            # It may have ended before its first condition, so none of them holds after it.
            return self._blocks(function, [stmt["block"]], now)
        source = now.held.get(stmt["source"], _EMPTY)
        self._look(now, source.is_, 1)
        found: _Exits = {}
        while True:
            # A key is a name of a container's, or what somebody made a key.
            key = _Held(is_=source.has, has=source.has, made=True)
            each = now.holding(stmt["value"], source.at("*")).holding(stmt["key"], key)
            after, out = self._blocks(function, [stmt["block"]], each)
            for count, state in out.items():
                found[count] = state.joined(found.get(count))
            joined = now.joined(after)
            if joined == now:
                return now, found
            now = joined

    def _of(self, now: _State, operand: Mapping[str, Any]) -> _Held:
        """Return what an operand may hold; a constant holds nothing of the input."""
        if operand["type"] == "local":
            return now.held.get(operand["value"], _EMPTY)
        if operand["type"] == "bool":
            return _Held(made=True, true_when=now.when if operand["value"] else None)
        return _Held(made=True, true_when=now.when)

    def _look(self, now: _State, paths: Iterable[Path], depth: int) -> None:
        self._looks.update(Look(path=path, depth=depth, when=now.when) for path in paths)

    def _assign(self, stmt: Mapping[str, Any], now: _State) -> _State:
        held = self._of(now, stmt["source"])
        if held.true_when is not None:
            # It is assigned here alone, so it is true only where this is reached.
            held = replace(held, true_when=held.true_when | now.when)
        return now.holding(stmt["target"], held)

    def _assign_once(self, stmt: Mapping[str, Any], now: _State) -> _State:
        before = now.held.get(stmt["target"], _UNSET)
        if before != _UNSET:
            # Two values that differ are an error, so they are compared.
            self._look(now, before.all | self._of(now, stmt["source"]).all, DEEP)
        return self._assign(stmt, now)

    def _dot(self, stmt: Mapping[str, Any], now: _State) -> _State:
        source, key = self._of(now, stmt["source"]), stmt["key"]
        self._look(now, self._of(now, key).all, DEEP)
        found = source.at(self._constant(key) or "*")
        self._look(now, found.is_, 0)
        return now.holding(stmt["target"], found)

    def _constant(self, operand: Mapping[str, Any]) -> str | None:
        return self._strings[operand["value"]] if operand["type"] == "string_index" else None

    def _compare(self, stmt: Mapping[str, Any], now: _State) -> None:
        a, b = stmt["a"], stmt["b"]
        # A constant is no container, so what is compared with one is not looked into.
        depth = DEEP if a["type"] == b["type"] == "local" else 0
        for operand in (a, b):
            held = self._of(now, operand)
            self._look(now, held.is_, depth)
            self._look(now, held.has, DEEP)

    def _equal(self, stmt: Mapping[str, Any], now: _State) -> _State:
        self._compare(stmt, now)
        for one, other in ((stmt["a"], stmt["b"]), (stmt["b"], stmt["a"])):
            held = self._of(now, one)
            alone = len(held.is_) == 1 and not held.has and not held.made
            if alone and other["type"] != "local":
                (path,) = held.is_
                constant = self._constant(other)
                if "*" not in path:
                    meant = other["value"] if constant is None else constant
                    return now.where([(path, meant)])
            if other == {"type": "bool", "value": True}:
                return now.where(held.true_when or ALWAYS)
        return now

    def _not_equal(self, stmt: Mapping[str, Any], now: _State) -> _State:
        self._compare(stmt, now)
        if stmt["b"] == {"type": "bool", "value": False}:
            return now.where(self._of(now, stmt["a"]).true_when or ALWAYS)
        return now

    def _kind(self, stmt: Mapping[str, Any], now: _State) -> _State:
        self._look(now, self._of(now, stmt["source"]).is_, 0)
        return now

    def _length(self, stmt: Mapping[str, Any], now: _State) -> _State:
        self._look(now, self._of(now, stmt["source"]).all, 1)
        return now.holding(stmt["target"], _EMPTY)

    def _answer(self, stmt: Mapping[str, Any], now: _State) -> _State:
        self._look(now, now.held.get(stmt["value"], _EMPTY).all, DEEP)
        return now

    def _put(self, now: _State, container: int, operand: Mapping[str, Any]) -> _State:
        before = now.held.get(container, _EMPTY)
        more = _Held(has=self._of(now, operand).all)
        return now.holding(container, before.joined(more))

    def _insert(self, stmt: Mapping[str, Any], now: _State) -> _State:
        self._look(now, self._of(now, stmt["key"]).all, DEEP)
        return self._put(now, stmt["object"], stmt["value"])

    def _insert_once(self, stmt: Mapping[str, Any], now: _State) -> _State:
        # Two values of one key are an error, so they are compared.
        self._look(now, self._of(now, stmt["value"]).all, DEEP)
        return self._insert(stmt, now)

    def _set_add(self, stmt: Mapping[str, Any], now: _State) -> _State:
        # Which elements are one depends on all of each.
        self._look(now, self._of(now, stmt["value"]).all, DEEP)
        return self._put(now, stmt["set"], stmt["value"])

    def _merge(self, stmt: Mapping[str, Any], now: _State) -> _State:
        a, b = (now.held.get(stmt[name], _EMPTY) for name in ("a", "b"))
        self._look(now, a.is_ | b.is_, DEEP)
        return now.holding(stmt["target"], a.joined(b))

    def _call(self, stmt: Mapping[str, Any], now: _State) -> _State:
        called, arguments = stmt["func"], [self._of(now, one) for one in stmt["args"]]
        found = _EMPTY
        if called in self._functions:
            self._enter(called, arguments, now)
            found = self._returned[called]
        elif called == "object.get" and (name := self._constant(stmt["args"][1])) is not None:
            found = arguments[0].at(name)
            self._look(now, found.is_, 0)
            # Where it is something else instead, there is nothing at the place.
            made = found.made or bool(arguments[2].all)
            found = replace(found.joined(arguments[2]), made=made, true_when=ALWAYS)
        else:
            self._look_by(called, arguments, now)
        return now.holding(stmt["result"], found)

    def _look_by(self, called: str, arguments: Sequence[_Held], now: _State) -> None:
        """Take note of what a built-in function looks at; what it returns is made of that alone."""
        depth = 0 if called in _SHALLOW else 1 if called == "count" else DEEP
        for held in arguments:
            self._look(now, held.is_, depth)
            self._look(now, held.has, DEEP if depth else 0)

    def _call_dynamic(self, stmt: Mapping[str, Any], now: _State) -> _State:
        """Follow a call of a rule whose name is computed: it may be any that takes as much."""
        for operand in stmt["path"]:
            self._look(now, self._of(now, operand).all, DEEP)
        arguments = [now.held.get(local, _EMPTY) for local in stmt["args"]]
        found = _EMPTY
        for name, called in self._functions.items():
            if len(called["params"]) == len(arguments):
                self._enter(name, arguments, now)
                found = found.joined(self._returned[name])
        return now.holding(stmt["result"], replace(found, true_when=ALWAYS))

    def _enter(self, called: str, arguments: Sequence[_Held], now: _State) -> None:
        parameters = self._functions[called]["params"]
        held = {
            local: replace(one, true_when=ALWAYS)
            for local, one in zip(parameters, arguments, strict=True)
        }
        state = _State(held=held, when=now.when)
        self._entered[called] = state.joined(self._entered.get(called))


_HARMLESS = frozenset({
    "AssignIntStmt", "IsDefinedStmt", "IsUndefinedStmt", "MakeArrayStmt", "MakeNullStmt",
    "MakeNumberIntStmt", "MakeNumberRefStmt", "MakeObjectStmt", "MakeSetStmt", "NopStmt", "ResetLocalStmt",
})  # fmt: skip
"""Statements that look at nothing of the input: they make something, or go on elsewhere."""
