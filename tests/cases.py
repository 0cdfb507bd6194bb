"""Many cases of one kind: `make test` runs those that stand for the others, `make cases-report` all."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], stands: Callable[[Any], bool]) -> list[Any]:
    """Return the cases as parameters; those for which another stands are run by the report alone."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=() if stands(case) else pytest.mark.full,
        )
        for case in cases
    ]
