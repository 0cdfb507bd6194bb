"""How long something takes, to be compared with how long something else does."""

import time
from collections.abc import Callable


def took_s(work: Callable[[], object]) -> float:
    """Return the processor time of `work`, of several tries the shortest."""
    took = []
    for _ in range(3):
        began = time.thread_time()
        work()
        took.append(time.thread_time() - began)
    return min(took)
