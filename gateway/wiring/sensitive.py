"""What is looked for in calls and answers, as the configuration has it."""

from functools import lru_cache

from gateway.config.dlp import DlpSection
from gateway.dlp.classes import GROUPS
from gateway.dlp.detector import Detector, Finder
from gateway.names import Names

_NAMES = {"person", "address", "names"}


def detector_of(config: DlpSection) -> Detector:
    """Return what looks for the shipped classes and for the operator's own.

    Raises:
        ConfigError: Names are to be found, and what finds them is not installed.

    """
    finders: list[Finder] = [section.read(f"own:{name}") for name, section in config.lists.items()]
    if config.names is not None:
        finders += _names(config.names.model, config.names.language).finders
    return Detector(config.patterns, finders)


@lru_cache(maxsize=2)
def _names(model: str, language: str) -> Names:
    """Return what a model finds, loaded once for all configurations that name it."""
    return Names(model, language)


def classes_of(config: DlpSection) -> frozenset[str]:
    """Return every class and group that policy may name."""
    own = {f"own:{name}" for name in (*config.patterns, *config.lists)}
    names = _NAMES if config.names is not None else set()
    return frozenset({*GROUPS, *GROUPS.values(), *own, *names, "own"})
