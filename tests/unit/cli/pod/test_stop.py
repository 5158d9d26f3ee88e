"""`interpose pod stop` and `interpose pod rm`."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from interpose.cli.pod.run_loop import read_pods
from interpose.net.grpc.status import Code
from interpose.node.pods.labels import log_directory
from interpose.node.pods.locks import PodLocks
from interpose.node.pods.spec import PodSpec
from interpose.node.pods.status.origin import write_origin
from interpose.testing.fakeruntime import FakeRuntime
from tests.support.node.pod_commands import PodCommands, pod_commands


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[PodCommands]:
    with pod_commands(tmp_path) as made:
        made.up()
        yield made


def test_a_stopped_pod_stays_to_be_looked_at(commands: PodCommands) -> None:
    """And is marked, so that nobody starts it again."""
    assert commands("stop", "web").stdout == "Stopped default/web\n"
    assert commands("ls").stdout.splitlines()[1].split()[3] == "Stopped"
    assert len(list((commands.folder / "root/pods").glob("*/stopped"))) == 1


def test_run_starts_a_stopped_pod_again(commands: PodCommands) -> None:
    """Saying it is enough."""
    commands("stop", "web")
    commands.up()
    assert commands("ls").stdout.splitlines()[1].split()[3] == "Running"


def test_a_removed_pod_leaves_nothing(commands: PodCommands) -> None:
    """No sandbox, no folder, no logs."""
    assert commands("rm", "web", "--grace", "0").stdout == "Removed default/web\n"
    assert commands.do(lambda runtime: not runtime.sandboxes)
    assert list((commands.folder / "root/pods").iterdir()) == []
    assert list(commands.log_root.iterdir()) == []


def test_logs_can_be_kept(commands: PodCommands) -> None:
    """For later."""
    commands("rm", "web", "--keep-logs")
    assert len(list(commands.log_root.iterdir())) == 1


def test_all_are_all_of_ours(commands: PodCommands) -> None:
    """Pods of a kubelet are never meant; folders that pods left are."""
    commands.do(lambda runtime: runtime.populate(1))
    left = commands.folder / "root/pods/left"
    left.mkdir()
    result = commands("rm", "--all")
    assert result.stdout.splitlines() == ["Removed default/web", "Removed left"]
    assert not left.exists()
    assert commands.do(lambda runtime: len(runtime.sandboxes)) == 1
    assert commands("rm", "--all").stdout == "No pods.\n"


def test_pods_are_named_by_their_manifests(commands: PodCommands) -> None:
    """Also by one that was edited since; those that are not there need nothing, those of others are not meant."""
    commands.up("db")
    commands.do(lambda runtime: runtime.populate(1))
    edited = commands.manifest("web", hostNetwork=True)
    assert commands("stop", "-f", edited, "-f", commands.manifest("absent")).stdout == "Stopped default/web\n"
    assert commands("rm", "-f", edited, "-n", "other").stdout == "No pods.\n"
    assert commands("rm", "-f", edited).stdout == "Removed default/web\n"
    assert commands("ls", "--ours", "-o", "name").stdout == "default/db\n"


def test_wrong_manifests_end_nothing(commands: PodCommands) -> None:
    """Who knows what else they would name."""
    (commands.folder / "web.json").write_text("{}")
    assert commands("rm", "-f", commands.folder / "web.json").exit_code == 78
    assert commands("ls", "-o", "name").stdout == "default/web\n"


def test_a_runtime_that_says_no_is_heard(commands: PodCommands) -> None:
    """The pod is not said to be removed."""
    commands.do(lambda runtime: runtime.fail("StopContainer", Code.UNKNOWN, "cannot"))
    result = commands("rm", "web")
    assert result.exit_code == 1
    assert "cannot" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("verb", ["stop", "rm"])
def test_a_pod_that_cannot_be_ended_keeps_no_other_from_it(commands: PodCommands, verb: str) -> None:
    """Each is told by its name; addresses that cannot be had are no reason."""
    commands.up("db")
    commands.do(lambda runtime: runtime.fail("PodSandboxStatus", Code.INTERNAL, "is corrupt"))
    commands.do(lambda runtime: runtime.fail("StopContainer", Code.INTERNAL, "shim hangs", times=1))
    result = commands(verb, "--all")
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 1
    (error,) = result.stderr.splitlines()
    assert error.startswith("error: pod default/")
    assert "shim hangs" in error


def test_a_pod_that_another_process_is_at_work_on_is_not_touched(
    commands: PodCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is marked, and after a while somebody has to look at it."""
    monkeypatch.setattr("interpose.cli.pod.stop._PATIENCE", 0.1)
    (uid,) = (path.name for path in (commands.folder / "root/pods").iterdir())
    locks = PodLocks(str(commands.folder / "root/pods.lock"))
    handle = locks.take(uid)
    assert handle is not None
    result = commands("rm", "web")
    locks.give_back(handle)
    assert "another process is at work on it" in result.stderr
    assert commands.do(lambda runtime: len(runtime.sandboxes)) == 1
    assert commands("rm", "web").exit_code == 0


