"""What a jail keeps a local server from, what it shows, and when there is none to be had."""

import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from gateway.errors import UpstreamFailed
from gateway.upstream import jail, jail_trial
from gateway.upstream.jail import ProcessLimits
from gateway.upstream.launch import Launch, find_program, own_files, search_path
from tests.upstream.started import (
    PYTHON,
    SCRIPT,
    call,
    initialize,
    launch,
    local_upstream,
    runs,
    said,
    session_of,
    settings,
    until,
)

IN_JAIL = {"jailed": True}


async def test_a_jail_can_be_had_here():
    assert await jail_trial.problem(ProcessLimits()) == ""


async def test_it_reaches_no_network(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        async with local_upstream(tmp_path, jailed=True) as upstream:
            found = await said(upstream, call("connect", await session_of(upstream), port=port))
        assert found == "ConnectionRefusedError: Connection refused"
        async with local_upstream(tmp_path) as upstream:
            found = await said(upstream, call("connect", await session_of(upstream), port=port))
        assert found == "connected"


async def test_it_sees_only_what_it_was_given(tmp_path):
    mine, yours, out = tmp_path / "mine", tmp_path / "yours", tmp_path / "out"
    for folder in (mine, yours, out):
        folder.mkdir()
        (folder / "file").write_text("content")
    given = {"read": (mine,), "write": (out,)}
    async with local_upstream(tmp_path, jailed=True, launch=given) as upstream:
        session = await session_of(upstream)

        async def tries(what: str, path: Path, id_: int) -> object:
            return await said(upstream, call(what, session, id_, path=str(path)))

        assert await tries("read", mine / "file", 1) == "content"
        assert "Read-only" in str(await tries("write", mine / "file", 2))
        assert "No such file" in str(await tries("read", yours / "file", 3))
        assert await tries("write", out / "file", 4) == 7
        assert await tries("folder", tmp_path, 5) == "['mine', 'out']"
        await tries("write", tmp_path / "new", 6)  # in the jail's own memory, if at all
        assert "Read-only" in str(await tries("write", Path("/usr/new"), 7))
        assert "Read-only" in str(await tries("write", Path("/dev/new"), 8))
        root = str(await tries("folder", Path("/"), 9))
        assert not any(f"'{name}'" in root for name in ("home", "run", "sys", "var"))
        assert await tries("write", Path("/tmp/new"), 10) == 7
    assert (out / "file").read_text() == "written"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "out", "yours"]
    assert not Path("/tmp/new").exists()


async def test_it_sees_no_process_but_its_own_and_becomes_nobody_else(tmp_path):
    async with local_upstream(tmp_path, jailed=True) as upstream:
        session = await session_of(upstream)
        assert await said(upstream, call("pid", session, 1)) < 10
        assert await said(upstream, call("namespace", session, 2)) != 0
        found = await said(upstream, call("read", session, 3, path="/proc/self/status"))
        assert "CapBnd:\t0000000000000000" in found
        assert "Uid:\t1000" in found


def test_it_cannot_change_the_kernels_settings_although_its_gateway_is_root(tmp_path):
    """As `core_pattern`, with which the kernel would start a program of its choice outside."""
    tried = "for f in /proc/sys/kernel/core_pattern /proc/self/comm; do true >>$f; done"
    shell = ("/bin/sh", "-c", f"{tried}; grep ' /proc ' /proc/self/mounts")
    words = jail.command(Launch(argv=shell, folder=tmp_path), ProcessLimits())
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.stderr.count("cannot create"), done.stdout.split()[3][:3]) == (2, "ro,")


async def test_its_limits_are_what_was_said(tmp_path):
    limits = ProcessLimits(memory_bytes=300 << 20, files=50, processes=20)
    for jailed in (True, False):
        one = replace(settings(tmp_path, jailed=jailed), process=limits)
        async with local_upstream(tmp_path, settings=one) as upstream:
            session = await session_of(upstream)
            found = await said(upstream, call("limits", session, 1))
            told = {name: found[name] for name in ("DATA", "NOFILE", "CORE")}
            assert told == {"DATA": str(300 << 20), "NOFILE": "50", "CORE": "0"}
            assert (found["NPROC"] == "20") is jailed
            assert await said(upstream, call("memory", session, 2, bytes=1 << 30)) == "MemoryError"


