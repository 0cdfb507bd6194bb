"""`make dlp-report`: what of each class is found and what is taken for it, and what looking costs."""

import argparse
import random
import statistics
import string
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from secrets import choice

from benchmarks.dlp.corpora import Text, benign, secrets, sentences
from benchmarks.flow.report import folder_of
from benchmarks.flow.suites.build import build
from benchmarks.flow.suites.honest import HERE, suite_names
from benchmarks.flow.traces import read_suite, trace_files
from benchmarks.report import print_table, write_report
from gateway.dlp.detector import Detector
from gateway.dlp.scanning import scan
from gateway.dlp.values import RunValues, keys_of
from gateway.names import Names

LEAST_RECALL = 95.0
MOST_FALSE_ALARMS = 2.0
"""A thousand benign texts."""
MOST_TIMES = 150
"""What drawn letters or digits may take, in prose; as one automaton they took 3,000."""
AIMED = ("credential", "card", "iban")
_SLACK = 2
"""Characters by which the edges of what is found may differ."""
_SECRET = frozenset({"credential", "password"})
_LETTERS = string.ascii_letters + string.digits + "+/"
_KIB = 1024
_LONG_US, _FEWEST = 10e6, 20

LIMITS = (
    "the rules were written with both corpora of sensitive data in view; what others hold is found less often",
    "of telephone numbers those without a country's code count as well, which are looked for beside a word alone",
    "a false alarm is a text, whatever it has; addresses of authors in benign texts are real ones",
    "costs are of one process on a shared machine: read them as ratios",
)


class Counted:
    """Of one class: what is there, what is found of it, and what is taken for it."""

    def __init__(self) -> None:
        self.there = self.found = self.wrong = 0

    @property
    def recall(self) -> float:
        return 100 * self.found / self.there if self.there else 0.0

    @property
    def precision(self) -> float:
        said = self.found + self.wrong
        return 100 * self.found / said if said else 0.0


def said_in(detector: Detector, text: Text) -> list[tuple[str, int, int]]:
    """Return what is found in `text`: class, and where it begins and ends (characters)."""
    octets = text.text.encode("utf-8", "surrogatepass")
    found = []
    for span in detector.look(text.text).spans:
        group = detector.groups[span.of]
        of = "credential" if group in _SECRET else span.of
        start = len(octets[: span.start].decode("utf-8", "replace"))
        found.append(
            (of, start, start + len(octets[span.start : span.end].decode("utf-8", "replace")))
        )
    return found


def count(detector: Detector, texts: Iterable[Text], classes: Mapping[str, Counted]) -> None:
    """Count for each class in `classes`, where one place that covers another is it."""
    for text in texts:
        said = [one for one in said_in(detector, text) if one[0] in classes]
        for of, start, end in text.spans:
            if of not in classes:
                continue
            classes[of].there += 1
            whole = text.kind != "sentence" and (start, end) == (0, len(text.text))
            classes[of].found += any(
                one == of and (whole or (a <= start + _SLACK and b >= end - _SLACK))
                for one, a, b in said
            )
        for of, a, b in said:
            classes[of].wrong += not any(
                one == of and a < end and start < b for one, start, end in text.spans
            )


def alarms(detector: Detector, texts: Iterable[Text]) -> tuple[int, Counter[str]]:
    """Return how many texts there are, and in how many something of each class is found."""
    total, found = 0, Counter[str]()
    for text in texts:
        total += 1
        of = {detector.groups[one] for one in detector.look(text.text).classes}
        found.update({"credential" if one in _SECRET else one for one in of})
    return total, found


def costs(detector: Detector) -> dict[str, float]:
    """Return microseconds a KiB, in the median.

    Of prose, of prose with an account in each KiB, and of letters and digits drawn anew each time, which
    is what an encoded file or a table of numbers is like.
    """
    prose = ("The quick brown fox jumps over the lazy dog, and nobody minds. " * 17)[:_KIB]
    drawn = random.Random(1)
    texts: dict[str, Callable[[], str]] = {
        "prose": lambda: prose,
        "prose with an account": lambda: "DE89 3704 0044 0532 0130 00 " + prose[28:],
        "drawn letters": lambda: "".join(drawn.choices(_LETTERS, k=_KIB)),
        "drawn digits": lambda: "".join(drawn.choices("0123456789 ", k=_KIB)),
    }
    return {name: _median(detector, text) for name, text in texts.items()}


def _median(detector: Detector, text: Callable[[], str]) -> float:
    taken: list[float] = []
    for number in range(300):
        if number > _FEWEST and sum(taken) > _LONG_US:
            break
        content = {"text": text()}
        began = time.perf_counter()
        scan(detector, content)
        taken.append((time.perf_counter() - began) * 1e6)
    return statistics.median(taken)


