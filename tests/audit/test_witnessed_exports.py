"""An export says who has cosigned it; both verifiers in `docs/` take it as well."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.audit.bundle import BundleCheck, BundleVerification
from gateway.audit.cosignature import Witnessed, WitnessKey
from tests.audit.exported import SignedLog
from tests.audit.test_cosignature import AT, KEY, LOG, WITNESS, with_line
from tests.export.witness import Witness
from tests.servers.process import ROOT

OTHER = WitnessKey.parse(Witness("other.example", seed=9).vkey)


def export(sizes: Sequence[int], note: str) -> list[bytes]:
    """Return an export with checkpoints of `sizes`, of which that of 9 is `note`."""
    lines = LOG.export(range(20), heads=[size - 1 for size in sizes])
    plain = json.dumps({"checkpoint": LOG.note(9)}, separators=(",", ":"), ensure_ascii=False)
    cosigned = json.dumps({"checkpoint": note}, separators=(",", ":"), ensure_ascii=False)
    return [line.replace(plain.encode(), cosigned.encode()) for line in lines]


def checked(lines: list[bytes], *keys: WitnessKey, kept: Sequence[str] = ()) -> BundleVerification:
    return BundleCheck(LOG.verifier, [("kept", note) for note in kept], keys).run(lines)


def test_an_export_names_the_newest_that_a_witness_has_cosigned() -> None:
    lines = export([4, 9, 15], with_line(9))
    found = checked(lines, KEY)
    assert (found.ok, found.checkpoints) == (True, 4)
    assert found.witnessed == (Witnessed(name=WITNESS.name, time=AT, size=9),)
    assert checked(lines).ok
    assert checked(lines).witnessed == ()


def test_a_checkpoint_that_was_kept_elsewhere_counts_too() -> None:
    lines = LOG.export(range(20))
    found = checked(lines, KEY, kept=[LOG.note(3), with_line(12)])
    assert (found.ok, found.witnessed[0].size) == (True, 12)


def test_a_witness_that_has_not_cosigned_is_a_no() -> None:
    found = checked(export([9], with_line(9)), KEY, OTHER)
    assert (found.ok, found.reason) == (False, "no checkpoint here is cosigned by other.example")


def test_a_cosignature_that_is_not_its_own_is_a_no() -> None:
    forged = LOG.note(9) + WITNESS.line("another text\n", AT)
    found = checked(export([9], forged), KEY)
    assert not found.ok
    assert found.reason == (
        "the checkpoint: the cosignature of witness.example/w1 does not match the note"
    )
    assert checked(export([9], forged)).ok  # who does not ask for that witness passes it over
    kept = checked(LOG.export(range(20)), KEY, kept=[forged])
    assert kept.reason.startswith("kept: the cosignature")


def test_a_cosigned_checkpoint_of_other_records_is_not_counted() -> None:
    other = SignedLog(20)
    other.leaves[4] = other.leaves[3]
    note = other.note(9)
    note += WITNESS.line(note.rpartition("\n\n")[0] + "\n", AT)
    found = checked(export([9], note), KEY)
    assert (found.ok, found.witnessed) == (False, ())


def run(script: str, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a verifier where nothing of ours is."""
    return subprocess.run(
        [sys.executable, "-I", str(ROOT / "docs" / script), *arguments],
        cwd=folder,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_verifier_of_exports_passes_over_what_witnesses_said(tmp_path: Path) -> None:
    (tmp_path / "export").write_bytes(b"".join(export([9], with_line(9))))
    (tmp_path / "note").write_text(with_line(9))
    options = ("--key", str(LOG.verifier), "--checkpoint", "note")
    assert run("verify_export.py", tmp_path, "export", *options).returncode == 0


@pytest.mark.parametrize("form", ["export", "lines", "note"])
def test_the_verifier_of_witnesses_says_the_same(form: str, tmp_path: Path) -> None:
    lines = [json.dumps({"checkpoint": note}) + "\n" for note in (with_line(9), LOG.note(12))]
    content = {
        "export": b"".join(export([4, 9, 15], with_line(9))),
        "lines": "".join([*lines, '{"check']).encode(),
        "note": with_line(9).encode(),
    }[form]
    (tmp_path / "file").write_bytes(content)
    done = run("verify_witness.py", tmp_path, "file", WITNESS.vkey)
    root = LOG.root_of(range(9)).hex()
    said = f"at {AT} s since 1970, by its clock: {LOG.verifier.name}, 9 records; root {root}\n"
    assert (done.returncode, done.stdout) == (0, f"cosigned by {WITNESS.name} {said}"), done.stderr
    silent = run("verify_witness.py", tmp_path, "file", str(OTHER))
    assert (silent.returncode, "no checkpoint here" in silent.stdout) == (1, True)
    forged = WITNESS.line("another text\n", AT).encode().decode()
    (tmp_path / "file").write_text(LOG.note(9) + forged)
    wrong = run("verify_witness.py", tmp_path, "file", WITNESS.vkey)
    assert (wrong.returncode, "does not match" in wrong.stdout) == (1, True)


def test_what_cannot_be_read_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "note").write_text(with_line(9))
    (tmp_path / "broken").write_text('{"checkpoint": 4}\n')
    for arguments in (
        ("absent", WITNESS.vkey),
        ("broken", WITNESS.vkey),
        ("note", str(LOG.verifier)),
        ("note", WITNESS.vkey[:-1]),
    ):
        assert run("verify_witness.py", tmp_path, *arguments).returncode == 2


def test_the_verifier_of_witnesses_is_short_and_imports_nothing_of_ours() -> None:
    text = (ROOT / "docs" / "verify_witness.py").read_text()
    assert len(text.splitlines()) <= 80
    assert "gateway" not in text