async def test_nothing_that_it_started_outlives_it(tmp_path):
    names = {"jailed": f"61.{os.getpid()}", "bare": f"62.{os.getpid()}"}
    for name, jailed in (("jailed", True), ("bare", False)):
        async with local_upstream(tmp_path, jailed=jailed) as upstream:
            session = await session_of(upstream)
            # Without a jail, whoever leaves the group gets away.
            await said(upstream, call("fork", session, away=jailed, seconds=names[name]))
            await until(partial(_sleeping, names[name]))
        # It was killed; that it is gone takes the kernel a moment.
        await until(lambda seconds=names[name]: not _sleeping(seconds))


@pytest.mark.parametrize("jailed", [True, False], ids=["jailed", "bare"])
async def test_it_ends_with_a_gateway_that_is_killed(tmp_path, jailed):
    seconds = f"60.{os.getpid()}{int(jailed)}"  # nobody else's, and not for ever
    one = Launch(argv=("/usr/bin/sleep", seconds), folder=tmp_path, jailed=jailed)
    starts = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    words = jail.command(one, ProcessLimits())
    with subprocess.Popen([sys.executable, "-c", starts, *words]) as gateway:
        await until(partial(_sleeping, seconds))
        gateway.kill()
    await until(lambda: not _sleeping(seconds))


def _sleeping(seconds: str) -> bool:
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = line.read_bytes()
        except OSError:
            continue
        if words.endswith(f"sleep\0{seconds}\0".encode()) and b"bwrap" not in words:
            return runs(int(line.parent.name))
    return False


async def test_a_jail_that_will_not_end_is_killed_and_leaves_nobody_to_bury(tmp_path):
    async with local_upstream(tmp_path, "stubborn", jailed=True) as upstream:
        session = await session_of(upstream)
        channel = upstream._channels.find(session, initialize().principal.key)
        assert channel is not None
        bwrap = channel._child._process.pid
        children = Path(f"/proc/{bwrap}/task/{bwrap}/children").read_text().split()
        assert len(children) == 1
    assert not Path(f"/proc/{children[0]}").exists()


async def test_a_jail_ends_by_the_book_too(tmp_path):
    given = {"write": (tmp_path,)}
    for how, told in (("tidy", "EOF"), ("notes-the-signal", "TERM")):
        async with local_upstream(tmp_path, how, jailed=True, launch=given) as upstream:
            await session_of(upstream)
        assert (tmp_path / "ended").read_text() == told


async def test_its_environment_in_a_jail_holds_nothing_of_ours(tmp_path, monkeypatch):
    monkeypatch.setenv("OURS", "secret")
    given = {"environment": {"TOKEN": "theirs"}}
    async with local_upstream(tmp_path, jailed=True, launch=given) as upstream:
        found = await said(upstream, call("environment", await session_of(upstream)))
    assert set(found) - {"PWD", "LC_CTYPE"} == {"PATH", "LANG", "HOME", "TOKEN"}
    assert found["HOME"] == "/tmp"


def test_no_secret_is_among_the_words_of_the_command(tmp_path):
    one = launch(tmp_path, jailed=True, environment={"TOKEN": "theirs"})
    assert "theirs" not in " ".join(jail.command(one, ProcessLimits()))
    assert "theirs" not in repr(one)


# No jail.


async def test_without_the_program_there_is_no_jail(monkeypatch, tmp_path):
    monkeypatch.setattr(jail, "PATH", str(tmp_path))
    assert await jail_trial.problem(ProcessLimits()) == (
        "bwrap and prlimit not found; install bubblewrap and util-linux"
    )


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (
            "echo no namespaces for you >&2; exit 1",
            "bwrap does not work here (no namespaces for you)",
        ),
        ("exit 3", "bwrap does not work here (exit status 3)"),
    ],
    ids=["said", "silent"],
)
async def test_a_jail_that_does_not_hold_when_tried_is_none(monkeypatch, tmp_path, script, told):
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(jail, "PATH", f"{tmp_path}:/usr/bin:/bin")
    assert await jail_trial.problem(ProcessLimits()) == told