def carried_back(detector: Detector, folders: Sequence[Path]) -> tuple[int, int]:
    """Return how many honest tasks there are, and how many carry a secret that an answer had shown.

    Where answers are masked, an agent has none to carry.
    """
    tasks = carrying = 0
    for folder in folders:
        for name, path in trace_files(folder).items():
            if name.endswith(".b64"):
                continue
            for trace in read_suite(name, path).traces:
                if trace.is_attack:
                    continue
                tasks += 1
                known, carries = RunValues(choice), False
                for step in trace.steps:
                    found = [f for f in scan(detector, step.arguments) if f.group in _SECRET]
                    carries |= any(
                        known.gave(s.server, t)
                        for s in trace.steps
                        for f in found
                        for t in f.values
                    )
                    known.note(step.server, keys_of(scan(detector, step.result)))
                carrying += carries
    return tasks, carrying


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write the report."""
    parser = argparse.ArgumentParser(prog="dlp-report", description=__doc__)
    parser.add_argument(
        "--dir", type=folder_of, action="append", default=[], help="more suites of tool results"
    )
    parser.add_argument("--names", help="a spaCy model: tell what is found of names, too")
    given = parser.parse_args(arguments)
    detector = Detector()
    classes = {of: Counted() for of in (*AIMED, "id_us", "email", "phone")}
    count(detector, [*secrets(), *sentences()], classes)
    if given.names:
        _tell_names(given.names)
    with tempfile.TemporaryDirectory() as built:
        for name in suite_names():
            build(HERE / name, Path(built))
        folders = [Path(built), *given.dir]
        total, found = alarms(detector, benign([]))
        tasks, carrying = carried_back(detector, folders)
    print_table(
        ("class", "there", "recall %", "precision %", "false alarms / 1000 benign"),
        [
            (of, one.there, f"{one.recall:.1f}", f"{one.precision:.1f}", _rate(found, of, total))
            for of, one in classes.items()
        ],
    )
    cost = costs(detector)
    print_table(
        ("looking through 1 KiB of", "us"), [(name, f"{us:.0f}") for name, us in cost.items()]
    )
    print(f"{carrying} of {tasks} honest tasks carry a secret that an answer had shown\n")
    figures = {
        **{f"{of}.recall": one.recall for of, one in classes.items()},
        **{f"{of}.precision": one.precision for of, one in classes.items()},
        **{
            f"false_alarms.{of}": 1000 * found[of] / total
            for of in (*AIMED, "national_id", "contact")
        },
        **{f"us_per_kib.{name.replace(' ', '_')}": us for name, us in cost.items()},
        "benign_texts": total,
        "tasks": tasks,
        "tasks_that_carry_a_masked_secret": carrying,
    }
    failures = (
        [
            f"{of}: recall {classes[of].recall:.1f} %, wanted {LEAST_RECALL}"
            for of in AIMED
            if classes[of].recall < LEAST_RECALL
        ]
        + [
            f"{of}: {1000 * found[of] / total:.2f} false alarms a thousand, at most {MOST_FALSE_ALARMS}"
            for of in AIMED
            if 1000 * found[of] / total > MOST_FALSE_ALARMS
        ]
        + [
            f"1 KiB of {name} takes {us / cost['prose']:.0f} times what prose takes, at most {MOST_TIMES}"
            for name, us in cost.items()
            if us > MOST_TIMES * cost["prose"]
        ]
    )
    told = ", ".join(f"{of} {classes[of].recall:.1f} %" for of in AIMED)
    return write_report(
        "dlp", figures, failures, LIMITS, summary=f"recall {told}; {total} benign texts"
    )


def _tell_names(model: str) -> None:
    """Print how many people and places are found, where a part of one is enough, and what it costs."""
    detector = Detector({}, Names(model, "en").finders)
    there, found = Counter[str](), Counter[str]()
    for text in sentences():
        said = [one for one in said_in(detector, text) if one[0] in _NAMES]
        for of, start, end in text.spans:
            if of in _NAMES:
                there[of] += 1
                found[of] += any(one == of and a < end and start < b for one, a, b in said)
    rows = [(of, there[of], f"{100 * found[of] / there[of]:.1f}") for of in _NAMES]
    print_table((f"class, by {model}", "there", "found %"), rows)
    print_table(
        ("looking through 1 KiB of, with names", "us"),
        [(name, f"{us:.0f}") for name, us in costs(detector).items()],
    )


_NAMES = ("person", "address")
_GROUP = {"id_us": "national_id", "email": "contact", "phone": "contact"}


def _rate(found: Mapping[str, int], of: str, total: int) -> str:
    return f"{1000 * found[_GROUP.get(of, of)] / total:.2f}"


if __name__ == "__main__":
    sys.exit(main())
