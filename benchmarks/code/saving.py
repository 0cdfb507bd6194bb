"""What a model reads and writes for one real task, by calls and by a program, at a real gateway."""

import asyncio
import json
from pathlib import Path

from tests.demo.desk import PROGRAM, SERVERS, Paid, cost, programmed
from tests.demo.stage import DESK, NOTES_TOOLS, OURS
from tests.running import running_gateway
from tests.servers import process


def saving(folder: Path) -> Paid:
    """Do the demo's task both ways over three real servers, and count."""
    with (
        process.desk(folder, "logs") as logs,
        process.desk(folder, "issues") as issues,
        process.notes(folder) as notes,
        running_gateway(
            folder / "gateway",
            {
                "logs": {"url": logs.url, **DESK["logs"]},
                "issues": {"url": issues.url, **DESK["issues"]},
                "notes": {"url": notes.url, "defaults": OURS, "tools": NOTES_TOOLS},
            },
            code={"enabled": True},
        ) as gateway,
    ):
        for server in SERVERS:
            gateway.approve_all(server)
        told = asyncio.run(programmed(gateway))
        if told["status"] != "ok":
            raise RuntimeError(json.dumps(told))
        return asyncio.run(cost(gateway, PROGRAM, told))
