"""Credentials from a program."""

import asyncio
import json
import logging
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from interpose.errors import ConfigError
from interpose.kube.client.access import ExecPlugin
from interpose.kube.client.exec_plugin import PluginRunner
from interpose.testing.eventually import WAIT_LIMIT, eventually

V1 = "client.authentication.k8s.io/v1"


def credential(**status: Any) -> bytes:
    """What a program prints."""
    return json.dumps({"kind": "ExecCredential", "apiVersion": V1, "status": status}).encode()


def program(folder: Path, *lines: str) -> str:
    """A program of these lines of shell."""
    file = folder / "plugin"
    file.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")
    file.chmod(0o755)
    return str(file)


def plugin(command: str, **more: Any) -> ExecPlugin:
    """With an environment in which programs are found."""
    environment = {"PATH": "/usr/bin:/bin", **more.pop("environment", {})}
    return ExecPlugin(api_version=V1, command=command, environment=tuple(environment.items()), **more)


async def test_program_is_asked_once_until_it_expires(tmp_path: Path) -> None:
    """A while before the end it is asked again; many who ask at a time cause one run."""
    printed = credential(token="t", expirationTimestamp="1970-01-01T00:10:00Z").decode()
    command = program(tmp_path, f"echo run >>{tmp_path}/runs", f"echo '{printed}'")
    now = 0.0
    runner = PluginRunner(plugin(command), wall=lambda: now)
    assert runner.held is None
    first = await asyncio.gather(*(runner.credential() for _ in range(3)))
    assert {each.token for each in first} == {"t"}
    assert (tmp_path / "runs").read_text() == "run\n"
    now = 595.0
    assert await runner.credential() is not first[0]
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


async def test_program_is_asked_again_for_refused_credentials(tmp_path: Path) -> None:
    """Once for all who had the same ones."""
    command = program(tmp_path, f"echo run >>{tmp_path}/runs", f"echo '{credential(token='t').decode()}'")
    runner = PluginRunner(plugin(command))
    old = await runner.credential()
    new = await runner.credential(refused=old)
    assert new is not old
    assert await runner.credential(refused=old) is new
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


async def test_what_a_program_is_told(tmp_path: Path) -> None:
    """Arguments, environment, what it is asked for, and nothing to read."""
    command = program(
        tmp_path,
        f'echo "$1|$MORE|$KUBERNETES_EXEC_INFO|$(cat)" >{tmp_path}/told',
        f"echo '{credential(token='t').decode()}'",
    )
    runner = PluginRunner(plugin(command, args=("a b",), environment={"MORE": "m"}, cluster='{"server": "https://a"}'))
    await runner.credential()
    argument, more, info, read = (tmp_path / "told").read_text().strip().split("|")
    assert (argument, more, read) == ("a b", "m", "")
    assert json.loads(info) == {
        "kind": "ExecCredential",
        "apiVersion": V1,
        "spec": {"interactive": False, "cluster": {"server": "https://a"}},
    }


async def test_program_in_path(tmp_path: Path) -> None:
    """One without a slash is looked for where its environment says."""
    program(tmp_path, f"echo '{credential(token='t').decode()}'")
    runner = PluginRunner(plugin("plugin", environment={"PATH": f"{tmp_path}:/usr/bin:/bin"}))
    assert (await runner.credential()).token == "t"


async def test_program_that_is_missing() -> None:
    """How to get it is said, if the file says it."""
    runner = PluginRunner(plugin("/nowhere/get-token", hint="install\nget-token"))
    with pytest.raises(ConfigError) as caught:
        await runner.credential()
    assert str(caught.value) == (
        "credential program /nowhere/get-token: cannot be run: No such file or directory (install get-token)"
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["echo hidden", "echo hidden >&2", "exit 3"], "failed with exit code 3; level debug logs what it said"),
        (["kill -9 $$"], "failed with exit code -9; level debug logs what it said"),
        (["echo hidden"], "did not print an ExecCredential"),
    ],
)
async def test_program_that_fails(tmp_path: Path, lines: list[str], message: str) -> None:
    """What it printed and said may be secret. It is tried again, after a pause in which all get the same answer."""
    now = 100.0
    runner = PluginRunner(plugin(program(tmp_path, *lines)), clock=lambda: now, chance=lambda: 1.0)
    with pytest.raises(ConfigError) as caught:
        await runner.credential()
    assert message in str(caught.value)
    assert "hidden" not in str(caught.value)
    program(tmp_path, f"echo '{credential(token='t').decode()}'")
    now = 100.9
    with pytest.raises(ConfigError, match=re.escape(message)):
        await runner.credential()
    now = 101.0
    assert (await runner.credential()).token == "t"


