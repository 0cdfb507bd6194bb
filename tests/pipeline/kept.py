"""What somebody keeps, and all that is kept by it."""

import gc
from asyncio import AbstractEventLoop
from types import FunctionType, ModuleType

from tests.pipeline.house import House

_OF_ALL = ModuleType | type | AbstractEventLoop | House


def keeps(kept: object, kind: type) -> bool:
    """Whether one of `kind` is reached from `kept`, other than by what is everybody's."""
    looked: dict[int, object] = {}
    left = [kept]
    while left:
        one = left.pop()
        if isinstance(one, kind):
            return True
        if id(one) not in looked and not isinstance(one, _OF_ALL):
            looked[id(one)] = one
            if isinstance(one, FunctionType):  # which refers to all of its module
                left += one.__closure__ or ()
            else:
                left += gc.get_referents(one)
    return False
