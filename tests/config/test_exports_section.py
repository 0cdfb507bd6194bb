"""Where the record goes is said in full, over TLS, with secrets by reference."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.config.audit import Audit


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
