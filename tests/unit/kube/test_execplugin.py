"""Credentials from a program."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from interpose.errors import ConfigError
from interpose.kube.access import ExecPlugin
from interpose.kube.execplugin import ExecCredential, PluginRunner, read_credential
from interpose.testing.eventually import eventually

V1 = "client.authentication.k8s.io/v1"


def credential(api_version: str = V1, kind: str = "ExecCredential", **status: Any) -> bytes:
    """What a program prints."""
    return json.dumps({"kind": kind, "apiVersion": api_version, "status": status}).encode()


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


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ({"token": "t"}, ExecCredential(token="t")),
        ({"token": "t", "clientKeyData": None}, ExecCredential(token="t")),
        (
            {"clientCertificateData": "c", "clientKeyData": "k", "expirationTimestamp": "1970-01-01T00:01:00Z"},
            ExecCredential(certificate="c", key="k", expires=60.0),
        ),
        (
            {"token": "t", "expirationTimestamp": "1970-01-01T02:00:00.5+02:00"},
            ExecCredential(token="t", expires=0.5),
        ),
        ({"token": "t", "expirationTimestamp": "1970-01-01T00:00:07"}, ExecCredential(token="t", expires=7.0)),
    ],
)
def test_credentials(status: dict[str, Any], found: ExecCredential) -> None:
    """A token, a certificate, and when they end."""
    assert read_credential(credential(**status), V1, "x") == found


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        (b"hidden", "x: did not print an ExecCredential in JSON"),
        (b"[]", "x: did not print an ExecCredential in JSON"),
        (credential(kind="Secret", token="hidden"), "x: did not print an ExecCredential in JSON"),
        (
            credential("client.authentication.k8s.io/v1beta1", token="hidden"),
            f"x: printed apiVersion 'client.authentication.k8s.io/v1beta1', '{V1}' was asked for",
        ),
        (json.dumps({"kind": "ExecCredential", "apiVersion": V1}).encode(), "x: printed no status"),
        (credential(), "x: printed neither a token nor a certificate"),
        (
            credential(clientKeyData="hidden"),
            "x: printed a certificate without a key, or a key without a certificate",
        ),
        (credential(token=["hidden"]), "x: status.token is no text"),
        (
            credential(token="hidden", expirationTimestamp="soon"),
            "x: status.expirationTimestamp: 'soon' is no time",
        ),
    ],
)
def test_credentials_that_are_none(printed: bytes, message: str) -> None:
    """What is wrong is said, what was printed is not."""
    with pytest.raises(ConfigError) as caught:
        read_credential(printed, V1, "x")
    assert str(caught.value) == message


def test_credentials_are_not_shown() -> None:
    """Their text can be logged."""
    assert "hidden" not in repr(ExecCredential(token="hidden", certificate="hidden", key="hidden"))


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
        (["echo hidden", "echo one >&2", "echo log in first >&2", "exit 3"], "failed with exit code 3: log in first"),
        (["exit 1"], "failed with exit code 1: it said nothing"),
        (["echo hidden"], "did not print an ExecCredential"),
    ],
)
async def test_program_that_fails(tmp_path: Path, lines: list[str], message: str) -> None:
    """The last thing it complained about is told, what it printed is not; it is tried again."""
    runner = PluginRunner(plugin(program(tmp_path, *lines)))
    with pytest.raises(ConfigError) as caught:
        await runner.credential()
    assert message in str(caught.value)
    assert "hidden" not in str(caught.value)
    program(tmp_path, f"echo '{credential(token='t').decode()}'")
    assert (await runner.credential()).token == "t"


async def test_program_that_does_not_end(tmp_path: Path) -> None:
    """It is ended with all that it started."""
    command = program(tmp_path, f"sleep 1000 & echo $! >{tmp_path}/child", "wait")
    runner = PluginRunner(plugin(command), timeout=0.5)
    with pytest.raises(ConfigError, match=r"did not end within 0\.5 s"):
        await runner.credential()
    child = Path("/proc") / (tmp_path / "child").read_text().strip()
    await eventually(lambda: not child.exists() or " Z " in (child / "stat").read_text(), "the end of the child")


async def test_program_of_a_request_that_was_given_up(tmp_path: Path) -> None:
    """It does not go on alone."""
    command = program(tmp_path, f"echo $$ >{tmp_path}/pid", "sleep 1000")
    runner = PluginRunner(plugin(command))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await runner.credential()
    process = Path("/proc") / (tmp_path / "pid").read_text().strip()
    await eventually(lambda: not process.exists(), "the end of the program")
