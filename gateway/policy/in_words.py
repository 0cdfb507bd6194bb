"""What goes wrong with a policy, said: nobody knows beforehand all that can be wrong with one."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.errors import ConfigError

logger = logging.getLogger(__name__)


@contextmanager
def in_words(what: str) -> Iterator[None]:
    """Have whatever is raised within be a `ConfigError`: `what`, unless it is one already.

    A policy is then refused, and that is on record, where a bug would end whoever looks at it.
    """
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        logger.exception("%s, and nobody foresaw why", what)
        raise ConfigError(what, problems=[f"{type(error).__name__}: {error}"]) from error
