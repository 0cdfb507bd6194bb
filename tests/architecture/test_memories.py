"""What is kept in memory is `Bounded`, or stands here with the reason why it need not be."""

import ast
from collections.abc import Iterator

from tests.architecture.test_house_rules import parsed

OTHERWISE = {
    "audit/record.py::_in_order": "256, of names that records have",
    "audit/record.py::_second": "four, of times",
    "behaviour/baselines.py::self._known": "`MOST` of each view; hashes of what callers choose",
    "builtin/names.py::_short_name": "names of 64 characters at most",
    "domain/alike.py::_folded": "4,096, of names of 128 signs at most",
    "domain/bounded.py::self._entries": "the bound itself",
    "domain/bounded.py::self._of": "owners, each of whom weighs something in the bound",
    "domain/networks.py::_network_of": "addresses of 64 characters at most",
    "flow/addresses.py::_lower_case": "the operator's domains",
    "flow/arguments.py::is_called_an_address": "256, of paths of 800 characters at most",
    "flow/given.py::self._names": "digests, 100,000 of all servers",
    "flow/heard.py::made": "four, of prompts of 32 KiB at most",
    "flow/results.py::_path": "the operator's patterns",
    "planes/waiting.py::self._of": "shares of 64 MiB of calls without a result; the late are forgotten",
    "sandbox/interface.py::self._kept": "16 lists of approved tools",
    "pins/names.py::by_folding": "8 sets of approved names",
    "pipeline/decide.py::_second": "four, of times",
    "search/index.py::self._views": "64 sets of approved tools",
    "storage/callers.py::self._of": "names of ours, 50,000 runs of one issuer or plane",
    "storage/callers.py::self._used": "names of ours, so many that one issuer or plane names; the idle are forgotten",
    "storage/disclosures.py::self._used": "digests, 20,000 of one principal; what is idle is forgotten",
    "storage/own_sessions.py::self._ended": "100,000 digests",
    "storage/own_sessions.py::self._ended_of": "the same 100,000, by their person",
    "storage/own_sessions.py::self._uris": "an eighth of 32 MiB for one person; one more is refused",
    "storage/postgres/spelling.py::_spelled": "512, of statements of ours",
    "storage/runs.py::self._parts": "names of ours, 100 live runs of one principal",
    "storage/scripts.py::self._live": "programs that have not run out: 1,000 of hosts' for one person, the others by a call",
    "wiring/sensitive.py::_names": "two, of models that the configuration names",
    "upstream/personal.py::self._known": "2,000 people of each server, and times of reading",
}
"""Each `OrderedDict` and `lru_cache` of the product: they are how a memory is made by hand."""


def memories(tree: ast.AST) -> Iterator[str]:
    """Yield what is remembered in a module, by its own name or by what it is the memory of."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if any(_is_cache(decorator) for decorator in node.decorator_list):
                yield node.name
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            annotated = node.annotation if isinstance(node, ast.AnnAssign) else None
            named = isinstance(target, ast.Attribute) or annotated is not None
            if named and any(map(_is_ordered, (annotated, node.value))):
                yield ast.unparse(target)


def _is_cache(decorator: ast.expr) -> bool:
    name = decorator.func if isinstance(decorator, ast.Call) else decorator
    # `cache` of something without arguments is a value that is made once.
    return ast.unparse(name).rpartition(".")[2] == "lru_cache"


def _is_ordered(node: ast.expr | None) -> bool:
    return node is not None and any(
        isinstance(inner, ast.Name | ast.Attribute)
        and ast.unparse(inner).rpartition(".")[2] == "OrderedDict"
        for inner in ast.walk(node)
    )


def test_whatever_is_remembered_is_bounded_or_says_why_not() -> None:
    remembering = parsed("lru_cache", "OrderedDict")
    found = {f"{path}::{name}" for path, tree in remembering for name in memories(tree)}
    assert found == OTHERWISE.keys()


def test_a_memory_made_by_hand_is_found() -> None:
    def found(code: str) -> list[str]:
        return list(memories(ast.parse(code)))

    assert found("self._a: OrderedDict[str, int] = OrderedDict()") == ["self._a"]
    assert found("self._a = collections.OrderedDict()") == ["self._a"]
    assert found("@functools.lru_cache(maxsize=8)\ndef of(name): ...") == ["of"]
    assert found("@lru_cache\nasync def of(name): ...") == ["of"]
    assert found("self._a: Bounded[str, int] = Bounded(most=1, octets=1)") == []
