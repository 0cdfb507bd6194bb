"""The chart as one file, as `helm install` takes it: equal files give an equal archive."""
# ruff: noqa: INP001 - a program's part, in no package

import gzip
import io
import tarfile
from pathlib import Path


def archive(folder: Path) -> bytes:
    """Return a chart's folder as an archive, under its name, without a time or an owner in it."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(f"{folder.name}/{file.relative_to(folder).as_posix()}")
            content = file.read_bytes()
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(written.getvalue(), mtime=0)
