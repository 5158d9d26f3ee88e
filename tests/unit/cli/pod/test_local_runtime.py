"""The built-in runtime for `interpose pod --local`: one for all commands that last at the same time."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from interpose.cli.main import cli
from interpose.cli.pod.local_runtime import open_built_in_runtime
from interpose.cri.messages import cri
from interpose.cri.remote import RemoteCaller
from interpose.cri.wrappers import LocalCaller


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of its own, and ordinary processes."""
    for name, value in {
        "ROOT": tmp_path / "r",
        "STATE": tmp_path / "s",
        "LISTEN": tmp_path / "l.sock",
        "EXECUTOR": "plain",
        "CGROUP_ROOT": tmp_path / "cgroup",
        "CNI_CONF_DIR": tmp_path / "cni",
    }.items():
        monkeypatch.setenv(f"INTERPOSE_RUNTIME_{name}", str(value))
    (tmp_path / "cgroup").mkdir()
    return tmp_path


async def test_the_second_command_reaches_the_runtime_of_the_first(settings: Path) -> None:
    """The first has it in its own process; when it has ended nothing is left that answers."""
    async with open_built_in_runtime() as own:
        assert isinstance(own.caller, LocalCaller)
        assert str(settings / "r") in own.where
        assert own.cgroups == str(settings / "cgroup")
        assert any("no seccomp" in one for one in own.not_isolated)
        async with open_built_in_runtime() as other:
            assert isinstance(other.caller, RemoteCaller)
            assert other.where == str(settings / "s" / "embedded.sock")
            answer = await other.caller.call("Version", cri.VersionRequest())
            assert answer.runtime_name == "interpose"
    async with open_built_in_runtime() as again:
        assert isinstance(again.caller, LocalCaller)


async def test_a_socket_that_nobody_serves_is_passed_over(settings: Path) -> None:
    """It was left by a process that was killed."""
    import socket

    (settings / "s").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(settings / "l.sock"))
    async with open_built_in_runtime() as own:
        assert isinstance(own.caller, LocalCaller)


def test_who_runs_pods_hears_that_they_are_hardly_isolated(settings: Path) -> None:
    """In one line; all of it is in the log for who asks for it."""
    manifest = settings / "pod.yaml"
    manifest.write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: a}, "
        "spec: {containers: [{name: main, image: none, imagePullPolicy: Never}]}}"
    )
    folders = ["--root", str(settings / "pods"), "--log-root", str(settings / "logs")]
    run = ["pod", "run", "-f", str(manifest), "--local", "--stop-on-exit", *folders]
    short = CliRunner().invoke(cli, run).stderr
    assert short.startswith("warning: the plain executor is used: containers are ordinary processes")
    assert "ErrImageNeverPull" in short
    assert "seccomp" not in short
