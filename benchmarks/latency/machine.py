"""What else is to be known of a measurement: whose CPU time passed, and how long one fsync takes."""

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_BLOCK = b"x" * 4096
_PPID, _TIMES = 1, slice(11, 15)
"""Fields of `/proc/PID/stat` after the name: utime, stime, and those of children waited for."""
_INTERRUPTS = slice(5, 7)
_IDLE = slice(3, 5)
_GUEST = 8
"""Fields of the first line of `/proc/stat` (proc_stat(5)); a guest's time is in the user's, too."""


def tree_cpu_s(root: int, *, alone: bool = False) -> float:
    """Return the seconds of CPU that process `root` has used, with all its descendants unless `alone`."""
    processes = dict(_processes())
    if alone:
        return processes[root][1] if root in processes else 0.0
    tree, found = set[int](), {root}
    while found:
        tree |= found
        found = {pid for pid, (parent, _) in processes.items() if parent in found} - tree
    return sum(processes[pid][1] for pid in tree if pid in processes)


def busy_cpu_s() -> float:
    """Return the seconds of CPU that all processes have used since the machine started.

    Interrupts are left out. They are counted at no process, and here they are mostly our own:
    what is sent over the loopback arrives in one.
    """
    line = Path("/proc/stat").read_text().partition("\n")[0]
    ticks = [int(field) for field in line.split()[1:]]
    total = sum(ticks[:_GUEST]) - sum(ticks[_IDLE]) - sum(ticks[_INTERRUPTS])
    return total / _TICKS_A_SECOND


def _processes() -> Iterator[tuple[int, tuple[int, float]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
            used = sum(map(int, fields[_TIMES])) / _TICKS_A_SECOND
            yield int(entry.name), (int(fields[_PPID]), used)


def fsync_us(folder: Path, times: int = 50) -> float:
    """Return the median of what it takes to append 4 KiB to a file in `folder` and sync it."""
    path = folder / "fsync"
    taken = []
    with path.open("wb", buffering=0) as file:
        for _ in range(times):
            begun = time.perf_counter()
            file.write(_BLOCK)
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - begun)
    path.unlink()
    return statistics.median(taken) * 1e6
