"""What of a configuration gateways that share a database have to have alike, as short texts that can be compared."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gateway.config.model import Config
from gateway.config.section import Section
from gateway.config.values import SecretRef

_OWN: Final = frozenset({"listen", "admin_listen", "data_dir", "tls", "console.listen"})
"""Where one gateway is, and what it keeps for itself."""
_APART: Final = frozenset({"servers"})
"""Are told by name, each by itself."""
_FILES: Final = frozenset({"policy.path"})
"""Say where something is, as text: it may be an https URL."""
_LETTERS: Final = 12


def alike(config: Config) -> Mapping[str, str]:
    """Return a digest of each section, and of each server that stands in `douane.yaml`.

    Of paths only the last name counts: files may lie elsewhere on each machine. What is registered at
    run time is agreed on by other means.
    """
    told: dict[str, str] = {}
    for name in type(config).model_fields:
        if name in _OWN:
            continue
        content = getattr(config, name)
        if name in _APART:
            written = content.keys() - config.registered
            told |= {f"{name}.{one}": _digest(f"{name}.{one}", content[one]) for one in written}
        else:
            told[name] = _digest(name, content)
    return told


def _digest(path: str, content: Any) -> str:
    text = json.dumps(_plain(path, content), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_LETTERS]


def _plain(path: str, content: Any) -> Any:
    match content:
        case Section():
            names = [name for name in type(content).model_fields if f"{path}.{name}" not in _OWN]
            return {name: _plain(f"{path}.{name}", getattr(content, name)) for name in names}
        case Mapping():
            return {str(key): _plain(f"{path}.{key}", inner) for key, inner in content.items()}
        case list() | tuple():
            return [_plain(path, inner) for inner in content]
        case set() | frozenset():
            return sorted(map(str, content))
        case SecretRef():
            return f"{content.kind}:{Path(content.name).name}"
        case _:
            pass
    if path in _FILES and "://" not in str(content):
        content = Path(content)
    return content.name if isinstance(content, Path) else str(content)
