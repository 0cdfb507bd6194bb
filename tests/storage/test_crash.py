"""Killed under load, again and again: what was acknowledged is there, and the log is whole."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

from gateway.storage.database import DATABASE
from gateway.storage.verify import Finding, own_verifier, verify

KILLS = 5
LINES_BEFORE_A_KILL = 300
PROGRAM = Path(__file__).with_name("appending_process.py")


def killed_under_load(data_dir, generation):
    """Run the program until it has acknowledged a lot, kill it, and return all it said."""
    process = subprocess.Popen(
        [sys.executable, PROGRAM, data_dir, str(generation)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(LINES_BEFORE_A_KILL + 37 * generation)]
    os.kill(process.pid, signal.SIGKILL)
    lines += process.stdout.readlines()
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    return [line.decode().split() for line in lines if line.endswith(b"\n")]


def test_no_acknowledged_record_is_lost_and_the_tree_verifies(tmp_path):
    data_dir = tmp_path / "var"
    records: dict[int, str] = {}
    runs: set[str] = set()
    for generation in range(KILLS):
        for kind, number, name in killed_under_load(data_dir, generation):
            if kind == "record":
                records[int(number)] = name
            else:
                runs.add(name)
        with contextlib.closing(sqlite3.connect(data_dir / DATABASE)) as connection:
            stored = dict(connection.execute("SELECT leaf_index, id FROM audit").fetchall())
            raised = {name for (name,) in connection.execute("SELECT id FROM runs")}
        assert {index: stored.get(index) for index in records} == records
        assert runs <= raised
        found = verify(data_dir, own_verifier(data_dir))
        assert (found.finding, found.reason) == (Finding.OK, "")
    assert len(records) > KILLS * LINES_BEFORE_A_KILL / 2
    assert runs
