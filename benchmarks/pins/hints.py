"""How often hints point at ordinary tools, and how often at hostile ones."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.pins.data import Tool
from gateway.pins.findings import findings_of

_WORDS = re.compile(r"\b(?:important|crucial|critical|ignore|disregard)\b", re.IGNORECASE)
"""A list of suspicious words, as the scanner agent-scan documents for its warning W001."""


@dataclass
class Hints:
    """What was found in some number of tools."""

    tools: int = 0
    hard: int = 0
    """Tools with a hint of a hard class."""
    any: int = 0
    words: int = 0
    """Tools that a list of suspicious words finds."""
    classes: Counter[str] = field(default_factory=Counter)
    """Tools by class of hint."""
    flagged: list[str] = field(default_factory=list)
    """The tools with a hard hint, with their classes."""


def hints_in(tools: Sequence[Tool]) -> Hints:
    """Look for hints in each tool by itself."""
    hints = Hints(tools=len(tools))
    for tool in tools:
        found = findings_of(dict(tool.definition))
        codes = {finding.code for finding in found}
        hard = sorted({finding.code for finding in found if finding.hard})
        hints.any += bool(found)
        hints.hard += bool(hard)
        hints.words += bool(_WORDS.search(str(tool.definition.get("description", ""))))
        hints.classes.update(codes)
        if hard:
            name = f"{tool.server}/{tool.definition.get('name', '')}"
            hints.flagged.append(f"{name}: {', '.join(hard)}")
    return hints


def percent(part: int, whole: int) -> float:
    """Return the share in percent, to two places; 0 of nothing."""
    return round(100 * part / whole, 2) if whole else 0.0
