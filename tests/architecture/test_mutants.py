"""The lists of mutants cannot rot: every edit fits, every test exists, everything is covered."""

import ast
import functools
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.listed import ROOT, Mutant, load, misfits, room_of, rooms
from tests.mutants.runs import COPIED

PIPELINE = ROOT / "gateway" / "pipeline"
_TEST = re.compile(r"tests/[a-z0-9_/]+\.py(::[A-Za-z]\w*)?::test_\w+")
_FUNCTION = re.compile(r"(?m)^(?:async )?def (\w+)\(")
"""To parse each file takes ten times as long: only those are of which a test in a class is named."""


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def names_of_tests(path: Path, *, in_classes: bool) -> set[str]:
    """Return the names of the tests in a file: `test_a`, and if wanted `TestB::test_a` with the inherited."""
    if not in_classes:
        return set(_FUNCTION.findall(path.read_text()))
    tree = parsed(path)
    own = classes = classes_of(tree)
    for node in tree.body if own else ():
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
            module = (ROOT / str(node.module).replace(".", "/")).with_suffix(".py")
            classes = classes_of(parsed(module)) | classes
    found = functions_of(tree)
    for name, node in own.items():
        bases = [classes[b.id] for b in node.bases if isinstance(b, ast.Name) and b.id in classes]
        found |= {f"{name}::{test}" for part in (node, *bases) for test in functions_of(part)}
    return found


def classes_of(module: ast.Module) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}


def functions_of(node: ast.Module | ast.ClassDef) -> set[str]:
    functions = (n for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return {function.name for function in functions}


def test_every_edit_fits_the_code() -> None:
    assert misfits(load()) == []


def test_every_guard_stands_in_the_list_of_its_folder() -> None:
    listed = [(room, one) for room, mutants in rooms().items() for one in mutants]
    assert [one.guard for room, one in listed if room != room_of(one.file)] == []


def test_every_edit_changes_something_that_is_copied() -> None:
    wrong = [
        one.guard
        for one in load()
        if one.before == one.after or one.file.partition("/")[0] not in COPIED
    ]
    assert wrong == []


def test_every_edit_leaves_a_program(tmp_path: Path) -> None:
    """An edit that leaves a syntax error or an unknown name would go red for the wrong reason."""
    for number, one in enumerate(load()):
        if one.file.endswith(".py"):
            edited = (ROOT / one.file).read_text().replace(one.before, one.after)
            (tmp_path / f"{number}.py").write_text(edited)
    ruff = Path(sys.executable).parent / "ruff"
    options = ("--isolated", "--no-cache", "--select", "F821", "--output-format", "concise")
    done = subprocess.run(
        [ruff, "check", *options, tmp_path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "All checks passed!\n")


def test_every_guard_is_named_once_and_by_its_tests() -> None:
    assert [name for name, times in Counter(m.guard for m in load()).items() if times > 1] == []
    tests = set(named(load()))
    in_classes = {name(test) for test in tests if test.count("::") > 1}
    known = {
        path: names_of_tests(ROOT / path, in_classes=path in in_classes)
        for path in {name(test) for test in tests}
    }
    missing = [test for test in tests if test.partition("::")[2] not in known[name(test)]]
    assert missing == []


def named(mutants: list[Mutant]) -> list[str]:
    tests = [test for one in mutants for test in one.tests]
    assert [one.guard for one in mutants if not one.tests] == []
    assert [test for test in tests if not _TEST.fullmatch(test)] == []
    return tests


def name(test: str) -> str:
    return test.partition("::")[0]


@pytest.mark.parametrize("invariant", range(1, 7))
def test_every_invariant_has_its_mutants(invariant: int) -> None:
    assert len([one for one in load() if one.invariant == invariant]) >= 3


def test_every_folder_has_its_mutants() -> None:
    folders = {room_of(str(path.relative_to(ROOT))) for path in ROOT.glob("gateway/**/*.py")}
    # Names alone, without a guard, and what a compiler has made.
    assert folders - rooms().keys() == {"ports", "planes_stubs"}


def test_every_part_of_the_pipeline_has_its_mutants() -> None:
    parts = {path.name for path in PIPELINE.glob("*.py")} - {"__init__.py"}
    mutated = {Path(one.file).name for one in load() if (ROOT / one.file).parent == PIPELINE}
    assert parts - mutated == set()
