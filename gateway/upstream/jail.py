"""The jail of a local server: no network, a read-only system, only the files that it was given.

One that may reach something listens on its own loopback, for a proxy of ours outside of it.

`bwrap` (bubblewrap) makes it of namespaces, `prlimit` bounds what runs in it. Whether both work is
found out by running them (`jail_trial`): containers and hardened kernels often forbid the namespaces.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from gateway.domain._value import value
from gateway.upstream import jail_entry
from gateway.upstream.launch import SYSTEM, Launch, all_files, in_system, own_files, search_path

MEBIBYTE: Final = 1024 * 1024

_ETC: Final = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
_HOME: Final = "/tmp"  # noqa: S108 - the jail's own, empty and gone with it
_SCRATCH_BYTES: Final = 64 * MEBIBYTE
"""Of each folder in memory that a jail can write."""
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_INTERPRETER: Final = Path(sys.executable).resolve()
_ENTRY: Final = Path(jail_entry.__file__)
_PROXY: Final = f"http://127.0.0.1:{jail_entry.PORT}"
_AUTHORITIES: Final = tuple(
    map(Path, ("/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/pki/tls/certs", "/etc/pki/ca-trust"))
)
"""Whom the system trusts to name servers: without them most programs open no TLS. No keys."""
_OWN_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
"""What a program in a jail means by it is there, and not behind the proxy."""

_WALLS: Final = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"),
    *("--disable-userns", "--cap-drop", "ALL", "--uid", "1000", "--gid", "1000"),
    *("--die-with-parent", "--new-session", "--as-pid-1"),
)
"""The server is the first process of its jail, so that all others end with it, and bwrap waits for
it: as a child of bwrap's own first process it would leave that one for our init to bury.
`--disable-userns` keeps whoever is inside from becoming root of a namespace of their own, and with
it a large part of the kernel out of reach; `--new-session` keeps them off a terminal of ours.
No namespace of control groups, nor a name for the machine: what nobody needs here the shipped
systemd unit and the usual filters of containers need not allow."""


@value
class ProcessLimits:
    """What one process of a local server may use. None of them can be switched off."""

    memory_bytes: int = 1024 * MEBIBYTE
    """Of data; each process that it starts has as much again."""
    files: int = 512
    """Open at once."""
    processes: int = 128
    """At once. The kernel holds nobody to it who runs as root, and so no jail of a root's."""

    def __post_init__(self) -> None:
        if min(self.memory_bytes, self.files, self.processes) <= 0:
            raise ValueError("a limit is a positive number")


def command(launch: Launch, limits: ProcessLimits, handover: int | None = None) -> list[str]:
    """Return the words that start `launch`.

    With the file descriptor of a `handover` it is made to listen for the proxy, and says so there.
    """
    if launch.jailed:
        bounded = _bounded(limits, processes=True)
        entry = [] if handover is None else [*map(str, _entry()), str(handover)]
        return [_tool("bwrap"), *_WALLS, *_shown(launch), "--", *bounded, *entry, *launch.argv]
    # The number of processes is counted over all of a user's, and ours are among them.
    return [_tool("setpriv"), "--pdeathsig", "KILL", "--", *_bounded(limits), *launch.argv]


def environment(launch: Launch) -> dict[str, str]:
    """Return all that the server finds in its environment."""
    home = {"HOME": _HOME} if launch.jailed else {}
    proxy = _proxies(launch) if launch.jailed and launch.reach else {}
    own = {"PATH": search_path(Path(launch.argv[0])), "LANG": "C.UTF-8", **home, **proxy}
    # Handed to bwrap as its own, which it passes on: words of a command are for everybody to see.
    return {**launch.environment, **own}


def hides(launch: Launch, secret: Iterable[Path], changeable: Iterable[Path] = ()) -> Iterator[str]:
    """Yield why `launch` cannot have the files that it names; nothing in `secret` is ever shown.

    Nor is what lies in what it may change, or in one of the folders that are `changeable` by others:
    whoever is in there puts a link in its place between this look and the jail's. A program from
    there is not started without a jail either: they would have it do what theirs keeps them from.
    Nothing is yielded for what only starting it can tell. It holds for as long as nobody moves what
    the paths lead to, so it is asked before each start.
    """
    try:
        yield from _hides(launch, secret, changeable)
    except (OSError, RuntimeError) as error:
        # A folder that somebody closed, a link that leads to itself: it is theirs who may put it there.
        yield f"what it needs cannot be looked at: {error}"


