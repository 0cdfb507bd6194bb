"""How long the road of a call is: what a warm `tools/call` passes through, which may only become less."""

import asyncio
import operator
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import gateway
from tests.backends import ROAD, only
from tests.within import Within, prepared, within

MOST_FUNCTIONS, MOST_FILES, MOST_CALLS = 308, 98, 432
"""Of the gateway's own, in the call's own task, HTTP to the server included; comprehensions are part of what
they stand in. The third is how often functions are called: what waits and goes on is no further call."""

_HOME = str(Path(gateway.__file__).parent)
_INNER = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"})
_WARM, _TRACED = 20, 5


class Road:
    """What one task passes through."""

    def __init__(self) -> None:
        self.calls: set[FrameType] = set()
        self._walker = asyncio.current_task()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a function of the gateway's that is entered (sys.setprofile)."""
        code = frame.f_code
        ours = event == "call" and code.co_filename.startswith(_HOME)
        if ours and code.co_name not in _INNER and asyncio.current_task() is self._walker:
            self.calls.add(frame)

    @property
    def functions(self) -> set[CodeType]:
        return {frame.f_code for frame in self.calls}

    @property
    def files(self) -> set[str]:
        return {code.co_filename for code in self.functions}


async def walked(site: Within) -> Road:
    asked, road = site.asked(), Road()
    sys.setprofile(road)
    try:
        await site.call(asked)
    finally:
        sys.setprofile(None)
    return road


@only(ROAD)
async def test_the_road_of_a_warm_call_becomes_no_longer(tmp_path: Path) -> None:
    with prepared(tmp_path) as site:
        async with within(site) as gateway:
            for _ in range(_WARM):
                await gateway.call()
            roads = [await walked(gateway) for _ in range(_TRACED)]
    road = min(roads, key=lambda road: len(road.calls))
    told = len(road.functions), len(road.files), len(road.calls)
    most = MOST_FUNCTIONS, MOST_FILES, MOST_CALLS
    assert all(map(operator.le, told, most)), f"functions, files, calls: {told}"