async def test_what_a_program_says_is_a_detail(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever wants all details gets its last line, and no more memory is spent on the rest."""
    command = program(
        tmp_path, "head -c 100000 /dev/zero | tr '\\0' x >&2", "echo >&2", "echo log in first >&2", "exit 1"
    )
    with caplog.at_level(logging.DEBUG, "interpose.kube.client.exec_plugin"), pytest.raises(ConfigError):
        await PluginRunner(plugin(command)).credential()
    [record] = [record for record in caplog.records if record.name == "interpose.kube.client.exec_plugin"]
    assert record.levelno == logging.DEBUG
    assert record.__dict__["kv"] == {"program": command, "said": "log in first"}


async def test_failure_is_shared(tmp_path: Path) -> None:
    """All who wait get the one that came; nobody runs the program once more for it."""
    runner = PluginRunner(plugin(program(tmp_path, f"echo run >>{tmp_path}/runs", "exit 1")))
    failures = await asyncio.gather(*(runner.credential() for _ in range(5)), return_exceptions=True)
    assert {str(failure) for failure in failures} == {str(failures[0])}
    assert isinstance(failures[0], ConfigError)
    assert (tmp_path / "runs").read_text() == "run\n"


async def test_program_that_does_not_end(tmp_path: Path) -> None:
    """It is ended with all that it started."""
    command = program(tmp_path, f"sleep 1000 & echo $! >{tmp_path}/child", "wait")
    runner = PluginRunner(plugin(command), timeout=0.5)
    with pytest.raises(ConfigError, match=r"did not end within 0\.5 s"):
        await runner.credential()
    child = Path("/proc") / (tmp_path / "child").read_text().strip()
    await eventually(lambda: not child.exists() or " Z " in (child / "stat").read_text(), "the end of the child")
    await runner.close()


async def test_child_that_went_its_own_way(tmp_path: Path) -> None:
    """It has the pipe and lives on in a session of its own; nobody waits for it, in time nor too late."""
    child = f"setsid sleep 1000 & echo $! >>{tmp_path}/children"
    try:
        runner = PluginRunner(plugin(program(tmp_path, child, "sleep 1000")), timeout=0.5)
        with pytest.raises(ConfigError, match=r"did not end within 0\.5 s"):
            await asyncio.wait_for(runner.credential(), WAIT_LIMIT)
        await runner.close()
        runner = PluginRunner(plugin(program(tmp_path, child, f"echo '{credential(token='t').decode()}'")))
        assert (await asyncio.wait_for(runner.credential(), WAIT_LIMIT)).token == "t"
    finally:
        for pid in (tmp_path / "children").read_text().split():
            os.kill(int(pid), signal.SIGKILL)


async def test_program_that_prints_without_end(tmp_path: Path) -> None:
    """It is ended soon; what it printed is not kept."""
    runner = PluginRunner(plugin(program(tmp_path, f"echo $$ >{tmp_path}/pid", "exec cat /dev/zero")))
    with pytest.raises(ConfigError, match="printed more than 1048576 bytes"):
        await asyncio.wait_for(runner.credential(), WAIT_LIMIT)
    process = Path("/proc") / (tmp_path / "pid").read_text().strip()
    await runner.close()
    assert not process.exists()


async def test_program_of_a_request_that_was_given_up(tmp_path: Path) -> None:
    """It goes on for the next who asks: a program that is slower than a request is of use too."""
    os.mkfifo(tmp_path / "gate")
    command = program(
        tmp_path, f"echo run >>{tmp_path}/runs", f"cat {tmp_path}/gate", f"echo '{credential(token='t').decode()}'"
    )
    runner = PluginRunner(plugin(command))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await runner.credential()
    await eventually((tmp_path / "runs").exists, "the program")
    await asyncio.to_thread((tmp_path / "gate").write_text, "")
    assert (await runner.credential()).token == "t"
    assert (tmp_path / "runs").read_text() == "run\n"


async def test_closing_ends_the_program(tmp_path: Path) -> None:
    """Nothing of it is left when we end."""
    runner = PluginRunner(plugin(program(tmp_path, f"echo $$ >{tmp_path}/pid", "sleep 1000")))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await runner.credential()
    await eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the program")
    await runner.close()
    assert not (Path("/proc") / (tmp_path / "pid").read_text().strip()).exists()
    await runner.close()
