"""`interpose pod status` shows everything about a pod."""

import json
from datetime import UTC, datetime
from pathlib import Path

from interpose.cli.pod.run_loop import read_pods
from interpose.node.pods.status.last_status import write_last_status
from interpose.node.pods.status.origin import write_origin
from interpose.node.pods.status.phase import ContainerRole, ContainerView, ContainerViewState
from interpose.node.pods.status.summary import LastStatus
from interpose.testing.pods import BUSYBOX
from tests.support.node.pod_commands import pod_commands


def test_a_pod_is_described(tmp_path: Path) -> None:
    """For people and for programs."""
    with pod_commands(tmp_path) as commands:
        commands.up()
        text = commands("status", "web").stdout
        assert str(tmp_path / "web.json") in text
        document = json.loads(commands("status", "default/web", "-o", "json").stdout)
    (main,) = document["containers"]
    assert (document["name"], document["status"], main["name"], main["state"]) == ("web", "Running", "main", "Running")
    assert main["log"].endswith("/main/0.log")
    assert (document["sandboxes"][0]["attempt"], document["sandboxes"][0]["state"]) == (0, "Ready")


def test_values_for_programs_need_no_parsing(tmp_path: Path) -> None:
    """Times are times, amounts are by name, and lists are there also when they are empty."""
    with pod_commands(tmp_path) as commands:
        resources = {"limits": {"cpu": "500m", "memory": "64Mi"}}
        commands.up(containers=[{"name": "main", "image": BUSYBOX, "resources": resources}], hostNetwork=True)
        document = json.loads(commands("status", "web", "-o", "json").stdout)
        text = commands("status", "web").stdout
    (main,) = document["containers"]
    assert datetime.fromisoformat(document["created"]).tzinfo is UTC
    assert datetime.fromisoformat(main["started"]).tzinfo is UTC
    assert main["limits"] == {"cpu": "500m", "memory": "64Mi"}
    assert document["ips"] == []
    assert "Limits    cpu 500m, memory 64Mi" in text
    assert "s ago)" in text


def test_an_end_and_the_one_before_it_are_told(tmp_path: Path) -> None:
    """With code, reason and last words."""
    with pod_commands(tmp_path) as commands:
        commands.up()
        commands.do(lambda runtime: runtime.exit_container(next(iter(runtime.containers)), 3, "Error", "words"))
        commands.up()
        document = json.loads(commands("status", "web", "-o", "json").stdout)
        commands("stop", "web")
        stopped = json.loads(commands("status", "web", "-o", "json").stdout)
    before = document["containers"][0]["before"]
    assert (before["exitCode"], before["reason"], before["message"]) == (3, "Error", "words")
    assert document["containers"][0]["restarts"] == 1
    assert (stopped["status"], stopped["stoppedByHand"]) == ("Stopped", True)


def test_a_pod_of_others_is_described_too(tmp_path: Path) -> None:
    """It has no folder of ours."""
    with pod_commands(tmp_path) as commands:
        commands.do(lambda runtime: runtime.populate(1))
        document = json.loads(commands("status", "load-0000-6d4cf56db6-x000", "-o", "json").stdout)
    assert "folder" not in document
    assert document["labels"]["app.kubernetes.io/name"] == "load-0000"


def test_a_pod_that_never_had_a_sandbox_is_described(tmp_path: Path) -> None:
    """By what its folder says."""
    with pod_commands(tmp_path) as commands:
        (pod,) = read_pods((str(commands.manifest("bad")),))
        write_origin(str(tmp_path / "root/pods" / pod.uid), pod, 60_000_000_000)
        document = json.loads(commands("status", "bad", "-o", "json").stdout)
        text = commands("status", pod.uid[:8]).stdout
    assert (document["namespace"], document["name"], document["uid"]) == ("default", "bad", pod.uid)
    assert (document["status"], document["created"]) == ("Pending", "1970-01-01T00:01:00Z")
    assert document["manifest"] == str(tmp_path / "bad.json")
    assert document["folder"] == str(tmp_path / "root/pods" / pod.uid)
    assert (document["sandboxes"], document["ips"]) == ([], [])
    waits = {"name": "main", "state": "Waiting", "reason": "ContainerCreating", "restarts": 0}
    assert document["containers"] == [waits]
    assert ["Status", "Pending"] in [line.split() for line in text.splitlines()]


def test_a_folder_of_which_nothing_is_known_is_shown(tmp_path: Path) -> None:
    """With its place, which is all there is."""
    (tmp_path / "root/pods/left").mkdir(parents=True)
    with pod_commands(tmp_path) as commands:
        document = json.loads(commands("status", "left", "-o", "json").stdout)
    assert (document["name"], document["status"]) == ("left", "Unknown")
    assert document["folder"] == str(tmp_path / "root/pods/left")
    assert "created" not in document


def test_containers_that_wait_are_described(tmp_path: Path) -> None:
    """All of the manifest in its order, with reason and message, after the command that tried to start them."""
    setup = {"name": "setup", "image": "nosuch:1", "imagePullPolicy": "Never"}
    with pod_commands(tmp_path) as commands:
        commands("run", "-f", commands.manifest("early", initContainers=[setup]), "-q")
        early = json.loads(commands("status", "early", "-o", "json").stdout)
        text = commands("status", "early").stdout
    assert (early["status"], early["reason"]) == ("Pending", "Init:ErrImageNeverPull")
    first, main = early["containers"]
    assert (first["name"], first["role"], first["state"]) == ("setup", "init", "Waiting")
    assert (first["reason"], first["message"]) == ("ErrImageNeverPull", early["message"])
    assert "is not present with pull policy of Never" in first["message"]
    assert (main["state"], main["reason"], main["image"]) == ("Waiting", "PodInitializing", BUSYBOX)
    assert "s ago)" in next(line for line in text.splitlines() if line.strip().startswith("Since"))


def test_a_container_that_waits_to_be_started_again_shows_its_end(tmp_path: Path) -> None:
    """Waiting is what it is, the end is what was before."""
    with pod_commands(tmp_path) as commands:
        commands.up()
        (name,) = commands.runtime.containers
        commands.do(lambda runtime: runtime.exit_container(name, 3, "Error", "words"))
        document = json.loads(commands("status", "web", "-o", "json").stdout)
        waits = ContainerView(
            name="main",
            role=ContainerRole.MAIN,
            image=BUSYBOX,
            state=ContainerViewState.WAITING,
            reason="CrashLoopBackOff",
            id=name,
        )
        write_last_status(document["folder"], LastStatus(containers=(waits,), since=1))
        later = json.loads(commands("status", "web", "-o", "json").stdout)
    assert (document["reason"], document["containers"][0]["exitCode"]) == ("Error", 3)
    (main,) = later["containers"]
    assert (later["reason"], main["state"], main["reason"]) == ("CrashLoopBackOff", "Waiting", "CrashLoopBackOff")
    assert (main["before"]["exitCode"], main["before"]["message"]) == (3, "words")
    assert main["before"]["log"].endswith("/main/0.log")
