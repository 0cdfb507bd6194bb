"""A clock of a process of ours that a test moves while it runs."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

SHIFTED = """\
import os, pathlib, time

now = time.time
time.time = lambda: now() + float(pathlib.Path(os.environ["SHIFTED_BY"]).read_text())
time.time_ns = lambda: int(time.time() * 1e9)
"""
"""Read by every Python program at its start: its clock can be moved while it runs."""


class MovedClock:
    """What time it is in processes that were started with its `environment`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "clock"
        self._ahead_s = 0.0
        (folder / "sitecustomize.py").write_text(SHIFTED)
        self.set(0)

    @property
    def environment(self) -> Mapping[str, str]:
        before = os.environ.get("PYTHONPATH", "")
        return {
            "PYTHONPATH": f"{self._folder}{os.pathsep}{before}",
            "SHIFTED_BY": str(self._file),
        }

    def __call__(self) -> float:
        """Return seconds since the epoch, as these processes read them."""
        return time.time() + self._ahead_s

    def later(self, seconds: float) -> None:
        """Let `seconds` pass at once."""
        self.set(self._ahead_s + seconds)

    def set(self, seconds: float) -> None:
        """Put it so far ahead of this process's."""
        self._ahead_s = seconds
        # Exchanged at once: a clock that is read while it is written would be none.
        new = self._file.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._file)
