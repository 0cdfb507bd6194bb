"""docs/hosts.md shows lines of programs that are played, and says what the package does."""

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import douane_host
from gateway.admin.rows import rfc3339
from gateway.cli import main
from tests.docs.pages import ROOT, blocks, prose, spans

PAGE = ROOT / "docs" / "hosts.md"
EXAMPLES = sorted((ROOT / "hosts").glob("*/examples/*.*"))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


def _programs() -> Iterator[list[str]]:
    for path in EXAMPLES:
        yield _lines(path.read_text())


@pytest.mark.parametrize("shown", [*blocks(PAGE, "python"), *blocks(PAGE, "js")])
def test_what_is_shown_stands_in_a_program_that_is_played(shown: str) -> None:
    wanted = "\n".join(_lines(shown))
    assert any(wanted in "\n".join(program) for program in _programs())


def test_all_that_the_package_offers_is_told() -> None:
    told = {span.partition("(")[0] for span in spans(prose(PAGE))}
    assert set(douane_host.__all__) - {"Task"} <= told


ASKED = {
    "intranet": (412, 412, 0, 2 * 3600),
    "clerk": (1904, 3, 0, 86400),
    "desk": (77, 0, 77, 4 * 60),
}
"""Clients with their calls, those without a task, those whose task does not count, and when."""


class Answering:
    def call(self, command: str, **_: Any) -> Any:
        if command != "audit.ask":
            return {"roles": []}
        names = ("calls", "undeclared", "ignored")
        rows = [
            {
                "client": name,
                **dict(zip(names, counts, strict=True)),
                "last": rfc3339(time.time() - before - 1),
            }
            for name, (*counts, before) in ASKED.items()
        ]
        return {"rows": rows, "complete": True, "next": None}


def test_the_answer_that_is_shown_is_how_one_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def connect(_: object) -> Iterator[Answering]:
        yield Answering()

    monkeypatch.setattr(sys.modules["gateway.cli.ask"], "connect", connect)
    command, *shown = blocks(PAGE, "console")[-1].splitlines()
    assert command.startswith("$ douane ")
    config = tmp_path / "douane.yaml"
    config.write_text('{"version": 1, "public_url": "http://127.0.0.1:1", "servers": {}}')
    ran = CliRunner().invoke(main, ["--config", str(config), *command.split()[2:]])
    assert (ran.exit_code, ran.stdout.splitlines()) == (0, shown)


def test_the_versions_are_those_that_are_installed() -> None:
    locked = " ".join(path.read_text() for path in sorted(ROOT.glob("requirements-hosts*.txt")))
    text = " ".join(prose(PAGE).split())
    for name, version in re.findall(r"`([a-z-]+)` (\d[\d.]+\d)", text):
        assert f"{name}=={version} " in locked, name
    assert len(re.findall(r"`([a-z-]+)` (\d[\d.]+\d)", text)) == 6


def test_the_licence_is_the_projects() -> None:
    for copy in (ROOT / "hosts").glob("*/LICENSE"):
        assert copy.read_text() == (ROOT / "LICENSE").read_text()
