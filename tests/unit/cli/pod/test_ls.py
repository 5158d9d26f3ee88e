"""`interpose pod ls` lists pods."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from interpose.cli.pod import ls as pod_ls
from interpose.net.grpc.status import Code
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.pods import BUSYBOX
from tests.support.node.pod_commands import PodCommands, pod_commands


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[PodCommands]:
    with pod_commands(tmp_path) as made:
        made.up()
        made.do(lambda runtime: runtime.populate(1))
        yield made


def test_pods_of_everybody_are_listed(commands: PodCommands) -> None:
    """Ours and those of a kubelet."""
    lines = commands("ls").stdout.splitlines()
    assert lines[0].split() == ["NAMESPACE", "NAME", "UP", "STATUS", "RESTARTS", "AGE"]
    assert lines[1].split()[:5] == ["default", "web", "1/1", "Running", "0"]
    assert lines[2].split()[0] == "production"


def test_lists_can_be_narrowed(commands: PodCommands) -> None:
    """By namespace, by who started them, by whether they run."""
    assert commands("ls", "-o", "name", "-n", "default").stdout == "default/web\n"
    assert commands("ls", "-o", "name", "--ours").stdout == "default/web\n"
    commands("stop", "web")
    assert "web" not in commands("ls", "-o", "name", "--running").stdout
    assert commands("ls", "-n", "nosuch").stdout == "No pods.\n"
    assert commands("ls", "-n", "default", "-A").exit_code == 2


@pytest.mark.parametrize(("code", "status"), [(0, "Completed"), (3, "Error")])
def test_ends_are_told(commands: PodCommands, code: int, status: str) -> None:
    """As far as a runtime knows them."""

    def end(runtime: object) -> None:
        name = next(key for key, one in commands.runtime.containers.items() if one.config.metadata.name == "main")
        commands.runtime.exit_container(name, code)

    commands.do(end)
    assert commands("ls", "-n", "default").stdout.splitlines()[1].split()[2] == status


def test_programs_get_json(commands: PodCommands) -> None:
    """With everything a wide list has."""
    ours, other = json.loads(commands("ls", "-o", "json").stdout)
    assert (ours["name"], ours["status"], ours["running"], ours["ours"]) == ("web", "Running", 1, True)
    assert other["ours"] is False
    assert ours["uid"][:13] in commands("ls", "-o", "wide").stdout


def test_a_pod_that_never_had_a_sandbox_is_listed(commands: PodCommands) -> None:
    """It failed before, and is there to be looked at: why, and with the age of its folder."""
    commands.do(lambda runtime: runtime.fail("RunPodSandbox", Code.INTERNAL, "no such handler"))
    assert commands("run", "-f", commands.manifest("bad"), "-q", "--timeout", "2s").exit_code == 1
    lines = [line.split() for line in commands("ls", "-n", "default").stdout.splitlines()]
    bad, web = (line[:4] for line in lines[1:])
    assert (bad, web) == (["bad", "0/1", "FailedCreatePodSandBox", "0"], ["web", "1/1", "Running", "0"])
    assert lines[1][4].endswith("s")
    document, *_ = json.loads(commands("ls", "--ours", "-o", "json").stdout)
    assert (document["namespace"], document["name"], document["ours"]) == ("default", "bad", True)
    assert (document["status"], document["message"]) == ("FailedCreatePodSandBox", "INTERNAL: no such handler")
    assert (document["running"], document["containers"], document["images"]) == (0, 1, [BUSYBOX])
    assert 0 <= document["ageSeconds"] < 60
    assert "bad" not in commands("ls", "--running", "-o", "name").stdout
    commands("stop", "bad")
    assert commands("ls", "-n", "default").stdout.splitlines()[1].split()[2] == "Stopped"


def test_a_folder_of_which_nothing_is_known_is_listed(commands: PodCommands) -> None:
    """By its uid: it can be removed."""
    (commands.folder / "root/pods/left").mkdir()
    assert commands("ls", "--ours", "-o", "name").stdout.splitlines() == ["left", "default/web"]
    assert commands("ls").stdout.splitlines()[1].split() == ["-", "left", "0/0", "Unknown", "0", "-"]


NEVER = {"name": "main", "image": "nosuch:1", "imagePullPolicy": "Never"}


def test_a_container_that_waits_keeps_its_reason(commands: PodCommands) -> None:
    """After the command that tried to start it has ended, with what was said about it; all that are declared count."""
    side = {"name": "side", "image": BUSYBOX, "imagePullPolicy": "IfNotPresent"}
    assert commands("run", "-f", commands.manifest("bad", containers=[NEVER, side]), "-q").exit_code == 1
    assert commands("ls", "-n", "default").stdout.splitlines()[1].split()[:3] == ["bad", "1/2", "ErrImageNeverPull"]
    bad, *_ = json.loads(commands("ls", "--ours", "-o", "json").stdout)
    main, other = bad["containerStatuses"]
    assert (main["name"], main["state"], main["reason"]) == ("main", "Waiting", "ErrImageNeverPull")
    assert main["message"] == bad["message"] == "Container image 'nosuch:1' is not present with pull policy of Never"
    assert (other["name"], other["state"], other["reason"]) == ("side", "Running", "")


def test_pods_made_by_hand_are_counted_by_their_sandboxes(commands: PodCommands) -> None:
    """Two with equal names, and one without: each can be called by its id."""

    def make(runtime: FakeRuntime) -> list[str]:
        sandboxes = runtime.populate(3)
        for one in sandboxes:
            one.config.labels.clear()
            one.config.metadata.name = "busybox"
        sandboxes[2].config.metadata.Clear()
        return [one.id for one in sandboxes]

    ids = commands.do(make)
    rows = json.loads(commands("ls", "-o", "json").stdout)
    assert {one["uid"] for one in rows if not one["ours"]} >= set(ids)
    assert sum(one["name"] == "busybox" for one in rows) == 2
    assert [one["containers"] for one in rows if one["uid"] in ids] == [1, 1, 1]
    assert commands("ls").stdout.splitlines()[1].split()[:2] == ["-", ids[2][:13]]
    assert commands("status", ids[1][:12]).exit_code == 0
    assert commands("status", "busybox").exit_code == 1
    assert commands("rm", ids[0][:12]).exit_code == 0
    left = {one["uid"] for one in json.loads(commands("ls", "-o", "json").stdout)}
    assert (ids[0] in left, ids[1] in left) == (False, True)


def test_names_are_not_cut_in_a_pipe(commands: PodCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads them there wants all of them; a terminal has its width."""
    long = "a-name-" * 20 + "x"
    commands.up(long)
    assert long in commands("ls").stdout
    monkeypatch.setattr(pod_ls, "output_width", lambda: 80)
    lines = commands("ls").stdout.splitlines()
    assert long not in "".join(lines)
    assert max(map(len, lines)) <= 80


