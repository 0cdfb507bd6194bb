"""How many lines there are to read: of everything, and of what a call can pass through.

    make size

A line counts if a token stands on it that is neither a comment nor part of a docstring. The trusted
core is what the modules in `ROOTS` import, directly or not, apart from imports for types alone: a
mistake in any of them can let a call through, or let it go unrecorded. What puts the modules
together (`gateway.wiring`) is not imported by any of them and is counted by itself.
"""

import ast
import functools
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import gateway

ROOTS = (
    "gateway.http1.connection",
    "gateway.web.app",
    "gateway.web.mcp",
    "gateway.web.peers",
    "gateway.oauth.gate",
    "gateway.pipeline.pipeline",
    "gateway.pipeline.limits",
    "gateway.policy.host",
    "gateway.policy.reload",
    "gateway.policy.stopping",
    "gateway.storage.call_store",
    "gateway.upstream.client",
    "gateway.upstream.crawler",
    "gateway.upstream.directory",
    "gateway.upstream.exchange",
    "gateway.upstream.guarded",
    "gateway.upstream.http",
    "gateway.upstream.listener",
    "gateway.upstream.watched",
)
"""The parts of the corridor that are handed to each other and do not import each other."""

_HOME = Path(gateway.__file__).parent
_BLANK = frozenset(
    {
        tokenize.COMMENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
        tokenize.INDENT,
        tokenize.NEWLINE,
        tokenize.NL,
    }
)


def code_lines(source: bytes) -> int:
    """Return how many lines of a module have a token that is no comment and no docstring."""
    lines: set[int] = set()
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        if token.type not in _BLANK:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines.difference(*map(_spanned, _texts(ast.parse(source)))))


def _texts(tree: ast.AST) -> Iterator[ast.Expr]:
    """Yield the statements that are nothing but a text: docstrings, of attributes as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
            yield node


def _spanned(node: ast.Expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def modules(home: Path = _HOME) -> dict[str, bytes]:
    """Return the source of every module below a package's folder, by its dotted name."""
    return {name_of(path, home.parent): path.read_bytes() for path in home.rglob("*.py")}


def name_of(path: Path, above: Path) -> str:
    """Return the dotted name of the module at `path`, of a package in the folder `above`."""
    return ".".join(path.relative_to(above).with_suffix("").parts).removesuffix(".__init__")


def imported(source: bytes, known: Iterable[str]) -> frozenset[str]:
    """Return which of the known modules a module imports when it runs, at whatever place."""
    return all_imported(source).intersection(known)


@functools.cache
def all_imported(source: bytes) -> frozenset[str]:
    """Return every name that a module imports when it runs: modules, and what it takes out of them."""
    return frozenset(name for node in _running(ast.parse(source)) for name in _names(node))


def _running(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports, but those that only a type checker sees."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not _for_types(node):
            yield from _running(node)


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _names(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Yield what may be a module: `from a import b` is of `a`, or of `a.b`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif node.module is not None:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def core(sources: Mapping[str, bytes], roots: Iterable[str] = ROOTS) -> frozenset[str]:
    """Return the modules that the roots import, directly or not, and the roots."""
    found: set[str] = set()
    waiting = [*roots]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += imported(sources[name], sources)
    return frozenset(found)


def by_room(sources: Mapping[str, bytes], names: Iterable[str]) -> Counter[str]:
    """Return the code lines of these modules by the room that they are in."""
    rooms: Counter[str] = Counter()
    for name in names:
        rooms[".".join(name.split(".")[:2])] += code_lines(sources[name])
    return rooms


def main() -> None:
    """Print the table."""
    sources = modules()
    whole, trusted = by_room(sources, sources), by_room(sources, core(sources))
    out = sys.stdout
    out.write(f"{'room':24}{'code lines':>12}{'of these core':>16}\n")
    for room, lines in whole.most_common():
        out.write(f"{room:24}{lines:12,}{trusted[room]:16,}\n")
    out.write(f"{'together':24}{whole.total():12,}{trusted.total():16,}\n")


if __name__ == "__main__":
    main()
