"""The verifier in `docs/`, which shares no code with ours, says the same of everything."""

import importlib.util
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gateway.audit.bundle import BundleCheck, NotABundle
from gateway.audit.proofs import inclusion_path
from tests.audit.exported import SignedLog
from tests.cases import sampled
from tests.servers.process import ROOT

VERIFIER = ROOT / "docs" / "verify_export.py"
LOG = SignedLog(37)
EXPORTS = {
    "whole": LOG.export(range(37), heads=[7, 20]),
    "from the middle": LOG.export(range(11, 37)),
    "a selection": LOG.export([2, 3, 9, 30], heads=[3]),
}


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verify_export", VERIFIER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


THEIRS = _loaded()


def theirs(
    file: Path, monkeypatch: pytest.MonkeyPatch, *options: str, key: str | None = None
) -> int:
    key = str(LOG.verifier) if key is None else key
    monkeypatch.setattr(sys, "argv", ["verify", str(file), "--key", key, *options])
    status: int = THEIRS.main()
    return status


def ours(content: bytes, kept: tuple[str, ...] = ()) -> int:
    lines = content.splitlines(keepends=True) if b"\r" not in content else content.split(b"\n")
    try:
        found = BundleCheck(LOG.verifier, [("kept", note) for note in kept]).run(lines)
    except NotABundle:
        return 2
    return 0 if found.ok else 1


