"""What a run of a program is told of its calls, each by itself."""

from collections.abc import Mapping
from typing import Any


def each_call(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the calls of a run one by one: those alike that follow each other are told as one."""
    return [
        {
            **{name: said for name, said in call.items() if name != "times"},
            "seq": call["seq"] + number,
        }
        for call in found["calls"]
        for number in range(call.get("times", 1))
    ]
