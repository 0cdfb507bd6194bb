"""Turn the suites beside this file into traces, as `benchmarks.flow.traces` reads them.

Run as `python -m benchmarks.flow.suites.build FOLDER`.
"""

import argparse
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.flow.suites.attacks import attacked, read_goals
from benchmarks.flow.suites.honest import HERE, honest, read_written, suite_names
from benchmarks.flow.traces import ENCODED


def build(folder: Path, out: Path) -> dict[str, int]:
    """Write the traces of the suite in `folder`, its tools and its labels into `out`.

    Return how many traces there are of users, and how many of attacks.
    """
    written = read_written(folder)
    goals = read_goals(folder, written)
    name = written.name
    users = [honest(written, task) for task in written.tasks]
    attacks = list(attacked(written, goals, encoded=False))
    _write(out / f"{name}.jsonl", [*users, *attacks])
    if attacks:
        encoded = attacked(written, goals, encoded=True)
        _write(out / f"{name}{ENCODED}.jsonl", [*users, *encoded])
    shutil.copyfile(folder / "tools.json", out / f"{name}.tools.json")
    labels = folder / "labels.yaml"
    text = labels.read_text(encoding="utf-8") if labels.is_file() else "servers: {}\n"
    (out / f"{name}.labels.yaml").write_text(text, encoding="utf-8")
    return {"tasks": len(users), "goals": len(goals), "attacks": len(attacks)}


def _write(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    lines = (json.dumps(row, ensure_ascii=False) for row in rows)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the traces go")
    out = parser.parse_args().folder
    out.mkdir(parents=True, exist_ok=True)
    for name in suite_names():
        counts = build(HERE / name, out)
        print(f"{name}:", ", ".join(f"{count} {what}" for what, count in counts.items()))


if __name__ == "__main__":
    main()
