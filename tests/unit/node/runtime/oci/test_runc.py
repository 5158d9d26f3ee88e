"""OCI runtimes as command lines, against a script that pretends to be one."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from interpose.errors import ConfigError
from interpose.node.runtime.oci import runc
from interpose.node.runtime.oci.runc import OciError, OciRuntime, find_executor
from interpose.node.runtime.shim import protocol

Script = Callable[[str], OciRuntime]


@pytest.fixture
def pretended(tmp_path: Path) -> Script:
    """An OCI runtime that is this shell script; it can write down what it was called with in $0.said."""

    def make(body: str) -> OciRuntime:
        path = tmp_path / "runc"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return OciRuntime(name="runc", version="1", command=(str(path),), root=tmp_path / "root", systemd=True)

    return make


def test_the_command_that_runs_a_container(tmp_path: Path) -> None:
    """Files that the shim owns are left to it."""
    runtime = OciRuntime(name="runc", version="1", command=("/x/runc",), root=tmp_path)

    assert runtime.run_command("c1", tmp_path / "b") == [
        *("/x/runc", "--root", str(tmp_path), "--log", protocol.LOG_FILE, "--log-format", "json"),
        *("run", "--detach", "--bundle", str(tmp_path / "b"), "--pid-file", protocol.PID_FILE, "c1"),
    ]
    assert runtime.run_command("c1", tmp_path, tty=True)[-3:] == ["--console-socket", protocol.CONSOLE_SOCKET, "c1"]


def test_the_command_that_runs_a_process_in_it(tmp_path: Path) -> None:
    """With the flag of the systemd driver where that is used."""
    command = OciRuntime(name="runc", version="1", command=("/x/runc",), root=tmp_path, systemd=True).exec_command("c1")

    assert command[-5:] == ["--process", protocol.PROCESS_FILE, "--pid-file", protocol.PID_FILE, "c1"]
    assert command.index("--systemd-cgroup") < command.index("exec")


async def test_an_error_is_in_the_runtimes_words(pretended: Script) -> None:
    """Not in those of a wrapper."""
    runtime = pretended("""echo 'level=error msg="no \\"such\\" thing"' >&2; exit 1""")

    with pytest.raises(OciError, match=r'^no "such" thing$'):
        await runtime.update("c1", {})


async def test_an_end_without_words_is_said(pretended: Script) -> None:
    """With verb and exit code."""
    with pytest.raises(OciError, match="runc update ended with 3"):
        await pretended("exit 3").update("c1", {})


async def test_resources_are_handed_over(pretended: Script, tmp_path: Path) -> None:
    """As a document on standard input."""
    await pretended('cat > "$0.said"').update("c1", {"cpu": {"shares": 2}})

    assert json.loads((tmp_path / "runc.said").read_text()) == {"cpu": {"shares": 2}}


def test_resources_can_be_opened_by_name(pretended: Script, tmp_path: Path) -> None:
    """As crun does it, which reads /dev/stdin and not what it has open. With the loop that the runtime has."""
    runtime = pretended(f"cat /dev/stdin > {tmp_path}/seen")
    uvloop.run(runtime.update("abc", {"cpu": {"shares": 256}}))
    assert (tmp_path / "seen").read_text() == '{"cpu": {"shares": 256}}'


async def test_what_is_gone_is_deleted_and_killed(pretended: Script) -> None:
    """Both may be repeated."""
    runtime = pretended("echo container does not exist >&2; exit 1")

    await runtime.delete("c1")
    await runtime.kill("c1", 9, all=True)
    assert await runtime.state("c1") is None


async def test_a_state_is_the_runtimes_document(pretended: Script) -> None:
    """As it says it."""
    assert await pretended("""echo '{"status": "running"}'""").state("c1") == {"status": "running"}


async def test_flags_of_force_and_all(pretended: Script, tmp_path: Path) -> None:
    """They are before the id."""
    runtime = pretended('echo "$*" >> "$0.said"')

    await runtime.delete("c1", force=True)
    await runtime.kill("c1", 15, all=True)

    deleted, killed = (tmp_path / "runc.said").read_text().splitlines()
    assert deleted.endswith("--systemd-cgroup delete --force c1")
    assert killed.endswith("kill --all c1 15")


async def test_a_runtime_that_hangs_is_ended(pretended: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while."""
    monkeypatch.setattr(runc, "_TIMEOUT", 0.05)

    with pytest.raises(OciError, match="took longer"):
        await pretended("exec sleep 1000").delete("c1")


def test_an_installed_runtime_tells_its_version(pretended: Script, tmp_path: Path) -> None:
    """Found by its path."""
    pretended("echo runc version 1.9.9")

    found = find_executor(str(tmp_path / "runc"), tmp_path, rights=True)

    assert (found.name, found.version, found.not_isolated, found.namespaces) == ("runc", "1.9.9", (), True)


@pytest.mark.parametrize(
    ("body", "rights", "words"),
    [
        ("exit 2", True, "ended with 2"),
        ("echo broken >&2; exit 1", True, "broken"),
        ("echo runc version 1", False, "root"),
    ],
)
def test_a_runtime_that_cannot_be_used_is_refused(
    pretended: Script, tmp_path: Path, body: str, rights: bool, words: str
) -> None:
    """With its name and the reason."""
    pretended(body)

    with pytest.raises(ConfigError, match=f"runc.*{words}"):
        find_executor(str(tmp_path / "runc"), tmp_path, rights=rights)


@pytest.mark.parametrize(("wanted", "words"), [("nope", "not found in"), ("/no/such", "no such program")])
def test_a_runtime_that_is_not_there_is_named(tmp_path: Path, wanted: str, words: str) -> None:
    """And where it was looked for."""
    with pytest.raises(ConfigError, match=f"{wanted}.*{words}"):
        find_executor(wanted, tmp_path, rights=True)


@pytest.mark.parametrize("rights", [True, False])
def test_without_an_installed_one_it_is_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rights: bool) -> None:
    """For root and others, with what it does not isolate."""
    monkeypatch.setenv("PATH", str(tmp_path))

    found = find_executor("auto", tmp_path, rights=rights)

    assert found.name == "plain"
    assert found.not_isolated
    assert found.namespaces is rights


def test_root_gets_the_installed_one(pretended: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others do not: it would not work."""
    pretended("echo runc version 2")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")

    assert find_executor("auto", tmp_path, rights=True).version == "2"
    assert find_executor("auto", tmp_path, rights=False).name == "plain"
    assert find_executor("plain", tmp_path, rights=True).name == "plain"
