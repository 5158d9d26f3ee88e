"""`interpose pod logs`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interpose.net.grpc.status import Code
from tests.support.node.pod_commands import PodCommands, pod_commands

OLD = "2020-01-02T03:04:05.000000001Z"
NEW = "2099-01-02T03:04:05.000000001Z"


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[PodCommands]:
    with pod_commands(tmp_path) as made:
        made.up()
        (folder,) = made.log_root.iterdir()
        (folder / "main/0.log").write_text(f"{OLD} stdout F one\n{OLD} stderr F two\n{NEW} stdout F three\n")
        yield made


def test_both_streams_go_where_they_belong(commands: PodCommands) -> None:
    """In their order."""
    result = commands("logs", "web")
    assert result.stdout == "one\nthree\n"
    assert result.stderr == "two\n"


def test_logs_can_be_cut(commands: PodCommands) -> None:
    """By number and by time, with times."""
    assert commands("logs", "web", "--tail", "1").stdout == "three\n"
    assert commands("logs", "web", "--since", "1h").stdout == "three\n"
    assert commands("logs", "web", "--since", "2021-01-01T00:00:00Z").stdout == "three\n"
    assert commands("logs", "web", "--tail", "1", "--timestamps").stdout == f"{NEW} three\n"


def test_a_log_is_followed_to_the_end_of_its_container(commands: PodCommands) -> None:
    """Which has come already."""
    commands("stop", "web")
    assert commands("logs", "web", "-f").stdout == "one\nthree\n"


def test_the_log_of_the_instance_before_is_kept(commands: PodCommands) -> None:
    """Until it is collected."""
    assert "no instance before" in commands("logs", "web", "-p").stderr
    commands.do(lambda runtime: runtime.exit_container(next(iter(runtime.containers)), 1))
    commands.up()
    assert commands("logs", "web", "-p", "-c", "main").stdout == "one\nthree\n"


@pytest.mark.parametrize(("policy", "found"), [("Always", True), ("OnFailure", True), ("Never", False)])
def test_of_a_container_that_waits_to_be_started_again_the_last_run_is_the_one_before(
    tmp_path: Path, policy: str, found: bool
) -> None:
    """Though it is the only one that is left of it."""
    with pod_commands(tmp_path) as commands:
        commands.up(restartPolicy=policy)
        (folder,) = commands.log_root.iterdir()
        (folder / "main/0.log").write_text(f"{OLD} stdout F crashed\n")
        commands.do(lambda runtime: runtime.exit_container(next(iter(runtime.containers)), 1))
        result = commands("logs", "web", "-p")
        assert (result.stdout, "no instance before" in result.stderr) == ("crashed\n" if found else "", not found)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("nosuch",), 1, "there is no pod"),
        (("web", "-c", "nosuch"), 1, "it has main"),
        (("web", "--since", "noon"), 2, "neither a span"),
    ],
)
def test_mistakes_are_told(commands: PodCommands, arguments: tuple[str, ...], code: int, words: str) -> None:
    """With what would have been right."""
    result = commands("logs", *arguments)
    assert result.exit_code == code
    assert words in result.stderr


def test_a_log_that_is_not_there_is_named(commands: PodCommands) -> None:
    """By its path, and why a container that could not be started has none."""
    (folder,) = commands.log_root.iterdir()
    (folder / "main/0.log").unlink()
    assert commands("logs", "web").stderr.endswith(f"{folder / 'main/0.log'}\n")
    commands.do(lambda runtime: runtime.exit_container(next(iter(runtime.containers)), 128, "StartError", "no\nfile"))
    assert commands("logs", "web").stderr.endswith("/main/0.log; it ended with StartError: no file\n")


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ((), "no container of pod default/bad was started"),
        (("-c", "main"), "container main of pod default/bad was not started"),
    ],
)
def test_a_container_that_was_not_started_has_no_log(
    commands: PodCommands, container: tuple[str, ...], words: str
) -> None:
    """It is said why it was not."""
    never = {"name": "main", "image": "nosuch:1", "imagePullPolicy": "Never"}
    commands("run", "-f", commands.manifest("bad", containers=[never]), "-q")
    result = commands("logs", "bad", *container)
    assert result.exit_code == 1
    assert f"error: {words}: ErrImageNeverPull: Container image 'nosuch:1' is not present" in result.stderr


def test_a_pod_without_a_sandbox_has_no_log(commands: PodCommands) -> None:
    """It is known all the same."""
    commands.do(lambda runtime: runtime.fail("RunPodSandbox", Code.INTERNAL, "no such handler"))
    commands("run", "-f", commands.manifest("bad"), "-q", "--timeout", "1s")
    for verb in (("logs", "bad"), ("exec", "bad", "--", "true"), ("attach", "bad")):
        result = commands(*verb)
        assert result.exit_code == 1
        assert "no container of pod default/bad was started: FailedCreatePodSandBox: INTERNAL: no such" in result.stderr
    assert "pod default/bad does not run" in commands("port-forward", "bad", ":80").stderr
    assert commands("stats", "bad", "--interval", "0.1").stdout == "No container runs.\n"