async def test_a_jail_that_never_closes_is_none(monkeypatch, tmp_path):
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(jail, "PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(jail_trial, "_PROBE_S", 0.2)
    assert await jail_trial.problem(ProcessLimits()) == "bwrap did not end within 0.2 s"


# What is shown.


def test_a_program_brings_its_environment_and_its_interpreter_and_nobodys_data():
    shown = own_files(Path(PYTHON))
    assert Path(PYTHON).parent.parent in shown
    base = Path(PYTHON).resolve()
    assert base.parent.parent / "lib" in shown or base.is_relative_to("/usr")
    assert not {Path("/"), Path.home(), Path(PYTHON).parent.parent.parent} & set(shown)


def test_a_script_brings_its_interpreter(tmp_path):
    script = tmp_path / "tool"
    script.write_text(f"#!{PYTHON}\n")
    script.chmod(0o755)
    link = tmp_path / "bin" / "tool"
    link.parent.mkdir()
    link.symlink_to("../tool")
    shown = own_files(link)
    assert {link, script, Path(PYTHON).parent.parent} <= set(shown)
    assert tmp_path not in shown
    assert search_path(link).split(":")[:2] == [str(link.parent), str(tmp_path)]
    assert str(Path(PYTHON).parent) in search_path(link).split(":")


def test_a_node_package_brings_the_folder_it_is_installed_in(tmp_path):
    package = tmp_path / "node_modules" / "server" / "node_modules" / "deep" / "index.js"
    package.parent.mkdir(parents=True)
    package.write_text("#!/usr/bin/env node\n")
    link = tmp_path / "node_modules" / ".bin" / "server"
    link.parent.mkdir()
    link.symlink_to(package)
    assert own_files(link) == (tmp_path / "node_modules",)


def test_a_program_is_found_as_a_shell_finds_it(tmp_path):
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find_program("./tool", tmp_path, "") == program
    assert find_program("tool", Path("/"), str(tmp_path)) == program
    with pytest.raises(ValueError, match="there is no program `tool`"):
        find_program("tool", tmp_path, "/usr/bin")


@pytest.mark.parametrize("member", ["read", "write"])
def test_the_gateways_own_data_are_never_shown(tmp_path, member):
    data = tmp_path / "data"
    data.mkdir()
    (data / "audit.key").touch()
    link = tmp_path / "link"
    link.symlink_to(data)
    for path in (tmp_path, data, data / "audit.key", link):
        one = replace(Launch(argv=("/usr/bin/env",), folder=tmp_path), **{member: (path,)})  # type: ignore[arg-type]
        assert list(jail.hides(one, [data])) == [f"`{path}` would show the gateway's own data"]
    (tmp_path / "other").touch()
    one = Launch(argv=("/usr/bin/env",), folder=tmp_path, read=(tmp_path / "other",))
    assert list(jail.hides(one, [data])) == []


@pytest.mark.parametrize("way", ["straight", "link", "link-in-there", "above"])
@pytest.mark.parametrize("member", ["read", "write"])
async def test_what_a_server_may_exchange_meanwhile_is_shown_to_none(tmp_path, way, member):
    """Between our look and the jail's: what is there by then is whatever it put there."""
    work, other = tmp_path / "work", tmp_path / "other"
    (work / "a").mkdir(parents=True)
    other.mkdir()
    (work / "out").symlink_to("../other")
    (tmp_path / "in").symlink_to("work/a")
    paths = {
        "straight": work / "a",
        "link": tmp_path / "in",
        "link-in-there": work / "out",
        "above": work / "a" / ".." / ".." / "other",
    }
    one = {"launch": {member: (paths[way],)}, "changeable": (work,), **IN_JAIL}
    async with local_upstream(tmp_path, **one) as upstream:
        with pytest.raises(UpstreamFailed) as refused:
            await upstream.forward(initialize())
    assert refused.value.detail == (
        f"`{paths[way]}` lies in `{work}`, where a server may put what it likes in its place"
    )


def test_nor_is_what_one_server_may_exchange_itself_and_its_program(tmp_path):
    work, program = tmp_path / "work", tmp_path / "work" / "tool"
    work.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    one = Launch(argv=(str(program),), folder=tmp_path, write=(work,))
    assert list(jail.hides(one, [])) == [
        f"`{program}` lies in `{work}`, where a server may put what it likes in its place"
    ]


async def test_nor_is_that_started_without_a_jail(tmp_path):
    work, program = tmp_path / "work", tmp_path / "work" / "tool"
    work.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    one = Launch(argv=(str(program),), folder=tmp_path, jailed=False)
    about = replace(settings(tmp_path), launch=one, changeable=(work,))
    async with local_upstream(tmp_path, settings=about) as upstream:
        with pytest.raises(UpstreamFailed) as refused:
            await upstream.forward(initialize())
    assert refused.value.detail == (
        f"`{program}` lies in `{work}`, where a server may put what it likes in its place"
    )


def test_two_may_have_the_same_folder_and_what_lies_beside_it(tmp_path):
    for name in ("work", "work2"):
        (tmp_path / name).mkdir()
    given = (tmp_path / "work", tmp_path / "work2")
    one = Launch(argv=("/usr/bin/env",), folder=tmp_path, read=given[1:], write=given[:1])
    assert list(jail.hides(one, [], given)) == []


async def test_what_is_exchanged_behind_a_path_later_is_not_shown_either(tmp_path):
    """Be it by whoever else may change the folder around it."""
    data, shown = tmp_path / "data", tmp_path / "work" / "a" / "b"
    data.mkdir()
    shown.mkdir(parents=True)
    about = {"launch": {"read": (shown,)}, "concealed": (data,), **IN_JAIL}
    async with local_upstream(tmp_path, **about) as upstream:
        await session_of(upstream)
        shown.rmdir()
        shown.symlink_to(data)
        with pytest.raises(UpstreamFailed) as refused:
            await upstream.forward(initialize())
        assert refused.value.detail == f"`{shown}` would show the gateway's own data"


def test_data_of_ours_among_the_systems_files_leave_no_jail_to_be_had():
    one = Launch(argv=("/usr/bin/env",), folder=Path("/"))
    assert list(jail.hides(one, [Path("/usr/douane/data")])) == [
        "`/usr/douane/data` is the gateway's own, and lies where every jail shows it"
    ]


@pytest.mark.parametrize("path", ["/", "/etc", "/run", "/proc/1", "/sys", "/dev", "/var", "/root"])
def test_what_holds_more_than_one_servers_files_is_not_shown(path):
    one = Launch(argv=("/usr/bin/env",), folder=Path("/"), read=(Path(path),))
    (told,) = jail.hides(one, [])
    assert "more than a jail can keep" in told


def test_what_is_not_there_or_is_a_socket_is_not_shown(tmp_path):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        one = Launch(
            argv=("/usr/bin/env",), folder=tmp_path, read=(tmp_path / "s", tmp_path / "gone")
        )
        assert list(jail.hides(one, [])) == [
            f"`{tmp_path / 's'}` is a socket, which no jail closes",
            f"`{tmp_path / 'gone'}` is not there",
        ]


# Which server it is.


@pytest.mark.parametrize(
    "change",
    [
        {"argv": (PYTHON, str(SCRIPT), "more")},
        {"folder": Path("/elsewhere")},
        {"jailed": False},
        {"references": (("TOKEN", "env:OTHER"),)},
        {"read": (Path("/a"), Path("/b"))},
        {"write": (Path("/b"),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_command_or_jail_is_another_server(change):
    one = Launch(
        argv=(PYTHON, str(SCRIPT)),
        folder=Path("/x"),
        references=(("TOKEN", "env:ONE"),),
        read=(Path("/a"),),
    )
    assert replace(one, **change).identity != one.identity
    assert one.identity.startswith("command:sha256:")


def test_the_same_command_is_the_same_server_whatever_its_secrets_are():
    one = Launch(argv=(PYTHON,), folder=Path("/x"), environment={"TOKEN": "a"})
    assert replace(one, environment={"TOKEN": "b"}).identity == one.identity


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="util-linux is not here")
def test_an_unprivileged_gateway_has_the_jail_too(tmp_path):
    """And there the kernel counts processes, as it does not for root."""
    one = Launch(
        argv=("/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 1 & done"), folder=tmp_path
    )
    words = jail.command(one, ProcessLimits(processes=5))
    words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--", *words]
    tmp_path.chmod(0o755)
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd="/")
    assert "fork" in done.stderr
