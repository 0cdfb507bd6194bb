"""The configuration says who follows the log, and where the gateway may go for it."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.config import Config, load
from gateway.ports.following import NotDelivered, StoredRecord
from gateway.web.metrics import Metrics
from gateway.wiring.exporting import Outlet, configured_in, outlets_of

RECORD = StoredRecord(leaf_index=0, leaf_hash=b"\0" * 32, body=b'{"kind":"system"}')


def config(folder: Path, audit: Any) -> Config:
    path = folder / "douane.yaml"
    said = {
        "version": 1,
        "public_url": "http://127.0.0.1:1",
        "audit": audit,
        "alerts": {"baselines": "off"},
    }
    path.write_text(orjson.dumps(said).decode())
    return load(path, {"TOKEN": "Bearer x"})


def outlets(folder: Path, audit: Any) -> dict[str, Outlet]:
    found = outlets_of(config(folder, audit), Metrics())
    return {outlet.name: outlet for outlet in found}


def test_who_is_configured_is_who_follows(tmp_path: Path) -> None:
    audit = {
        "export": {
            "disk": {"format": "jsonl", "file": "out", "batch": 9},
            "siem": {"format": "ocsf", "url": "https://siem.example/in"},
        },
        "checkpoints": {"file": "notes", "url": "https://notary.example/"},
    }
    found = outlets(tmp_path, audit)
    assert found.keys() == configured_in(config(tmp_path, audit))
    assert {name: (one.page, one.of_checkpoints) for name, one in found.items()} == {
        "export disk": (9, False),
        "export siem": (500, False),
        "checkpoints file": (100, True),
        "checkpoints url": (1, True),
    }
    assert outlets(tmp_path, {}) == {}
    assert configured_in(config(tmp_path, {})) == frozenset()


async def test_checkpoints_are_lines_as_an_export_holds_them(tmp_path: Path) -> None:
    found = outlets(tmp_path, {"checkpoints": {"file": "notes"}})
    note = StoredRecord(leaf_index=4, leaf_hash=b"", body="a\n5\nroot\n\n\u2014 a b\n".encode())
    await found["checkpoints file"].sink.deliver([note, note])
    lines = (tmp_path / "notes").read_bytes().splitlines()
    assert [orjson.loads(line) for line in lines] == [{"checkpoint": note.body.decode()}] * 2


@pytest.mark.parametrize("url", ["https://10.0.0.1/in", "https://169.254.169.254/latest"])
async def test_an_address_that_is_not_public_has_to_be_allowed(tmp_path: Path, url: str) -> None:
    found = outlets(tmp_path, {"export": {"siem": {"format": "jsonl", "url": url}}})
    with pytest.raises(NotDelivered, match="not public"):
        await found["export siem"].sink.deliver([RECORD])


async def test_an_address_of_this_machine_is_meant_where_it_is_written(tmp_path: Path) -> None:
    found = outlets(
        tmp_path, {"export": {"siem": {"format": "jsonl", "url": "http://127.0.0.1:9/"}}}
    )
    with pytest.raises(NotDelivered, match="ConnectFailed"):
        await found["export siem"].sink.deliver([RECORD])