@pytest.mark.parametrize(
    "arguments", [(), ("web", "--all"), ("web", "--grace", "soon"), ("-l", ""), ("web", "-l", "app")]
)
def test_wrong_usage_is_told(commands: PodCommands, arguments: tuple[str, ...]) -> None:
    """With exit code 2."""
    assert commands("rm", *arguments).exit_code == 2


def test_a_pod_of_others_is_stopped_without_a_mark(commands: PodCommands) -> None:
    """There is no folder for it."""
    commands.do(lambda runtime: runtime.populate(1))
    assert commands("stop", "-n", "production", "load-0000-6d4cf56db6-x000").exit_code == 0


@pytest.mark.parametrize("verb", ["stop", "rm"])
def test_a_pod_without_labels_is_ended_all_the_same(commands: PodCommands, verb: str) -> None:
    """As those are that somebody makes with crictl. That it was is not just said."""

    def make(runtime: FakeRuntime) -> str:
        [sandbox] = runtime.populate(1)
        sandbox.config.labels.clear()
        return sandbox.config.metadata.name

    name = commands.do(make)
    assert commands(verb, name).exit_code == 0
    left = commands.do(
        lambda runtime: [one.ready for one in runtime.sandboxes.values() if one.config.metadata.name == name]
    )
    assert left == ([False] if verb == "stop" else [])


@pytest.fixture
def failed(commands: PodCommands) -> PodSpec:
    """One that never had a sandbox: it has folders, and the runtime knows nothing of it."""
    (pod,) = read_pods((str(commands.manifest("bad")),))
    write_origin(str(commands.folder / "root/pods" / pod.uid), pod, 1)
    Path(log_directory(pod, str(commands.log_root)), "main").mkdir(parents=True)
    return pod


def folders(commands: PodCommands) -> list[Path]:
    """Those of all pods, and of their logs."""
    return [*(commands.folder / "root/pods").iterdir(), *commands.log_root.iterdir()]


@pytest.mark.parametrize("how", ["name", "title", "uid", "manifest", "all"])
def test_a_pod_that_never_had_a_sandbox_is_removed(commands: PodCommands, failed: PodSpec, how: str) -> None:
    """However it is said: folder and logs, and it is told by its name."""
    said = {"name": ["bad"], "title": ["default/bad"], "uid": [failed.uid[:8]], "all": ["--all"]}
    result = commands("rm", *said.get(how, ["-f", failed.source]))
    assert result.exit_code == 0
    others = ["Removed default/web"] if how == "all" else []
    assert result.stdout.splitlines() == [*others, "Removed default/bad"]
    assert not [path for path in folders(commands) if failed.uid in path.name]
    assert len(folders(commands)) == (0 if how == "all" else 2)
    if how != "all":
        assert commands("rm", "bad").exit_code == 1


def test_a_pod_that_never_had_a_sandbox_is_stopped(commands: PodCommands, failed: PodSpec) -> None:
    """It is marked as others are; what it has stays, and saying it again starts it."""
    assert commands("stop", "-f", failed.source, "-n", "other").stdout == "No pods.\n"
    assert commands("stop", "bad").stdout == "Stopped default/bad\n"
    assert len(list((commands.folder / "root/pods").glob("*/stopped"))) == 1
    assert commands("stop", "--all").stdout == "Stopped default/web\nStopped default/bad\n"
    assert len(folders(commands)) == 4
    commands.up("bad")
    assert commands("ls").stdout.splitlines()[1].split()[1:4] == ["bad", "1/1", "Running"]


def test_labels_select_pods(commands: PodCommands) -> None:
    """Of our own; also those that never had a sandbox."""
    (pod,) = read_pods((str(commands.manifest("bad")),))
    write_origin(str(commands.folder / "root/pods" / pod.uid), replace(pod, labels={"app": "bad"}), 1)
    commands.do(lambda runtime: runtime.populate(1))
    assert commands("stop", "-l", "app.kubernetes.io/name").stdout == "No pods.\n"
    assert commands("rm", "-l", "app in (bad)").stdout == "Removed default/bad\n"
    assert commands("rm", "-l", "!app").stdout == "Removed default/web\n"
