"""The text of every policy that was in force, by its digest: what a past decision was made by."""

import io
import logging
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from gateway.domain.document import canonical
from gateway.policy.sources import Sources

logger = logging.getLogger(__name__)

MOST_POLICIES = 500
"""The ones that were in force longest ago go first."""

_CONFIG = "config.json"
_FOLDER = "policy/"
_PREFIX = "sha256:"


class PolicyArchive:
    """A folder of policies. A file that is not what its name says is as good as none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, sources: Sources, config: Mapping[str, Any]) -> None:
        """Keep a policy that is put in force, with what the configuration tells it.

        Where it cannot be written, that is logged: what a policy decides does not depend on it.
        """
        path = self._path(sources.digest(config))
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.find(sources.digest(config)) is not None:
                path.touch()
            else:
                arriving = path.with_suffix(".new")
                arriving.touch(mode=0o600)
                arriving.write_bytes(_packed(sources, config))
                arriving.replace(path)
            self._thin_out()
        except OSError as error:
            logger.warning("the text of policy %s is not kept: %s", path.stem, error)

    def find(self, digest: str) -> tuple[Sources, Mapping[str, Any]] | None:
        """Return the policy of that digest and what the configuration told it, if it is kept."""
        path = self._path(digest)
        try:
            sources, config = _unpacked(path.read_bytes())
        except (OSError, EOFError, zlib.error, tarfile.TarError, KeyError, ValueError):
            return None
        return (sources, config) if sources.digest(config) == digest else None

    def _path(self, digest: str) -> Path:
        name = digest.removeprefix(_PREFIX)
        return self._folder / f"{name if name.isalnum() else 'none'}.tar.gz"

    def _thin_out(self) -> None:
        kept = sorted(self._folder.glob("*.tar.gz"), key=lambda path: path.stat().st_mtime)
        for path in kept[:-MOST_POLICIES]:
            path.unlink(missing_ok=True)


def _packed(sources: Sources, config: Mapping[str, Any]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        _add(tar, _CONFIG, canonical(dict(config)))
        for path, content in sorted(sources.files.items()):
            _add(tar, _FOLDER + path, content)
    return packed.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def _unpacked(packed: bytes) -> tuple[Sources, Mapping[str, Any]]:
    files: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        for member in tar:
            content = tar.extractfile(member)
            if content is not None:
                files[member.name] = content.read()
    config: Mapping[str, Any] = orjson.loads(files.pop(_CONFIG))
    sources = {path.removeprefix(_FOLDER): content for path, content in files.items()}
    return Sources(files=sources), config