def tamperings(lines: list[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """Yield one export for every way to change one line or two, after the header."""
    for number in range(1, len(lines)):
        before, line, after = lines[:number], lines[number], lines[number + 1 :]
        # Without one of several checkpoints, or with one twice, it proves just the same.
        if b"leaf_index" in line or not after:
            yield f"delete {number}", [*before, *after]
        if b"leaf_index" in line:
            yield f"double {number}", [*before, line, line, *after]
        yield f"truncate at {number}", before
        yield f"truncate within {number}", [*before, line[: len(line) // 2]]
        yield f"insert before {number}", [*before, b"{}\n", line, *after]
        if after:
            yield f"swap {number}", [*before, after[0], line, *after[1:]]
        yield from ((f"{how} {number}", [*before, one, *after]) for how, one in edits(line))


def edits(line: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the line with each member changed, alone and together with what hangs on it."""
    members = json.loads(line)
    for name, content in members.items():
        if isinstance(content, int):
            changed = [content + 1, content * 2, float(content), str(content), -1]
        else:
            middle = len(content) // 2
            other = "1" if content[middle] == "0" else "0"
            changed = [content[:middle] + other + content[middle + 1 :], content[1:], "", None]
        for number, one in enumerate(changed):
            yield f"{name} {number} of", written({**members, name: one})
        yield f"{name} dropped from", written({k: v for k, v in members.items() if k != name})
    if "body" in members:
        body = members["body"].replace("code", "c0de")
        forged = {**members, "body": body, "leaf_hash": THEIRS.sha(b"\0", body.encode()).hex()}
        yield "body and hash of", written(forged)
        yield (
            "left out",
            written(
                {
                    "leaf_index": members["leaf_index"],
                    "left_out": 1,
                    "root": THEIRS.sha(b"\0", body.encode()).hex(),
                }
            ),
        )
    if "checkpoint" in members:
        for size in (0, 1, 36, 37):
            yield f"note of {size} in", written({"checkpoint": LOG.note(size)})
        another_key, another_log = SignedLog(37, seed=2), SignedLog(37, log_id="douane/ffff")
        yield "another key in", written({"checkpoint": another_key.note(37)})
        yield "another log in", written({"checkpoint": another_log.note(37)})


def written(members: object) -> bytes:
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


@pytest.mark.parametrize("name", EXPORTS)
def test_both_accept_what_was_signed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"".join(EXPORTS[name])
    (tmp_path / "export").write_bytes(content)
    assert (theirs(tmp_path / "export", monkeypatch), ours(content)) == (0, 0)


@pytest.mark.parametrize(
    ("kept", "status"),
    [
        (json.dumps({"checkpoint": LOG.note(20)}), 0),
        (json.dumps({"checkpoint": LOG.note(20)}) + '\n{"checkpoint": "dou', 0),
        (json.dumps({"checkpoint": SignedLog(50).note(50)}), 1),
        ("{}\n", 2),
        ('{"checkp', 2),
        ("", 1),
    ],
)
def test_a_file_of_checkpoints_is_never_passed_over(
    kept: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "export").write_bytes(b"".join(EXPORTS["whole"]))
    (tmp_path / "kept").write_text(kept)
    told = theirs(tmp_path / "export", monkeypatch, "--checkpoint", str(tmp_path / "kept"))
    assert told == status


@pytest.mark.parametrize("name", sampled(EXPORTS, {"a selection"}.__contains__))
def test_both_refuse_every_tampering(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, file, tried = EXPORTS[name], tmp_path / "export", 0
    for how, changed in tamperings(lines):
        content = b"".join(changed)
        if content == b"".join(lines):
            continue
        file.write_bytes(content)
        assert (how, theirs(file, monkeypatch), ours(content)) == (how, 1, 1)
        tried += 1
    assert tried > 15 * len(lines)


def test_both_say_the_same_of_random_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice, file = random.Random(11), tmp_path / "export"
    whole = b"".join(EXPORTS["a selection"])
    for _ in range(400):
        content = bytearray(whole)
        for _ in range(dice.randrange(1, 4)):
            place = dice.randrange(len(content))
            content[place : place + dice.randrange(2)] = dice.randbytes(dice.randrange(2))
        file.write_bytes(content)
        said = ours(bytes(content))
        assert (theirs(file, monkeypatch) == 0) is (said == 0), bytes(content)


def test_both_hold_an_export_to_checkpoints_that_were_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, note = tmp_path / "export", tmp_path / "note"
    for content, size, expected in (
        (b"".join(EXPORTS["whole"]), 37, 0),
        (b"".join(EXPORTS["whole"]), 5, 0),
        (b"".join(EXPORTS["a selection"]), 29, 1),
        (b"".join(LOG.export(range(20), size=20)), 37, 1),
    ):
        file.write_bytes(content)
        note.write_text(LOG.note(size))
        found = theirs(file, monkeypatch, "--checkpoint", str(note))
        assert (found, ours(content, (LOG.note(size),))) == (expected, expected)
    # What the gateway appends to a file: a line for each, of which the last may be cut off.
    notes = [json.dumps({"checkpoint": LOG.note(size)}) + "\n" for size in (3, 3, 29)]
    file.write_bytes(b"".join(EXPORTS["whole"]))
    note.write_text("".join(notes) + '{"check')
    assert theirs(file, monkeypatch, "--checkpoint", str(note)) == 0
    note.write_text("".join([*notes, json.dumps({"checkpoint": LOG.note(37)[:-9]}), "\n"]))
    assert theirs(file, monkeypatch, "--checkpoint", str(note)) == 1
    other = SignedLog(37)
    other.leaves[4] = other.leaves[3]
    note.write_text(other.note(5))
    file.write_bytes(b"".join(EXPORTS["whole"]))
    assert theirs(file, monkeypatch, "--checkpoint", str(note)) == 1


@pytest.mark.parametrize("index", [0, 11, 36])
def test_an_inclusion_proof_is_verified(
    index: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "proof"
    proof: dict[str, Any] = {
        "leaf_index": index,
        "body": LOG.bodies[index].decode(),
        "size": 37,
        "path": [LOG.root_of(part).hex() for part in inclusion_path(index, 37)],
        "checkpoint": LOG.note(37),
    }
    file.write_bytes(written({"id": "x", "proof": proof}))
    assert theirs(file, monkeypatch, "--proof") == 0
    for changed in (
        {"body": "{}"},
        {"leaf_index": index + 1},
        {"path": proof["path"][1:]},
        {"path": [*proof["path"], "00" * 32]},
        {"checkpoint": LOG.note(36)},
        {"checkpoint": SignedLog(37, seed=2).note(37)},
    ):
        file.write_bytes(written({"id": "x", "proof": {**proof, **changed}}))
        assert theirs(file, monkeypatch, "--proof") == 1


def run_alone(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run it where nothing of ours is: another folder, no environment, isolated."""
    return subprocess.run(
        [sys.executable, "-I", str(VERIFIER), *arguments],
        cwd=folder,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_runs_where_nothing_of_ours_is(tmp_path: Path) -> None:
    file = tmp_path / "export"
    file.write_bytes(b"".join(EXPORTS["whole"]))
    root = LOG.root_of(range(37)).hex()
    done = run_alone(tmp_path, str(file), "--key", str(LOG.verifier))
    said = f"what was signed: 37 records, of 37 that were signed; root {root}\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
    done = run_alone(tmp_path, str(file))
    assert "by the key that it names" in done.stdout
    done = run_alone(tmp_path, str(file), "--key", str(SignedLog(1, seed=2).verifier))
    assert (done.returncode, done.stdout) == (1, "NOT what was signed: it is of another log\n")
    for wrong in (tmp_path / "absent", VERIFIER):
        assert run_alone(tmp_path, str(wrong)).returncode == 2


def test_it_is_short_and_imports_nothing_of_ours() -> None:
    text = VERIFIER.read_text()
    assert len(text.splitlines()) <= 150
    assert "gateway" not in text