def _hides(launch: Launch, secret: Iterable[Path], changeable: Iterable[Path]) -> Iterator[str]:
    kept = [path.resolve() for path in secret if launch.jailed]
    theirs = {path.resolve(): path for path in (*changeable, *launch.write)}
    for path in filter(in_system, kept):
        yield f"`{path}` is the gateway's own, and lies where every jail shows it"
    for path in (*launch.read, *launch.write):
        real = path.resolve()
        if not real.exists():
            yield f"`{path}` is not there"
        elif real.is_socket():
            yield f"`{path}` is a socket, which no jail closes"
        elif real in _WHOLE or any(real.is_relative_to(hole) for hole in _HOLES):
            yield f"`{path}` shows more than a jail can keep; name what is needed of it"
    for path in (*launch.read, *launch.write, *_programs(launch)):
        real = path.resolve()
        if any(one.is_relative_to(real) or real.is_relative_to(one) for one in kept):
            yield f"`{path}` would show the gateway's own data"
        within = {theirs[one] for step in way_to(path) for one in step.parents if one in theirs}
        for folder in sorted(within):
            yield f"`{path}` lies in `{folder}`, where a server may put what it likes in its place"
        of_it = (
            [] if launch.jailed else [p for one, p in theirs.items() if one.is_relative_to(real)]
        )
        for part in of_it:
            yield f"`{part}` is of `{path}`, and a server may put what it likes there"


def way_to(path: Path, links: int = 40) -> Iterator[Path]:
    """Yield each place that is looked at to find out where `path` leads, links on the way among them.

    Behind more `links` the kernel finds nothing (path_resolution(7)).
    """
    at = Path("/")
    for place, part in enumerate(path.parts[1:], start=2):
        at = Path(os.path.normpath(at / part))  # there is no link in `at`
        yield at
        if links and at.is_symlink():
            yield from way_to(at.parent.joinpath(at.readlink(), *path.parts[place:]), links - 1)
            return


_HOLES: Final = tuple(map(Path, ("/proc", "/sys", "/dev", "/run")))
"""Where the kernel and the sockets of other services are."""
_WHOLE: Final = frozenset(map(Path, ("/", "/etc", "/home", "/root", "/var")))
"""What holds everybody's files, and not one server's."""


def _shown(launch: Launch) -> Iterator[str]:
    """Yield the arguments that make the file system, what lies deeper after what holds it."""
    yield from _system()
    yield from ("--proc", "/proc", "--dev", "/dev")
    for folder in ("/dev/shm", "/tmp"):  # noqa: S108 - the jail's own
        yield from ("--size", str(_SCRATCH_BYTES), "--tmpfs", folder)
    yield from _ours(launch)
    # Above the other mounts, so that they stay writable where they are. Whoever is root here could
    # change the kernel's settings in /proc, under any number and without a capability.
    for folder in ("/proc", "/dev", "/"):
        yield from ("--remount-ro", folder)
    yield from ("--chdir", str(launch.folder))


def _system() -> Iterator[str]:
    for path in SYSTEM:
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    for name in _ETC:
        yield from ("--ro-bind-try", name, name)


def _ours(launch: Launch) -> Iterator[str]:
    if not in_system(launch.folder):
        yield from ("--dir", str(launch.folder))
    binds = dict.fromkeys((*_programs(launch), *launch.read), "--ro-bind")
    binds |= dict.fromkeys(launch.write, "--bind")
    for path in sorted(binds):
        yield from (binds[path], str(path.resolve()), str(path))


def _programs(launch: Launch) -> tuple[Path, ...]:
    """Return what the server, and what it begins as, needs beyond the system; without a jail, there too."""
    if not launch.jailed:
        return all_files(Path(launch.argv[0]))
    own = own_files(Path(launch.argv[0]))
    if not launch.reach:
        return own
    more = (path for path in (_ENTRY, *_AUTHORITIES) if path.exists() and not in_system(path))
    return tuple(dict.fromkeys((*own, *own_files(_INTERPRETER), *more)))


def _entry() -> Sequence[Path | str]:
    # Of the environment and of other people's libraries it takes nothing in.
    return (_INTERPRETER, "-I", "-S", _ENTRY)


def _proxies(launch: Launch) -> dict[str, str]:
    """Return what tells programs of the proxy; Node heeds it if it is told so."""
    listed = {destination.host for destination in launch.reach}
    direct = ",".join(name for name in _OWN_LOOPBACK if name not in listed)
    named = {"HTTP_PROXY": _PROXY, "HTTPS_PROXY": _PROXY, "NO_PROXY": direct}
    return {
        **named,
        **{name.lower(): text for name, text in named.items()},
        "NODE_USE_ENV_PROXY": "1",
    }


def _bounded(limits: ProcessLimits, *, processes: bool = False) -> Sequence[str]:
    bounds = [f"--data={limits.memory_bytes}", f"--nofile={limits.files}", "--core=0"]
    if processes:
        bounds.append(f"--nproc={limits.processes}")
    return [_tool("prlimit"), *bounds, "--"]


def _tool(name: str) -> str:
    # Never from the server's own PATH, where it might lie beside the program.
    return shutil.which(name, path=PATH) or name
