"""Files that a command writes whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkstemp
from typing import IO

from gateway.cli.failure import WRONG_USE, Failed
from gateway.storage.files import rename


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Give a file (0600) to write in the block, which is called `path` only once the block ended.

    It is durable then. Of a block that breaks off nothing is left.

    Raises:
        Failed: There is something of that name, or it cannot be written.

    """
    try:
        _refuse_another(path)
        descriptor, passing = mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            _refuse_another(path)
            rename(Path(passing), path)
        finally:
            Path(passing).unlink(missing_ok=True)  # it has its name, or is to have none
    except OSError as error:
        why = error.strerror or error
        raise Failed(f"{path} cannot be written: {why}", exit_code=WRONG_USE) from error


def _refuse_another(path: Path) -> None:
    if os.path.lexists(path):
        raise Failed(f"{path} is there already; give another name", exit_code=WRONG_USE)
