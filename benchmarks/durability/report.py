"""`make durability-report`: what is lost when the process is killed, and when the power is cut."""

import shutil
import sys
from collections.abc import Sequence

from benchmarks.durability.cuts import Losses, cut_power
from benchmarks.durability.kills import Survival, kill_under_load
from benchmarks.report import ROOT, print_table, write_report
from gateway.storage.connection import Durability

FOLDER = ROOT / "var" / "durability"
KILLS = 50
CUTS = 1000
LIMITS = (
    "power cuts are simulated below SQLite: a disk that reports a sync that it did not do is not",
    "a kill leaves the system's cache alone, so it cannot tell `power` from `process`",
)


def failures_of(survival: Survival, losses: Sequence[Losses]) -> list[str]:
    """Say what the figures promise and do not keep."""
    failures = survival.problems
    if not survival.answered:
        failures.append("no call was answered, so nothing could be lost")
    for found in losses:
        failures += [f"{found.durability}: {broken}" for broken in found.broken]
        if found.durability is Durability.POWER and found.losing:
            failures.append(f"{found.losing} power cuts lost acknowledged records")
        if found.durability is Durability.PROCESS and not found.losing:
            failures.append("no cut lost anything with `process`: the cuts show nothing")
    return failures


def main() -> int:
    """Print and write the figures; return 1 if something acknowledged was lost."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    survival = kill_under_load(FOLDER / "kills", KILLS)
    losses = []
    for durability in Durability:
        folder = FOLDER / durability
        folder.mkdir(parents=True)
        losses.append(cut_power(durability, CUTS, folder))
    full, normal = losses
    print_table(
        ("kill -9 under load", ""),
        [
            ("kills", survival.kills),
            ("calls", len(survival.began)),
            ("answered", len(survival.answered)),
            ("answered and not in the log", len(survival.lost)),
            ("sent and not in the log", len(survival.unrecorded)),
            ("there twice", len(survival.doubled)),
            ("outcome unknown", survival.open_intents),
        ],
    )
    print_table(
        ("power cuts", "cuts", "losing records", "most at once"),
        [(found.durability, found.cuts, found.losing, found.worst) for found in losses],
    )
    figures = {
        "kills": survival.kills,
        "acked": len(survival.answered),
        "lost": len(survival.lost),
        "doubled": len(survival.doubled),
        "unrecorded": len(survival.unrecorded),
        "outcome_unknown": survival.open_intents,
        "cuts": full.cuts,
        "cuts_losing_full": full.losing,
        "cuts_losing_normal": normal.losing,
        "verify_failures": sum(len(found.broken) for found in losses)
        + len(survival.verify_failures),
    }
    summary = (
        f"{survival.kills} kills, {len(survival.answered)} calls answered, {len(survival.lost)} "
        f"lost; {full.cuts} power cuts, {full.losing} lost records "
        f"({normal.losing} with `process`)"
    )
    failures = failures_of(survival, losses)
    return write_report("durability", figures, failures, LIMITS, summary=summary)


if __name__ == "__main__":
    sys.exit(main())
