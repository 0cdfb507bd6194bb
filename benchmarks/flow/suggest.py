"""How well suggested labels agree with what servers and administrators say themselves.

`python -m benchmarks.flow.suggest --dir DIR`: `DIR` holds `manifests/benign.jsonl[.gz]`, one
definition a line, and folders with `SUITE.labels.yaml` beside `SUITE.tools.json`.
"""

import argparse
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from gateway.domain.labels import Effect
from gateway.flow.suggest import Suggestion, suggest, suggestion_for
from gateway.flow.words import words_of


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--show", action="store_true", help="Name every tool that disagrees.")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {}
    missed: list[str] = []
    for file in sorted(arguments.dir.glob("manifests/benign.jsonl*")):
        figures["annotations"] = of_annotations(_lines(file), missed)
    for file in sorted(arguments.dir.glob("*/*.labels.yaml")):
        suite = file.name.removesuffix(".labels.yaml")
        tools = json.loads(file.with_name(f"{suite}.tools.json").read_text("utf-8"))
        figures[suite] = of_labels(yaml.safe_load(file.read_text("utf-8")), tools, missed)
    print(json.dumps(figures, indent=2))
    if arguments.show:
        print("\n".join(missed))


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    content = file.read_bytes()
    text = gzip.decompress(content) if file.suffix == ".gz" else content
    return map(json.loads, text.splitlines())


def of_annotations(tools: Iterable[Mapping[str, Any]], missed: list[str]) -> dict[str, Any]:
    """Compare `read`, found without annotations, with `readOnlyHint` where a tool has one."""
    outcomes: dict[tuple[bool, bool], int] = {}
    seen = unknown = 0
    for tool in tools:
        seen += 1
        found = suggestion_for(tool, prefix=words_of(str(tool.get("server"))), annotated=False)
        unknown += found.effect is None
        hint = (tool.get("annotations") or {}).get("readOnlyHint")
        if not isinstance(hint, bool):
            continue
        read = found.effect is Effect.READ
        outcomes[hint, read] = outcomes.get((hint, read), 0) + 1
        if hint is not read:
            missed.append(f"{tool.get('server')}/{tool.get('name')}: {hint=} {_told(found)}")
    right = outcomes.get((True, True), 0)
    return {
        "tools": seen,
        "without_effect": unknown,
        "annotated": sum(outcomes.values()),
        "read": _rates(
            right, wrong=outcomes.get((False, True), 0), missing=outcomes.get((True, False), 0)
        ),
    }


def of_labels(
    labels: Mapping[str, Any], tools: Mapping[str, Any], missed: list[str]
) -> dict[str, Any]:
    """Compare suggestions with the labels that an administrator wrote."""
    counts = {"destination": [0, 0, 0], "payload": [0, 0, 0]}
    effects = 0
    total = 0
    for server, definitions in tools.items():
        found = suggest(server, {each["name"]: each for each in definitions})
        for name, suggestion in found.items():
            written = labels["servers"][server]["tools"][name]
            total += 1
            effects += suggestion.effect == written["effect"]
            wrong = suggestion.effect != written["effect"]
            for member, count in counts.items():
                mine, theirs = set(getattr(suggestion, member)), set(written.get(member, ()))
                wrong = wrong or mine != theirs
                for i, these in enumerate((mine & theirs, mine - theirs, theirs - mine)):
                    count[i] += len(these)
            if wrong:
                missed.append(f"{server}/{name}: {written} {_told(suggestion)}")
    rates = {name: _rates(right, wrong, lost) for name, (right, wrong, lost) in counts.items()}
    return {"tools": total, "effects_alike": effects, **rates}


def _rates(right: int, wrong: int, missing: int) -> dict[str, Any]:
    return {
        "right": right,
        "wrong": wrong,
        "missing": missing,
        "precision": round(100 * right / max(1, right + wrong), 1),
        "recall": round(100 * right / max(1, right + missing), 1),
    }


def _told(found: Suggestion) -> str:
    effect = found.effect.value if found.effect else None
    return f"-> {effect} {list(found.destination)} {list(found.payload)} {list(found.because)}"


if __name__ == "__main__":
    main()
