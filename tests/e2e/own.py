"""A gateway of a test's own in front of a scripted upstream, for what changes or ends it."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.scripted import Raw
from tests.e2e.site import SERVERS, Corridor
from tests.running import running_gateway

GENEROUS = {"limits": {"calls_per_minute": 100_000}}


@contextmanager
def own_gateway(
    folder: Path, raw: Raw, policies: Path, *, ports: tuple[int, int] | None = None, **settings: Any
) -> Iterator[Corridor]:
    """Run it in `folder`, where it goes on if it ran before; at first everything is approved."""
    began_before = (folder / "data").exists()
    servers: Mapping[str, Mapping[str, Any]] = {"raw": {"url": raw.url, **SERVERS["raw"]}}
    with running_gateway(
        folder, servers, policies=policies, ports=ports, **{**GENEROUS, **settings}
    ) as running:
        if not began_before:
            running.approve_all("raw")
        raw.forget()
        yield Corridor(running)


def edit(gateway: Corridor, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the configuration file in one go."""
    content = json.loads(gateway.running.config.read_text())
    change(content)
    put(gateway.running.config, json.dumps(content))


def put(config: Path, content: str) -> None:
    """Let a file say something else in one go: whoever watches it reads no half of it."""
    new = config.with_suffix(".new")
    new.write_text(content)
    new.replace(config)


def until(holds: Callable[[], Any], patience_s: float = 90.0) -> Any:
    """Return what `holds` finds, once it finds something."""
    deadline = time.monotonic() + patience_s
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


async def soon(holds: Callable[[], Any]) -> Any:
    """`until`, beside whatever else the test's loop does."""
    return await asyncio.to_thread(until, holds)
