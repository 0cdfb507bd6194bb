"""Servers that administrators register while the gateway runs: in a file of its own in `data_dir`.

Where gateways share a database the text of that file is there, and there is none.

`douane.yaml` stays the operator's, and nothing of the gateway's writes in it. A registered server has
an address and a credential. What else can be said of one, above all what its tools may be trusted
with and that the gateway starts it, only `douane.yaml` says.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.config.model import Config
from gateway.config.nodes import NodePath, Tree, dotted, read
from gateway.config.values import SecretRef
from gateway.errors import ConfigError

FILE = "servers.yaml"
_KEYS = frozenset({"url", "credential"})
_USUAL_PLACE = "./var"
"""Of `data_dir`, as the model says too."""
_SERVERS = "servers"
_IN_DATABASE = (
    "with `storage.kind: postgres` what is registered is in the database, for all gateways; move this file "
    "away, and register the server there (`douane servers add`) or write it into douane.yaml"
)


def place_of_registered(content: Mapping[str, Any], folder: Path) -> Path:
    """Return where the file is, if `content` is a configuration's that stands in `folder`."""
    written = content.get("data_dir", _USUAL_PLACE)
    return folder / (written if isinstance(written, str) else _USUAL_PLACE) / FILE


def is_shared(content: Mapping[str, Any]) -> bool:
    """Whether `content` is the configuration of a gateway that shares a database with others."""
    storage = content.get("storage")
    return isinstance(storage, dict) and storage.get("kind") == "postgres"


def read_registered(path: Path) -> str | None:
    """Return what the file says; `None` if there is none, or its folder is somebody else's.

    Raises:
        ConfigError: It cannot be read.

    """
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        # Whoever may not even enter the folder does not run this gateway.
        if isinstance(error, PermissionError) and not os.access(path.parent, os.X_OK):
            return None
        raise ConfigError(
            "the registered servers cannot be read", problems=[f"{path}:1: cannot be read"]
        ) from error


def tree_of(text: str | None, path: Path, folder: Path) -> Tree:
    """Return the servers in `text`, with what is wrong about them; none where it is empty.

    Files that they refer to are looked for in `folder`, the configuration's.

    Raises:
        ConfigError: It is not YAML.

    """
    if not text:
        return Tree(content={_SERVERS: {}}, lines={})
    tree = read(text, str(path))
    problems = (*tree.problems, *_problems(tree, path.parent, folder))
    return Tree(content=tree.content, lines=tree.lines, problems=problems)


def servers_in(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section `servers` of what was read from either file."""
    found = content.get(_SERVERS)
    return found if isinstance(found, dict) else {}


def not_in_a_file(tree: Tree) -> Tree:
    """Return what a file says, which is not where gateways that share a database look."""
    named = tuple(
        (tree.line((_SERVERS, name)), f"{_SERVERS}.{name}: {_IN_DATABASE}")
        for name in servers_in(tree.content)
    )
    return replace(tree, problems=(*tree.problems, *named))


def with_server(text: str | None, path: Path, name: str, settings: Mapping[str, Any]) -> str:
    """Return what the file is to say once `name` is registered as well."""
    return _written({**_kept(text, path), name: dict(settings)})


def without_server(text: str | None, path: Path, name: str) -> str:
    """Return what the file is to say once `name` is not registered any more."""
    kept = _kept(text, path)
    return _written({one: kept[one] for one in kept if one != name})


def reused(config: Config, registered: Tree) -> Iterator[tuple[int, str]]:
    """Yield where `registered` servers would be shown secrets that `douane.yaml` uses elsewhere.

    Whoever registers a server says where its secret is sent, and nobody gave them the operator's.
    """
    names = servers_in(registered.content).keys()
    written = {name: one for name, one in config.servers.items() if name not in names}
    kept = config.model_copy(update={"servers": written})
    held = {_place_of(reference) for reference in kept.references}
    for name in sorted(names):
        credential = config.servers[name].credential
        for key in ("value", "client_secret"):
            reference = getattr(credential, key)
            if reference is not None and _place_of(reference) in held:
                path: NodePath = (_SERVERS, name, "credential", key)
                text = "douane.yaml uses this secret; give the server one of its own"
                yield registered.line(path), f"{dotted(path)}: {text}"


def _place_of(reference: SecretRef) -> tuple[str, str]:
    """Return what is the same for all ways to write where a secret is."""
    is_file = reference.kind == "file"
    return (reference.kind, os.path.realpath(reference.name) if is_file else reference.name)


def _kept(text: str | None, path: Path) -> dict[str, Any]:
    return servers_in(read(text, str(path)).content) if text else {}


def _written(servers: Mapping[str, Any]) -> str:
    return json.dumps({_SERVERS: servers}, indent=2) + "\n"  # which is YAML as well


def _problems(tree: Tree, data_dir: Path, folder: Path) -> Iterator[tuple[int, str]]:
    if not isinstance(tree.content.get(_SERVERS), dict):
        yield 1, f"{_SERVERS}: write a mapping of names to settings"
    for key in tree.content.keys() - {_SERVERS}:
        yield tree.line((key,)), f"{key}: unknown key; there is `{_SERVERS}` alone"
    for name, section in servers_in(tree.content).items():
        if not isinstance(section, dict):
            continue  # which is told as what it is for any server
        for key in sorted(section.keys() - _KEYS):
            path: NodePath = (_SERVERS, name, key)
            text = "a registered server has none; write the server into douane.yaml instead"
            yield tree.line(path), f"{dotted(path)}: {text}"
        credential = section.get("credential")
        for key, text in credential.items() if isinstance(credential, dict) else ():
            if isinstance(text, str) and _is_in(text, folder, data_dir):
                path = (_SERVERS, name, "credential", key)
                yield tree.line(path), f"{dotted(path)}: what is in data_dir is nobody's credential"


def _is_in(reference: str, folder: Path, data_dir: Path) -> bool:
    """Whether a secret reference is to a file in `data_dir`, where the gateway's own keys are."""
    kind, _, name = reference.partition(":")
    return kind == "file" and (folder / name).resolve().is_relative_to(data_dir.resolve())
