"""`interpose pod run` brings pods up and says what came of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

from interpose.cli.pod import options as pod_options
from interpose.net.grpc.status import Code
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.node.pod_commands import PodCommands, pod_commands


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[PodCommands]:
    with pod_commands(tmp_path) as made:
        yield made


def test_a_pod_is_brought_up(commands: PodCommands) -> None:
    """Lines tell how, where there is no terminal."""
    result = commands("run", "-f", commands.manifest())
    assert result.exit_code == 0
    lines = result.stderr.splitlines()
    assert lines[0] == "default/web: creating sandbox"
    assert lines[-2].startswith("default/web: ready")
    assert lines[-1].startswith("1 pod up")
    assert result.stdout == ""


def test_saying_it_again_changes_nothing(commands: PodCommands) -> None:
    """What runs as it should is left alone."""
    commands.up()
    commands.up()
    assert commands.do(lambda runtime: runtime.calls["RunPodSandbox"]) == 1


def test_a_pod_can_be_replaced_as_it_is(commands: PodCommands) -> None:
    """It is removed first."""
    commands.up()
    assert commands("run", "-f", commands.manifest(), "--replace", "-q").exit_code == 0
    assert commands.do(lambda runtime: (runtime.calls["RunPodSandbox"], len(runtime.sandboxes))) == (2, 1)


def test_an_edited_pod_replaces_the_one_before(commands: PodCommands) -> None:
    """Of the same name there is one."""
    commands.up()
    commands.up(hostname="other")
    assert commands.do(lambda runtime: len(runtime.sandboxes)) == 1


def test_wrong_manifests_are_told_all_at_once(commands: PodCommands) -> None:
    """With exit code 78, and nothing is started."""
    path = commands.manifest(containers=[{"name": "x"}], restartPolicy="Sometimes")
    result = commands("run", "-f", path)
    assert result.exit_code == 78
    assert result.stderr.count("error: ") >= 2
    assert str(path) in result.stderr
    assert commands.do(lambda runtime: not runtime.sandboxes)


def test_a_file_without_pods_is_a_mistake(commands: PodCommands) -> None:
    """So is one that is not there."""
    empty = commands.folder / "folder"
    empty.mkdir()
    assert commands("run", "-f", empty).exit_code == 78
    assert commands("run", "-f", commands.folder / "nosuch.yaml").exit_code == 78


def test_what_cannot_work_fails_with_the_reason(commands: PodCommands) -> None:
    """At once: the image may not be pulled and is not there."""
    containers = [{"name": "main", "image": "no/such:1", "imagePullPolicy": "Never"}]
    result = commands("run", "-f", commands.manifest(containers=containers))
    assert result.exit_code == 1
    assert "error: pod default/web: main: ErrImageNeverPull" in result.stderr


def _run_until(commands: PodCommands, manifest: Path, seconds: int, state: str) -> tuple[int, Result]:
    """Run pods that never get ready for long enough that they come as far as this, however busy the machine is."""
    while True:
        result = commands("run", "-f", manifest, "--timeout", f"{seconds}s")
        if state in result.stderr or seconds > WAIT_LIMIT:
            return seconds, result
        seconds *= 2


def test_a_pod_that_is_not_ready_in_time_fails(commands: PodCommands) -> None:
    """With what it waits for; the pod stays."""
    probe = {"exec": {"command": ["false"]}}
    containers = [{"name": "main", "image": "busybox:1", "readinessProbe": probe}]
    manifest = commands.manifest(containers=containers)
    state = "main is Running (command ended with exit code 1)"
    seconds, result = _run_until(commands, manifest, 3, state)
    assert result.exit_code == 1
    assert f"not ready within {seconds}s: {state}" in result.stderr
    assert commands.do(lambda runtime: len(runtime.sandboxes)) == 1


def test_a_sandbox_that_cannot_be_made_is_told(commands: PodCommands) -> None:
    """In the runtime's words."""
    commands.do(lambda runtime: runtime.fail("RunPodSandbox", Code.UNKNOWN, "no network"))
    _, result = _run_until(commands, commands.manifest(), 1, "FailedCreatePodSandBox")
    assert result.exit_code == 1
    assert "FailedCreatePodSandBox" in result.stderr
    assert "no network" in result.stderr