def test_labels_select_pods(commands: PodCommands) -> None:
    """Of everybody, as kubectl has it."""
    selector = "app.kubernetes.io/name in (load-0000),!canary"
    (name,) = commands("ls", "-o", "name", "-l", selector).stdout.split()
    assert name.startswith("production/")
    assert commands("ls", "-o", "name", "-l", "app.kubernetes.io/name!=load-0000").stdout == "default/web\n"
    assert "app.kubernetes.io/name=load-0000" in commands("ls", "--show-labels").stdout
    wrong = commands("ls", "-l", "app~web")
    assert wrong.exit_code == 2
    assert "--selector: 'app~web'" in wrong.stderr


@pytest.mark.parametrize("output", ["text", "json", "name"])
def test_changes_are_followed(commands: PodCommands, monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    """A line for each pod that is another way than before, and for one that is gone."""
    looks = 0
    rows = pod_ls._rows

    async def look(*arguments: object) -> object:
        nonlocal looks
        looks += 1
        if looks == 3:
            for box in (commands.runtime.state.containers, commands.runtime.state.sandboxes):
                box.clear()
        if looks == 5:
            raise KeyboardInterrupt
        return await rows(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(pod_ls, "_rows", look)
    monkeypatch.setattr(pod_ls, "_EVERY", 0.0)
    result = commands("ls", "-w", "-o", output, "-n", "production")
    assert result.exit_code == 130
    first, *more, last = result.stdout.splitlines()
    name = "load-0000-6d4cf56db6-x000"
    if output == "text":
        assert first.split()[:2] == ["NAME", "UP"]
        assert [more[0].split()[:3], last.split()[:3]] == [[name, "1/1", "Running"], [name, "0/1", "Removed"]]
    elif output == "json":
        assert [json.loads(line)["status"] for line in (first, last)] == ["Running", "Removed"]
    else:
        assert (first, last) == (f"production/{name}",) * 2
