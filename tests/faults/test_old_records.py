"""Old records leave a running gateway's log by a command, and are proven afterwards."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.backends import log_in
from tests.faults.scene import scene
from tests.running import Running

CALLS = 150


@pytest.mark.full
def test_old_records_go_into_files_and_then_out_of_the_log(tmp_path: Path) -> None:
    archive = tmp_path / "old"
    with scene(tmp_path, audit={"retention": {"archive": str(archive)}}) as at:
        running = at.running
        for _ in range(CALLS):
            at.call()
        time.sleep(1.5)
        early = running.douane("audit", "prune", "--before", "1s")
        assert early.returncode != 0
        assert "are in no archive yet" in early.stderr

        rows = running.rows("audit", "archive", "--before", "1s")
        assert [(row["first"], row["last"]) for row in rows] == [(0, 255)]
        running.rows("audit", "hold", "--since", "1h")
        deadline = time.monotonic() + 120
        while "has had no records" in (held := _pruned(running)).stderr:
            assert (
                time.monotonic() < deadline
            )  # what is learned from records is kept every few seconds
        assert "holds the records from 0 on" in held.stderr
        running.rows("audit", "hold", "--release")
        (row,) = running.rows("audit", "prune", "--before", "1s")
        assert (row["from"], row["to"]) == (0, 256)

        assert at.call().code is None
        with log_in(tmp_path) as reader:
            assert next(iter(reader.export()))["leaf_index"] == 256
        assert at.verified() == ""
        (file,) = archive.glob("*.jsonl")
        good = running.douane("audit", "verify", "--segment", str(file))
        assert (good.returncode, "is what was signed: records 0 to 255" in good.stdout) == (0, True)

        lines = file.read_text().splitlines(keepends=True)
        changed = json.loads(lines[5])
        changed["body"] = changed["body"].replace("observed", "approved")
        file.write_text("".join([*lines[:5], json.dumps(changed) + "\n", *lines[6:]]))
        bad = running.douane("audit", "verify", "--segment", str(file))
        assert bad.returncode == 1
        assert "record 4 was changed, line 6" in bad.stdout

        codes = [one.get("code") for one in at.log() if one["kind"] in {"system", "admin"}]
        for code in ("archive", "log_archived", "prune", "log_pruned", "hold"):
            assert code in codes


def _pruned(running: Running) -> subprocess.CompletedProcess[str]:
    return running.douane("audit", "prune", "--before", "1s")
