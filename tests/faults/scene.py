"""One gateway, one upstream that does as it is told, and what the log holds of each call."""

import http.client
import json
import re
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.backends import log_in, taken_up
from tests.e2e.posting import Poster
from tests.e2e.scripted import Raw, raw_in_a_thread
from tests.e2e.site import SERVERS, Corridor
from tests.e2e.sockets import Answered
from tests.running import Running, running_gateway

QUICK = {"upstream_connect": "2s", "upstream_idle": "2s", "upstream_hard": "4s"}
PATIENT = {"upstream_failures": 1000}
"""Each fault is met by itself."""
LIMITS = {"calls_per_minute": 100_000, "result_bytes": 262_144, **QUICK, **PATIENT}
AUDIT = {"deadline": "5s"}


@dataclass(frozen=True, kw_only=True)
class Told:
    """A call, and all that is known of it."""

    trace: str
    answered: Answered

    @property
    def code(self) -> str | None:
        """The refusal's code; `None` is a result."""
        return self.answered.refusal

    @property
    def text(self) -> str:
        """What the tool said."""
        content: str = self.answered.messages[-1]["result"]["content"][0]["text"]
        return content


@dataclass(kw_only=True)
class Scene:
    running: Running
    raw: Raw
    poster: Poster = field(init=False)

    def __post_init__(self) -> None:
        self.poster = Poster(Corridor(self.running), "raw")

    def call(
        self,
        tool: str = "allowed",
        arguments: Mapping[str, Any] | None = None,
        *extra: tuple[str, str],
    ) -> Told:
        """Call a tool, in the stateless revision, with a trace id that the log repeats."""
        trace = secrets.token_hex(16)
        params = {"name": tool, "arguments": dict(arguments or {"text": trace})}
        traced = ("traceparent", f"00-{trace}-{'1' * 16}-01")
        return Told(trace=trace, answered=self.poster.modern("tools/call", params, traced, *extra))

    def records(self, told: Told) -> list[dict[str, Any]]:
        """What the log holds of a call, in order."""
        return [one for one in self.log() if one.get("trace_id") == told.trace]

    def log(self) -> list[dict[str, Any]]:
        """The whole log, in order, once all is there that a gateway takes which is well."""
        eventually(self._is_written)
        with log_in(self.running.folder) as reader:
            return list(reader.export())

    def _is_written(self) -> bool:
        ended = self.running.process.poll() is not None
        if ended or taken_up(self.running.folder):
            return True
        try:
            return self.readiness[0] != 200
        except (OSError, http.client.HTTPException):
            return False

    def trail(self, told: Told) -> list[tuple[str, str | None]]:
        """Kind and code of each record of a call."""
        return [(one["kind"], one.get("code")) for one in self.records(told)]

    def forwarded(self, told: Told) -> int:
        """How often the upstream saw a call that was made without arguments of its own."""
        return sum(told.trace.encode() in one.body for one in self.raw.seen)

    @property
    def readiness(self) -> tuple[int, dict[str, str]]:
        """Status and checks of `/readyz`."""
        return readiness(self.running)

    def verified(self) -> str:
        """What `douane audit verify` says; empty if the log is whole."""
        done = self.running.douane("audit", "verify")
        return "" if done.returncode == 0 else done.stdout + done.stderr

    def memory_kib(self, name: str = "VmHWM") -> int:
        """The process's resident memory, at its peak or (`VmRSS`) now."""
        status = Path(f"/proc/{self.running.process.pid}/status").read_text()
        found = re.search(rf"{name}:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1])

    def forget_peak(self) -> None:
        """Begin to measure the peak anew (proc(5), clear_refs)."""
        Path(f"/proc/{self.running.process.pid}/clear_refs").write_text("5")


def readiness(running: Running) -> tuple[int, dict[str, str]]:
    """Status and checks of a gateway's `/readyz`."""
    try:
        with urllib.request.urlopen(f"{running.admin_url}/readyz", timeout=60) as answer:
            return answer.status, json.load(answer)["checks"]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)["checks"]


@contextmanager
def scene(folder: Path, **settings: Any) -> Iterator[Scene]:
    """Run a gateway of its own in front of a scripted upstream; everything is approved."""
    with ExitStack() as stack:
        raw = stack.enter_context(raw_in_a_thread())
        running = stack.enter_context(gateway(folder, raw, **settings))
        running.approve_all("raw")
        yield Scene(running=running, raw=raw)


@contextmanager
def gateway(
    folder: Path, raw: Raw, *, tools: Mapping[str, Any] | None = None, **settings: Any
) -> Iterator[Running]:
    """Run a gateway in front of `raw`, with the short limits of these tests.

    `tools` is said of the upstream's tools besides what these tests always say.
    """
    server = SERVERS["raw"]
    servers = {"raw": {"url": raw.url, **server, "tools": {**server["tools"], **(tools or {})}}}
    chosen = {"limits": LIMITS, "audit": AUDIT, "pins": {"recheck": "1h"}, **settings}
    with running_gateway(folder, servers, **chosen) as running:
        yield running


def eventually(holds: Callable[[], bool], patience_s: float = 60.0) -> bool:
    """Wait until it holds, and say whether it came to."""
    deadline = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
