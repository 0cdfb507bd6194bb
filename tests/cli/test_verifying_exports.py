"""`douane audit verify --export` needs no configuration, and says what is proven and what not."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli import audit_export, main
from tests.audit.exported import SignedLog
from tests.audit.test_cosignature import WITNESS, with_line
from tests.audit.test_witnessed_exports import export

LOG = SignedLog(20)
KEY = str(LOG.verifier)
WHOLE = b"".join(LOG.export(range(20)))


def verified(folder: Path, content: bytes, *options: str) -> Result:
    file = folder / "export.jsonl"
    file.write_bytes(content)
    arguments = ["--config", str(folder / "absent.yaml"), "audit", "verify", *options]
    return CliRunner().invoke(main, [*arguments, "--export", str(file)])


def test_a_whole_export_under_a_given_key(tmp_path: Path) -> None:
    found = verified(tmp_path, WHOLE, "--key", KEY)
    assert found.exit_code == 0
    assert "20 records, 0 to 19, of 20" in found.output
    assert "between the first and the last none is missing" in found.output
    assert "whose key it is" not in found.output
    assert "not proven: that the log was not cut off" in found.output


def test_a_selection_under_the_key_that_it_names(tmp_path: Path) -> None:
    found = verified(tmp_path, b"".join(LOG.export([2, 9])))
    assert found.exit_code == 0
    assert "left out between them: 6 records" in found.output
    assert "not proven: whose key it is" in found.output


def test_a_key_that_is_named_for_the_terminal_is_shown_harmless(tmp_path: Path) -> None:
    log = SignedLog(3, log_id="douane/\x1bcproven")
    found = verified(tmp_path, b"".join(log.export(range(3))))
    assert (found.exit_code, "\x1b" in found.output) == (0, False)


def test_as_one_json_object(tmp_path: Path) -> None:
    found = verified(tmp_path, WHOLE, "--json")
    assert json.loads(found.output) == {
        "ok": True,
        "reason": "",
        "line": None,
        "records": 20,
        "first": 0,
        "last": 19,
        "gaps": 0,
        "signed": 20,
        "root": LOG.root_of(range(20)).hex(),
        "checkpoints": 1,
        "key": KEY,
        "key_given": False,
        "witnessed": [],
    }


@pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["text", "json"])
def test_what_was_changed_is_a_no(tmp_path: Path, as_json: tuple[str, ...]) -> None:
    found = verified(tmp_path, WHOLE.replace(b"0007", b"1007"), *as_json)
    assert found.exit_code == 1
    assert "record 7 was changed" in found.output
    other = verified(tmp_path, WHOLE, "--key", str(SignedLog(1, seed=2).verifier), *as_json)
    assert other.exit_code == 1


@pytest.mark.parametrize(
    ("content", "options"),
    [(b"", ()), (b"{}\n", ()), (WHOLE, ("--key", "x")), (b"x" * 2_000_000, ())],
    ids=range(4),
)
def test_what_is_no_export_is_wrong_use(
    tmp_path: Path, content: bytes, options: tuple[str, ...]
) -> None:
    assert verified(tmp_path, content, *options).exit_code == 2


def test_a_file_that_is_not_there_is_wrong_use(tmp_path: Path) -> None:
    arguments = ["audit", "verify", "--export", str(tmp_path / "absent")]
    assert CliRunner().invoke(main, arguments).exit_code == 2


def test_a_key_alone_is_wrong_use(tmp_path: Path) -> None:
    path = tmp_path / "douane.yaml"
    path.write_text("version: 1\npublic_url: http://127.0.0.1:1\n")
    arguments = ["--config", str(path), "audit", "verify", "--key", KEY]
    assert CliRunner().invoke(main, arguments).exit_code == 2


def test_checkpoints_come_as_a_note_or_as_lines(tmp_path: Path) -> None:
    note = tmp_path / "note"
    options = ("--checkpoint", str(note))
    lines = [json.dumps({"checkpoint": LOG.note(size)}) for size in (3, 9, 20)]
    for text, status, compared in (
        (LOG.note(7), 0, 2),
        ("\n".join([*lines, '{"checkp']), 0, 4),
        ("no note\n", 1, 0),
        (SignedLog(30).note(30), 1, 0),
    ):
        note.write_text(text)
        found = verified(tmp_path, WHOLE, *options)
        assert found.exit_code == status
        assert status or f"{compared} checkpoints compared" in found.output
    assert verified(tmp_path, WHOLE, "--checkpoint", str(tmp_path / "absent")).exit_code == 2


def test_the_last_line_of_checkpoints_counts_without_a_line_break_too(tmp_path: Path) -> None:
    note = tmp_path / "note"
    note.write_text(json.dumps({"checkpoint": SignedLog(30).note(30)}))
    found = verified(tmp_path, WHOLE, "--key", KEY, "--checkpoint", str(note))
    assert (found.exit_code, "line 1" in found.output) == (1, True)


@pytest.mark.parametrize("text", ["{}\n", '{"checkpoint": 3}\n{"no": "checkpoint"}\n', '{"checkp'])
def test_a_file_without_a_checkpoint_is_not_passed_over(tmp_path: Path, text: str) -> None:
    note = tmp_path / "note"
    note.write_text(text)
    found = verified(tmp_path, WHOLE, "--checkpoint", str(note))
    assert found.exit_code == 2
    assert f"{note} holds no checkpoint" in found.output


def test_more_checkpoints_than_are_read_are_refused_and_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "note"
    note.write_text("".join(json.dumps({"checkpoint": LOG.note(n)}) + "\n" for n in (3, 9)))
    monkeypatch.setattr(audit_export, "_LARGEST_NOTES_BYTES", note.stat().st_size)
    assert verified(tmp_path, WHOLE, "--checkpoint", str(note)).exit_code == 0
    monkeypatch.setattr(audit_export, "_LARGEST_NOTES_BYTES", note.stat().st_size - 1)
    found = verified(tmp_path, WHOLE, "--checkpoint", str(note))
    assert (found.exit_code, "split it" in found.output) == (2, True)


def test_a_form_that_cannot_prove_itself_says_so() -> None:
    found = CliRunner().invoke(main, ["audit", "export", "--format", "cef", "--proof"])
    assert (found.exit_code, "cannot prove itself" in found.output) == (2, True)


@pytest.mark.parametrize(
    "options",
    [
        ("--skip", "export a"),
        ("--leaf", "0"),
        ("--skip", "export a", "--leaf", "0", "--forget", "x"),
        ("--skip", "export a", "--leaf", "one"),
    ],
    ids=range(4),
)
def test_a_skip_names_its_record(tmp_path: Path, options: tuple[str, ...]) -> None:
    arguments = ["--config", str(tmp_path / "absent.yaml"), "audit", "exports", *options]
    found = CliRunner().invoke(main, arguments)
    assert found.exit_code == 2
    assert "--skip and --leaf together" in found.output or "not a valid integer" in found.output


def test_who_has_cosigned_is_told(tmp_path: Path) -> None:
    cosigned = b"".join(export([9], with_line(9)))
    found = verified(tmp_path, cosigned, "--key", KEY, "--witness", WITNESS.vkey)
    assert found.exit_code == 0
    told = "witnessed by witness.example/w1 at 2023-03-20T12:25:47.000Z, by its clock: the first 9 records"
    assert told in found.output
    assert "written anew before this was made from record 9 on, which no given" in found.output
    assert "Give a checkpoint" not in found.output
    row = json.loads(verified(tmp_path, cosigned, "--witness", WITNESS.vkey, "--json").output)
    assert row["witnessed"] == [
        {"witness": WITNESS.name, "time": "2023-03-20T12:25:47.000Z", "size": 9}
    ]
    silent = verified(tmp_path, WHOLE, "--key", KEY, "--witness", WITNESS.vkey)
    assert silent.exit_code == 1
    assert "no checkpoint here is cosigned by witness.example/w1" in silent.output
    assert verified(tmp_path, WHOLE, "--witness", KEY).exit_code == 2
