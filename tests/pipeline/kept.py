"""What somebody keeps, and all that is kept by it."""

import gc
import sys
from asyncio import AbstractEventLoop
from types import FunctionType, ModuleType

from tests.pipeline.house import House

_OF_ALL = ModuleType | type | AbstractEventLoop | House


def keeps(kept: object, kind: type) -> bool:
    """Whether one of `kind` is reached from `kept`, other than by what is everybody's."""
    return any(isinstance(one, kind) for one in _reached(kept).values())


def weighs(kept: object, besides: object = None) -> int:
    """Return how many bytes is all that is kept by it, other than what is everybody's or `besides`."""
    looked = _reached(besides)
    before = len(looked)
    return sum(map(sys.getsizeof, list(_reached(kept, looked).values())[before:]))


def _reached(kept: object, looked: dict[int, object] | None = None) -> dict[int, object]:
    looked = {} if looked is None else looked
    left = [kept]
    while left:
        one = left.pop()
        if id(one) in looked or isinstance(one, _OF_ALL):
            continue
        looked[id(one)] = one
        if isinstance(one, FunctionType):  # which refers to all of its module
            left += one.__closure__ or ()
        else:
            left += gc.get_referents(one)
    return looked
