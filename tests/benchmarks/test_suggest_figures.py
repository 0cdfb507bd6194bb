"""How suggested labels are compared with what others say."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.flow import suggest as figures

LINES: list[dict[str, Any]] = [
    {"server": "s", "name": "get_x", "annotations": {"readOnlyHint": True}},
    {"server": "s", "name": "get_y", "annotations": {"readOnlyHint": False}},
    {"server": "s", "name": "send_x", "annotations": {"readOnlyHint": True}},
    {"server": "s", "name": "zap", "annotations": None},
]
ARGUMENTS: dict[str, Any] = {"to": {}, "cc": {}, "body": {}}
TOOLS = {"s": [{"name": "send", "inputSchema": {"properties": ARGUMENTS}}, {"name": "get_x"}]}
LABELS = """\
servers:
  s:
    tools:
      send: {effect: egress, destination: [to, body]}
      get_x: {effect: write}
"""


def test_agreement_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "manifests").mkdir()
    lines = "\n".join(map(json.dumps, LINES)).encode()
    (tmp_path / "manifests" / "benign.jsonl.gz").write_bytes(gzip.compress(lines))
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "a.labels.yaml").write_text(LABELS)
    (tmp_path / "suites" / "a.tools.json").write_text(json.dumps(TOOLS))
    monkeypatch.setattr("sys.argv", ["suggest", "--dir", str(tmp_path), "--show"])
    figures.main()
    told, _, missed = capsys.readouterr().out.partition("\n}\n")
    half = {"right": 1, "wrong": 1, "missing": 1, "precision": 50.0, "recall": 50.0}
    assert json.loads(told + "}") == {
        "annotations": {"tools": 4, "without_effect": 1, "annotated": 3, "read": half},
        "a": {
            "tools": 2,
            "effects_alike": 1,
            "destination": half,
            "payload": {"right": 0, "wrong": 1, "missing": 0, "precision": 0.0, "recall": 0.0},
        },
    }
    assert [line.split(":")[0] for line in missed.splitlines()] == [
        "s/get_y",
        "s/send_x",
        "s/send",
        "s/get_x",
    ]
