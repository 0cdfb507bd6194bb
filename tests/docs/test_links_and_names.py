"""Links lead somewhere, and names of files, tests and commands are names of something."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gateway.cli import main
from gateway.config import parse
from tests.docs.pages import PAGES, ROOT, anchors, blocks, name_of, prose, rows, spans

ARCHITECTURE = ROOT / "docs" / "architecture.md"
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_PATH = re.compile(
    r"(?:gateway|policies|tests|deploy|docs|benchmarks)(?:/[\w.-]+)+|[\w-]+\.(?:md|toml|txt)"
)
_ROOMS = {path.name for path in (ROOT / "gateway").iterdir() if path.is_dir()}


def _commands() -> Iterator[tuple[str, list[str]]]:
    """Yield every `douane ...` in the pages: where, and its words after `douane`."""
    for page in PAGES:
        found = [span for span in spans(prose(page)) if re.match(r"(\S*/)?douane ", span)]
        for language in ("sh", "console"):
            for block in blocks(page, language):
                lines = block.replace("\\\n", " ").splitlines()
                found += [line for line in lines if re.match(r"(?:[$#] )?(\S*/)?douane ", line)]
        for text in found:
            words = shlex.split(text.lstrip("$# ").rstrip(";"), comments=True)
            ends = [words.index(end) for end in ("||", "|", ">") if end in words]
            yield name_of(page), words[1 : min(ends, default=len(words))]


COMMANDS = list(_commands())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_internal_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in _LINK.findall(prose(page)):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        named = (
            anchors(target) | set(re.findall(r'<a id="([^"]+)"', target.read_text()))
            if (anchor and target.suffix == ".md" and target.is_file())
            else set()
        )
        if not target.exists() or (anchor and anchor not in named):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    missing = []
    for span in spans(prose(page)):
        room = span.split("/", maxsplit=1)[0]
        name = f"gateway/{span}" if room in _ROOMS and span.endswith(".py") else span
        if not _PATH.fullmatch(name):
            continue
        here = [ROOT / name, page.parent / name, ROOT / "docs" / name]
        if not any(path.exists() for path in here):
            missing.append(span)
    assert missing == [], name_of(page)


def test_there_are_commands_to_look_at() -> None:
    assert len(COMMANDS) > 40


def test_every_command_in_the_pages_exists() -> None:
    for page, words in COMMANDS:
        _is_there(page, words)


def _is_there(page: str, words: list[str]) -> None:
    command: click.Command = main
    waiting = list(words)
    while waiting:
        if waiting[0].startswith("-"):
            option = waiting.pop(0).partition("=")[0]
            found = next((p for p in command.params if option in p.opts), None)
            assert found is not None or option == "--help", f"{page}: {words}: no {option}"
            if isinstance(found, click.Option) and not found.is_flag and waiting:
                waiting.pop(0)
        elif isinstance(command, click.Group):
            name = waiting.pop(0)
            assert name in command.commands, f"{page}: no command {name} in {words}"
            command = command.commands[name]
        else:
            waiting.pop(0)  # an argument
            assert any(isinstance(p, click.Argument) for p in command.params), f"{page}: {words}"


def test_the_changelog_names_every_command() -> None:
    text = " ".join((ROOT / "CHANGELOG.md").read_text().split())
    listed = text.partition("The command `douane`: ")[2].partition(".")[0]
    assert set(spans(listed)) == set(main.commands)


def test_every_make_target_that_a_page_names_is_there() -> None:
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
    named = {
        name
        for page in PAGES
        for name in re.findall(r"(?:`|\n|\$ )make ([a-z-]+)", "\n" + page.read_text())
    }
    assert named >= {"run", "demo", "test", "check", "mutants"}
    assert named <= targets


def test_the_configuration_in_the_readme_is_accepted(tmp_path: Path) -> None:
    (text,) = blocks(ROOT / "README.md", "yaml")
    assert set(parse(text, file=tmp_path / "douane.yaml").servers) == {"mail"}


def test_the_program_in_the_readme_is_python() -> None:
    (text,) = blocks(ROOT / "README.md", "python")
    compile(text, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_every_room_has_its_sentence() -> None:
    told = {row["room"].strip("`") for row in rows(ARCHITECTURE, "room")}
    there = {
        f"gateway/{path.name}"
        for path in (ROOT / "gateway").iterdir()
        if not path.name.startswith("_")
    }
    assert {name for name in told if name.startswith("gateway/")} == there


def test_the_question_where_a_line_lives_has_enough_answers() -> None:
    lines = list(rows(ARCHITECTURE, "a line that..."))
    assert len(lines) >= 30
    assert len({row["a line that..."] for row in lines}) == len(lines)


def test_every_test_that_holds_an_invariant_is_there() -> None:
    held = list(rows(ARCHITECTURE, "#"))
    invariants = [row for row in held if "held by" in row]
    assert [row["#"] for row in invariants] == list("123456")
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    for row in invariants:
        named = spans(row["held by"])
        assert named, row
        assert set(named) <= there, set(named) - there


def test_what_runs_as_written_is_marked_and_calls_the_demo() -> None:
    """Blocks marked `sh` in the README can be run by a program; all other blocks are to read."""
    first, *others = blocks(ROOT / "README.md", "sh")
    assert first == "make run\n"
    assert len(others) >= 7
    assert all("var/demo" in block or "tests.demo." in block for block in others)
