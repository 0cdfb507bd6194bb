"""From a policy's files to a policy that may be put in force: checked, tested, compiled."""

import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from gateway.domain._value import value
from gateway.errors import ConfigError
from gateway.policy import lint
from gateway.policy.dlp_table import unsaid_in_dlp
from gateway.policy.doubled import doubled
from gateway.policy.lint import Module
from gateway.policy.opa import Opa, Ran, require
from gateway.policy.schema import input_schema
from gateway.policy.sources import POLICY_FOLDER, Sources
from gateway.policy.testing import Judged, judge

ENTRYPOINTS = ("decision", "pin", "pin_approvals", "self_approval")


@value
class Policy:
    """A policy that passed every check, with the data it decides on. Made only by `prepare`."""

    sources: Sources
    modules: tuple[Module, ...]
    data: Mapping[str, Any]
    """The whole of `data`: its documents, and the gateway's own at `data.douane.config`."""
    entrypoints: tuple[str, ...]
    """Which of `ENTRYPOINTS` it says anything about."""
    digest: str
    notices: tuple[str, ...] = ()
    """What its operator should know and is not wrong."""


def prepare(
    opa: Opa, sources: Sources, config: Mapping[str, Any], *, tested: bool = True
) -> Policy:
    """Check and test `sources`; `config` becomes `data.douane.config`.

    Without `tested` nothing of it is run: OPA itself could be made to reach out.

    Raises:
        ConfigError: Something is wrong with it, with every problem as `file:line: text`.

    """
    with laid_out(sources, tests=True) as folder:
        modules = tuple(parsed(opa, folder, path) for path in sources.rego)
        twice = doubled(sources.files)
        if wrong := [*twice, *lint.problems(modules), *type_problems(opa, folder)]:
            raise ConfigError("the policy is refused", problems=wrong)
        judged = Judged()
        if tested and sources.has_tests:
            judged = judge(opa, folder, sources, modules)
        if judged.failures:
            raise ConfigError("the policy's own tests fail", problems=judged.failures)
        data = _data(opa, folder, config)
    if wrong := unsaid_in_dlp(data):
        raise ConfigError("the policy is refused", problems=wrong)
    return Policy(
        sources=sources,
        modules=modules,
        data=data,
        entrypoints=tuple(name for name in ENTRYPOINTS if lint.defines(modules, name)),
        digest=sources.digest(config),
        notices=judged.notices,
    )


def compile_wasm(opa: Opa, policy: Policy) -> bytes:
    """Compile a policy to WebAssembly.

    Raises:
        ConfigError: OPA cannot.

    """
    return _compiled(opa, policy, "wasm", "/policy.wasm")


def compile_plan(opa: Opa, policy: Policy) -> dict[str, Any]:
    """Compile a policy to OPA's plan of it, which can be analysed.

    Raises:
        ConfigError: OPA cannot.

    """
    plan: dict[str, Any] = _read(_compiled(opa, policy, "plan", "/plan.json"), "plan.json")
    return plan


def _compiled(opa: Opa, policy: Policy, target: str, name: str) -> bytes:
    """Compile a policy, and return the file `name` of the bundle that comes out.

    Without optimisation: OPA's optimiser decides on the data it is shown, and ours comes later.

    Raises:
        ConfigError: OPA cannot.

    """
    asked = [part for name in policy.entrypoints for part in ("-e", f"douane/{name}")]
    with laid_out(policy.sources, tests=False) as folder:
        ran = opa.run(
            "build",
            "-t",
            target,
            "-O",
            "0",
            *asked,
            "-o",
            "out.tar.gz",
            "-b",
            POLICY_FOLDER,
            cwd=folder,
        )
        require(ran, "OPA cannot compile the policy", hide=[f"{POLICY_FOLDER}/"])
        return _member(folder / "out.tar.gz", name)


def export(policy: Policy, folder: Path) -> None:
    """Write a policy without its tests, and all of its data, below `folder` as a bundle."""
    for path in policy.sources.rego:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(policy.sources.files[path])
    (folder / "data.json").write_bytes(orjson.dumps(dict(policy.data)))


def type_problems(opa: Opa, folder: Path) -> list[str]:
    """Return what OPA's own strict check finds in the policy laid out in `folder`."""
    (folder / "schema.json").write_text(json.dumps(input_schema()), encoding="utf-8")
    ran = opa.run(
        "check", "--strict", "-b", POLICY_FOLDER, "-s", "schema.json", "-f", "json", cwd=folder
    )
    return [] if ran.ok else list(_described(ran))


def _described(ran: Ran) -> Iterator[str]:
    try:
        errors = orjson.loads(ran.err or ran.out)["errors"]
        for error in errors:
            where = error.get("location") or {}
            file = str(where.get("file", "")).removeprefix(f"{POLICY_FOLDER}/")
            yield f"{file}:{where.get('row', 0)}: {error['message']}{_meant(error.get('details'))}"
    except (orjson.JSONDecodeError, KeyError, TypeError):
        yield from (line.replace(f"{POLICY_FOLDER}/", "") for line in ran.lines)


def _meant(details: Any) -> str:
    """Return which member of the question may be meant by one that it has not."""
    try:
        return lint.like(details["ref"][details["pos"]]["value"], details["oneOf"])
    except (LookupError, TypeError):
        return ""


@contextmanager
def laid_out(sources: Sources, *, tests: bool) -> Iterator[Path]:
    """Lay a policy out in `policy/` of a folder that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="douane-policy-"))
    try:
        (folder / POLICY_FOLDER).mkdir()
        sources.write(folder / POLICY_FOLDER, tests=tests)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def parsed(opa: Opa, folder: Path, path: str) -> Module:
    """Parse one file of the policy laid out in `folder`.

    Raises:
        ConfigError: It is no Rego.

    """
    ran = opa.run(
        "parse", "-f", "json", "--json-include", "locations", f"{POLICY_FOLDER}/{path}", cwd=folder
    )
    if not ran.ok:
        raise ConfigError("the policy cannot be read", problems=list(_described(ran)))
    return Module(path=path, tree=_read(ran.out, path))


def _data(opa: Opa, folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data documents merged by OPA, and the gateway's own beside them."""
    ran = opa.run("build", "-o", "data.tar.gz", "-b", POLICY_FOLDER, cwd=folder)
    require(ran, "OPA does not accept the policy", hide=[f"{POLICY_FOLDER}/"])
    data: dict[str, Any] = _read(_member(folder / "data.tar.gz", "/data.json"), "data.json")
    ours = data.setdefault("douane", {})
    if "system" in data or not isinstance(ours, dict) or "config" in ours:
        raise ConfigError(
            "the policy is refused",
            problems=["data.json:1: data.system and data.douane.config belong to the gateway"],
        )
    ours["config"] = dict(config)
    return data


def _read(text: bytes | str, path: str) -> Any:
    """Read what OPA wrote of the file `path`: it knows larger numbers, and deeper lists.

    Raises:
        ConfigError: No evaluation could be given that.

    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        problems = [f"{path}:1: a number is too large, or something is nested too deep: {error}"]
        raise ConfigError("the policy cannot be read", problems=problems) from error


def _member(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as tar:
        content = tar.extractfile(name)
        if content is None:
            raise ConfigError(f"OPA wrote no {name}")
        return content.read()
