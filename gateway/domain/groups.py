"""Groups of others to groups of ours."""

from collections.abc import Mapping


def mapped(said: object, groups: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return our groups for those that a claim names.

    What is not in `groups` gives nothing, and neither does a claim that is no list.
    """
    names = said if isinstance(said, list) else ()
    ours = (groups[name] for name in names if isinstance(name, str) and name in groups)
    return frozenset[str]().union(*ours)
