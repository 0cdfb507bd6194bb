"""Where the record goes is said in full, over TLS, with secrets by reference."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.config.audit import Audit
from tests.audit.exported import SignedLog
from tests.export.witness import Witness


def audit(export: Any = None, **checkpoints: Any) -> Audit:
    return Audit.model_validate(
        {"export": export or {}, "checkpoints": checkpoints}, context={"folder": Path("/etc/d")}
    )


def test_an_export_is_to_a_file_or_a_url() -> None:
    found = audit(
        {
            "siem": {"format": "ocsf", "url": "https://siem.example/in", "headers": {"X": "env:A"}},
            "disk": {"format": "jsonl", "file": "out.jsonl", "batch": 1, "rotate": 4096},
        },
        file="notes",
        url="http://127.0.0.1:9/notes",
        headers={"Authorization": "file:token"},
    )
    assert found.export["disk"].file == Path("/etc/d/out.jsonl")
    assert found.export["siem"].timeout == 10
    assert [str(one) for one in found.references] == [
        "file:/etc/d/token",
        "env:A",
    ]


@pytest.mark.parametrize(
    ("export", "why"),
    [
        ({"format": "ocsf"}, "either `file` or `url`"),
        ({"format": "ocsf", "file": "a", "url": "https://a.example"}, "either `file` or `url`"),
        ({"format": "ocsf", "url": "http://siem.example/"}, "must be https"),
        ({"format": "ocsf", "url": "https://me:pw@siem.example/"}, "user name or password"),
        ({"format": "ocsf", "file": "a", "headers": {"X": "env:A"}}, "`url` only"),
        ({"format": "ocsf", "url": "https://a", "headers": {"X": "secret"}}, "by reference"),
        ({"format": "ocsf", "url": "https://a", "headers": {"Host": "env:A"}}, "no header"),
        ({"format": "ocsf", "url": "https://a", "headers": {"X\r\nY": "env:A"}}, "no header"),
        ({"format": "xml", "file": "a"}, "jsonl"),
        ({"format": "csv", "file": "a", "batch": 0}, "greater than"),
        ({"format": "csv", "file": "a", "rotate": 1}, "greater than"),
        ({"format": "csv", "file": "a", "timeout": "0s"}, "above zero"),
        ({"format": "csv", "file": "a", "where": "x"}, "Extra inputs"),
    ],
    ids=range(13),
)
def test_what_is_half_said_is_refused(export: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        audit({"siem": export})


@pytest.mark.parametrize("name", ["", "SIEM", "a b", "-a", "x" * 33])
def test_an_export_has_a_plain_name(name: str) -> None:
    with pytest.raises(ValidationError, match="an export's name"):
        audit({name: {"format": "csv", "file": "a"}})


def test_checkpoints_go_out_over_tls_too() -> None:
    with pytest.raises(ValidationError, match="must be https"):
        audit(url="http://elsewhere.example/")
    with pytest.raises(ValidationError, match="`url` only"):
        audit(file="notes", headers={"X": "env:A"})


WITNESS = Witness()


def test_a_witness_is_a_place_and_a_key() -> None:
    one = {"url": "https://w.example/prefix", "key": f" {WITNESS.vkey}\n"}
    near = {"url": "http://127.0.0.1:9", "key": Witness(seed=9).vkey, "every": "5s"}
    found = audit(witnesses={"w1": one, "near": near}).checkpoints.witnesses
    assert (found["w1"].key, found["w1"].every, found["near"].every) == (WITNESS.vkey, 60, 5)


@pytest.mark.parametrize(
    ("name", "changed", "why"),
    [
        ("W1", {}, "a witness's name"),
        ("w1", {"url": "http://w.example/"}, "must be https"),
        ("w1", {"url": "https://w.example/?log=1"}, "has no query"),
        ("w1", {"url": "https://me:pw@w.example/"}, "user name or password"),
        ("w1", {"key": SignedLog(1).verifier}, "not a witness's key"),
        ("w1", {"key": str(SignedLog(1).verifier)}, "not a witness's key"),
        ("w1", {"key": WITNESS.vkey.replace("w1", "w2", 1)}, "does not belong"),
        ("w1", {"every": "0s"}, "above zero"),
        ("w1", {"headers": {}}, "Extra inputs"),
    ],
    ids=range(9),
)
def test_a_witness_that_is_half_said_is_refused(
    name: str, changed: dict[str, Any], why: str
) -> None:
    one = {"url": "https://w.example/", "key": WITNESS.vkey, **changed}
    with pytest.raises(ValidationError, match=why):
        audit(witnesses={name: one})


def test_two_names_for_one_witness_are_refused() -> None:
    one = {"url": "https://w.example/", "key": WITNESS.vkey}
    with pytest.raises(ValidationError, match="two witnesses have the same key"):
        audit(witnesses={"w1": one, "w2": {**one, "url": "https://w.example/2"}})
