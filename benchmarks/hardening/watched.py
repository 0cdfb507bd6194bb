"""A gateway whose event loop is watched: `python -m benchmarks.hardening.watched FILE --config C serve`.

Into `FILE` goes a line for each turn of the loop that took longer than anybody should notice: how
much of the processor its thread took, how long it was by the clock, and where it was.
"""

import asyncio
import json
import sys
import threading
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Any, Final, TextIO

import uvloop

from gateway.cli import main

_TOLD_S: Final = 0.003
"""Turns that take less are not written down."""
_BEAT_S: Final = 0.004
"""How often the loop is asked for a turn by the clock."""
_LOOKS_S: Final = 0.002
"""How often a turn that goes on is looked at."""


class Watch:
    """Times each callback of the loop, which is what a turn is made of: others wait for one at least."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._thread = threading.get_ident()
        self._began = 0.0
        self._seen = ""
        self._beats = False

    def install(self) -> None:
        """Watch every callback of asyncio's own loop, which is written in Python."""
        run = asyncio.Handle._run  # noqa: SLF001 - there is no other place to look from

        def watched(handle: asyncio.Handle) -> None:
            if not self._beats:
                self._beats = True
                self._beat(time.perf_counter())
            cpu, self._seen = time.thread_time(), ""
            self._began = began = time.perf_counter()
            try:
                run(handle)
            finally:
                self._began = 0.0
                self._note(time.thread_time() - cpu, time.perf_counter() - began)

        asyncio.Handle._run = watched  # type: ignore[method-assign, assignment] # noqa: SLF001
        uvloop.new_event_loop = asyncio.new_event_loop  # type: ignore[assignment]
        threading.Thread(target=self._look, daemon=True).start()

    def _note(self, cpu_s: float, wall_s: float) -> None:
        if wall_s >= _TOLD_S:
            self._tell(cpu_ms=cpu_s * 1000, wall_ms=wall_s * 1000, where=self._seen)

    def _beat(self, due: float) -> None:
        """Note how late the loop comes to what is due: it waits for threads, too."""
        now = time.perf_counter()
        if now - due >= _TOLD_S:
            self._tell(late_ms=(now - due) * 1000)
        loop = asyncio.get_running_loop()
        loop.call_later(_BEAT_S, self._beat, now + _BEAT_S)

    def _tell(self, **told: float | str) -> None:
        self._file.write(json.dumps(told) + "\n")
        self._file.flush()

    def _look(self) -> None:
        """See where a long turn is: of several looks the last one counts."""
        while True:
            time.sleep(_LOOKS_S)
            if self._began and time.perf_counter() - self._began > _TOLD_S:
                self._seen = _place(sys._current_frames().get(self._thread))  # noqa: SLF001


def _place(frame: FrameType | None) -> str:
    """Return the innermost functions of ours, outermost first."""
    ours = [
        f"{Path(one.filename).stem}.{one.name}"
        for one in traceback.extract_stack(frame)
        if "/gateway/" in one.filename
    ]
    return " > ".join(ours[-4:])


if __name__ == "__main__":
    with Path(sys.argv[1]).open("a", encoding="utf-8") as told:
        Watch(told).install()
        words: Any = sys.argv[2:]
        main(words, prog_name="douane")
