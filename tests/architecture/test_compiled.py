"""What is compiled before a run is what the run would make, and finds."""

import re
from pathlib import Path

from _pytest.assertion.rewrite import _read_pyc

from tests.compiled import ROOT, compiled, kept_in, loaded, rewritten
from tests.quick import ROOMS_LEFT_OUT

HOLDS = "def test_it():\n    assert 1 + 1 == 2\n"
FAILS = "def test_it():\n    assert 1 + 1 == 3\n"


def test_pytest_finds_what_it_would_have_made(tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    for text in (HOLDS, FAILS):
        path.write_text(text)
        assert rewritten(path)
        found = _read_pyc(path, kept_in(path))
        assert found is not None
        assert "@pytest_ar" in found.co_names
        assert not rewritten(path)


def test_what_is_no_test_is_compiled_as_for_every_program(tmp_path: Path) -> None:
    (tmp_path / "world.py").write_text("A = 1\n")
    compiled(tmp_path / "world.py")
    assert [path.suffix for path in (tmp_path / "__pycache__").iterdir()] == [".pyc"]
    assert not kept_in(tmp_path / "world.py").exists()


def test_a_quick_run_has_nothing_compiled_that_it_leaves_out() -> None:
    every, quick = ({*loaded(ROOT, quick=quick)} for quick in (False, True))
    assert {Path(__file__), ROOT / "gateway/wire/revisions.py"} <= every
    rooms = {re.sub("/.*", "", str(path.relative_to(ROOT / "tests"))) for path in every - quick}
    assert rooms >= ROOMS_LEFT_OUT
    assert "storage" in rooms  # what is over a PostgreSQL
    assert ROOT / "tests/conftest.py" in quick
