"""Kills and power cuts in one call, for reports: what was acknowledged, and what of it was lost."""

import shutil
from pathlib import Path
from typing import Any

from benchmarks.durability.cuts import cut_power
from benchmarks.durability.kills import kill_under_load
from gateway.storage.connection import Durability


def survived(folder: Path, *, kills: int = 100, cuts: int = 1000, spool: bool) -> dict[str, Any]:
    """Kill and cut, with or without a spool; `problems` says all that must not be, in words."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "cuts").mkdir(parents=True)
    killed = kill_under_load(folder / "kills", kills, spool=spool)
    cut = cut_power(Durability.POWER, cuts, folder / "cuts", spool=spool)
    problems = [*killed.problems, *cut.broken]
    if cut.losing:
        problems.append(f"{cut.losing} power cuts lost acknowledged records")
    if not killed.answered:
        problems.append("no call was answered, so nothing could be lost")
    if spool and not (killed.spooled and cut.recovered):
        problems.append("nothing was spooled, so nothing could be lost")
    return {
        "kills": killed.kills,
        "answered": len(killed.answered),
        "lost": len(killed.lost),
        "doubled": len(killed.doubled),
        "unrecorded": len(killed.unrecorded),
        "outcome_unknown": killed.open_intents,
        "refused": killed.refused,
        "spooled": killed.spooled,
        "cuts": cut.cuts,
        "cuts_losing": cut.losing,
        "cuts_recovered_records": cut.recovered,
        "problems": problems,
    }
