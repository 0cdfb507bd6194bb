"""Every server of the configuration in the words of the upstream room, and whether it can be had."""

import os
import random
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Final

from gateway.config import Config, Server
from gateway.config.values import UnixOrTcp
from gateway.domain.tools import UpstreamId
from gateway.policy.toolchain import cache_place
from gateway.ports import Upstream
from gateway.upstream.bounds import Bounds, EgressPolicy
from gateway.upstream.breaker import Breaker, Patience
from gateway.upstream.guarded import GuardedUpstream
from gateway.upstream.http import HttpUpstream
from gateway.upstream.jail import PATH, ProcessLimits, hides, way_to
from gateway.upstream.jail_trial import problem
from gateway.upstream.launch import Launch, find_program
from gateway.upstream.proxy import Refusals, Tell, WayOut
from gateway.upstream.settings import (
    HeaderCredential,
    Limits,
    LocalSettings,
    Timeouts,
    UpstreamSettings,
)
from gateway.upstream.stdio import StdioUpstream
from gateway.wire.jsontext import WireLimits
from gateway.wiring.carried import Link

_CODE: Final = (
    Path(__file__).parents[1],
    *(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)
"""Where this gateway's own code is, and the libraries that it has."""


async def upstreams_of(
    config: Config, tell: Tell | None = None
) -> list[UpstreamSettings | LocalSettings]:
    """Return every server's settings; a jail is tried where one is wanted.

    What a jailed server is refused of the network is told to the log, and to `tell`.
    """
    wanted = any(one.command and one.jail == "auto" for one in config.servers.values())
    no_jail = await problem(_process_limits(config)) if wanted else ""
    return [
        _local_settings(name, server, config, no_jail, WayOut(refusals=Refusals(tell)))
        if server.command
        else _remote_settings(name, server, config)
        for name, server in config.servers.items()
    ]


def link_of(settings: UpstreamSettings | LocalSettings, config: Config) -> Link:
    """Return a new way to a server; nothing is opened before somebody calls.

    Whichever way it is called, it has one breaker.
    """
    patience = Patience(
        failures=config.limits.upstream_failures, rest_s=config.limits.upstream_rest
    )
    breaker = Breaker(
        settings.server, patience, clock=time.monotonic, jitter=random.SystemRandom().random
    )
    upstream: Upstream | None = None
    if isinstance(settings, LocalSettings):
        upstream = StdioUpstream(settings)
    elif not settings.per_person:
        upstream = HttpUpstream(settings)
    return Link(settings=settings, breaker=breaker, upstream=upstream)


def guarded(
    upstreams: Mapping[UpstreamId, Upstream],
    breakers: Mapping[UpstreamId, Breaker],
    limits: WireLimits,
) -> dict[UpstreamId, Upstream]:
    """Return each of `upstreams` behind its breaker."""
    return {
        server: GuardedUpstream(upstream, breakers[server], limits)
        for server, upstream in upstreams.items()
    }


def _remote_settings(name: str, server: Server, config: Config) -> UpstreamSettings:
    credential, limits = server.credential, config.limits
    header = None
    if credential.kind == "header" and credential.value is not None:
        header = HeaderCredential(
            name=credential.name, value=credential.value.resolve(os.environ).reveal()
        )
    return UpstreamSettings(
        server=UpstreamId(name),
        url=str(server.url),
        credential=header,
        per_person=credential.kind in {"oauth", "exchange"},
        extensions=frozenset(server.extensions),
        timeouts=_timeouts(config),
        limits=Limits(result_bytes=limits.result_bytes, json_depth=limits.json_depth),
        bounds=bounds_of(name, config),
    )


def bounds_of(name: str, config: Config) -> Bounds | None:
    """Return where a server may be: the operator's word needs none, a registration's does."""
    if name not in config.registered:
        return None
    return Bounds(policy=EgressPolicy.of(config.egress.allow))


def _local_settings(
    name: str, server: Server, config: Config, no_jail: str, way_out: WayOut
) -> LocalSettings:
    limits = config.limits
    launch, problems = _launch(server, config)
    if launch.jailed and no_jail:
        problems = [f"no jail: {no_jail}; or write `jail: none`", *problems]
    return LocalSettings(
        server=UpstreamId(name),
        launch=launch,
        concealed=tuple(_secret(config)),
        changeable=_changeable(config),
        refused="; ".join(problems),
        extensions=frozenset(server.extensions),
        timeouts=_timeouts(config),
        limits=Limits(result_bytes=limits.result_bytes, json_depth=limits.json_depth),
        process=_process_limits(config),
        processes=limits.processes,
        idle_s=limits.process_idle,
        way_out=way_out,
    )


def _launch(server: Server, config: Config) -> tuple[Launch, list[str]]:
    """Return how a server is started, and all that stands against it."""
    folder = server.folder.absolute()
    is_there = os.path.isdir(folder)  # noqa: PTH112 - nor is one that is closed to us
    problems = [] if is_there else [f"`{folder}` is no folder"]
    program, *arguments = server.command
    try:
        program = str(find_program(program, folder, os.environ.get("PATH", "")))
    except ValueError as error:
        problems.append(str(error))
    launch = Launch(
        argv=(program, *arguments),
        folder=folder,
        jailed=server.jail == "auto",
        environment={
            name: ref.resolve(os.environ).reveal() for name, ref in server.environment.items()
        },
        references=tuple((name, str(ref)) for name, ref in server.environment.items()),
        read=tuple(path.absolute() for path in server.files.read),
        write=tuple(path.absolute() for path in server.files.write),
        reach=server.network.allow if server.network else (),
    )
    if not problems:
        problems += hides(launch, _secret(config), _changeable(config))
    if not problems:
        problems += _lets_change(launch, _gone_by(config))
    return launch, problems


def _secret(config: Config) -> list[Path]:
    """Return what no server may see of this machine, whatever the configuration says."""
    files = [Path(ref.name) for ref in config.references if ref.kind == "file"]
    listeners = (config.tls, config.planes.grpc)
    keys = [one.key for one in listeners if one is not None and one.key is not None]
    return [config.data_dir, *files, *keys]


def _gone_by(config: Config) -> list[Path]:
    """Return what this gateway goes by, its policy for one as soon as that is saved: no server may change it.

    Nor what it writes down, nor its own code, nor what it starts or is found by.
    """
    path, ours = config.policy.path, config.model_copy(update={"servers": {}})
    policy = [] if "://" in path else [Path(path)]
    sockets = [one.at for one in ours.all_of(UnixOrTcp) if isinstance(one.at, Path)]
    named = [config.file, *policy, *sockets, *_secret(config), *ours.all_of(Path)]
    return [*named, *_CODE, *_started()]


def _started() -> Iterator[Path]:
    """Yield what programs of its own this gateway starts, or may find and make to be started.

    A folder of a server's own below one of these is nothing that is found there or made.
    """
    if opa := os.environ.get("DOUANE_OPA"):
        yield Path(opa)
    yield cache_place()
    found_in = (sysconfig.get_path("scripts"), *os.get_exec_path(), *PATH.split(":"))
    for folder in (*found_in, tempfile.gettempdir()):
        yield Path(folder, "*")


def _lets_change(launch: Launch, kept: Sequence[Path]) -> Iterator[str]:
    """Yield what `launch` might change of what is `kept`, by whatever links either is named."""
    for path, one in product(launch.write, dict.fromkeys(kept)):
        theirs, way = path.resolve(), way_to(one.absolute())
        if theirs.is_relative_to(one.resolve()) or any(at.is_relative_to(theirs) for at in way):
            yield f"`{path}` would let a server change `{one}`, by which this gateway goes"


def _changeable(config: Config) -> tuple[Path, ...]:
    """Return where local servers may put what they like, whichever of them.

    What is named in such a folder is not counted: nobody is shown it, and what it leads to by now
    whoever is in there has chosen, to have others refused.
    """
    named = {path.absolute() for one in config.servers.values() for path in one.files.write}
    return tuple(
        path for path in sorted(named) if ".." in path.parts or named.isdisjoint(path.parents)
    )


def _timeouts(config: Config) -> Timeouts:
    limits = config.limits
    return Timeouts(
        connect_s=limits.upstream_connect,
        idle_s=limits.upstream_idle,
        hard_s=limits.upstream_hard,
    )


def _process_limits(config: Config) -> ProcessLimits:
    return ProcessLimits(memory_bytes=config.limits.process_memory)