def test_pods_can_be_ended_before_leaving(commands: PodCommands) -> None:
    """--stop-on-exit removes them."""
    assert commands("run", "-f", commands.manifest(), "--stop-on-exit").exit_code == 0
    assert commands.do(lambda runtime: not runtime.sandboxes)


def test_a_runtime_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """That names its socket."""
    commands = PodCommands(tmp_path)
    result = commands("run", "-f", commands.manifest())
    assert result.exit_code == 1
    assert str(commands.socket) in result.stderr


def test_manifests_can_be_checked_without_a_runtime(tmp_path: Path) -> None:
    """Their pods are listed, or what is wrong with them."""
    commands = PodCommands(tmp_path)
    assert commands("run", "-f", commands.manifest(), "--dry-run").stdout == "default/web\n"
    (tmp_path / "web.json").write_text("{}")
    assert commands("run", "-f", tmp_path / "web.json", "--dry-run").exit_code == 78


def test_a_dash_is_standard_input(commands: PodCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    """As everywhere."""
    monkeypatch.setattr(pod_options, "STDIN", str(commands.manifest()))
    result = commands("run", "-f", "-")
    assert result.exit_code == 0
    assert "default/web: ready" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("-f", "x", "--timeout", "soon"),
        ("-f", "x", "--local"),
        ("-f", "-", "--watch"),
        ("-f", "x", "--watch", "--dry-run"),
    ],
)
def test_wrong_usage_is_told(commands: PodCommands, arguments: tuple[str, ...]) -> None:
    """With exit code 2."""
    assert commands("run", *arguments).exit_code == 2


@pytest.mark.parametrize("flag", ["--admin-listen", "--metrics-listen"])
def test_who_does_not_stay_answers_nobody(commands: PodCommands, flag: str) -> None:
    """A flag that would do nothing is refused; a variable is for all commands, and is not."""
    result = commands("run", "-f", commands.manifest(), flag, "127.0.0.1:1")
    assert result.exit_code == 2
    assert "are for --watch" in result.output


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [
        ("--cluster-dns", "foo", "'foo' is not an IP address"),
        ("--cluster-domain", "bad domain", "'bad domain' is not a name of lower case letters"),
        ("--node-name", "a b", "'a b' is not a name of lower case letters"),
        ("--cgroup-root", "../../x", "'../../x' is not a directory below"),
    ],
)
def test_a_wrong_value_is_told_before_anything_is_done(
    commands: PodCommands, flag: str, value: str, words: str
) -> None:
    """With the flag."""
    result = commands("run", "-f", commands.manifest(), flag, value)
    assert result.exit_code == 2
    assert f"{flag}: {words}" in result.stderr
    assert commands.do(lambda runtime: len(runtime.sandboxes)) == 0


def test_right_values_are_taken(commands: PodCommands) -> None:
    """All of them."""
    flags = ("--cluster-dns", "10.0.0.2", "--cluster-domain", "a.b", "--node-name", "n-1", "--cgroup-root", "/x/y/")
    assert commands("run", "-f", commands.manifest(), *flags).exit_code == 0


def test_a_root_that_cannot_be_is_told_at_once(commands: PodCommands) -> None:
    """Nothing can be done without it."""
    result = commands("run", "-f", commands.manifest(), "--root", "/proc/x")
    assert result.exit_code == 1
    assert result.stderr == "error: /proc/x: No such file or directory\n"


@pytest.mark.parametrize("method", ["RunPodSandbox", "CreateContainer"])
def test_who_waited_in_vain_hears_why(commands: PodCommands, method: str) -> None:
    """In the last line, also where nothing else is said."""
    commands.do(lambda runtime: runtime.fail(method, Code.INTERNAL, "no room for it"))
    result = commands("run", "-q", "-f", commands.manifest(), "--timeout", "1s")
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert "not ready within 1s: " in line
    assert "no room for it" in line
