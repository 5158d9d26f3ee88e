"""Recordings of a relay with a hook server and a policy, in front of a real containerd, and what they show."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.hooks.api.hookpoint import HookPoint
from interpose.testing.hookserver import response_to
from tests.support.lab.cri import CriClient
from tests.support.lab.dumps import LIFE, calls, dump, dump_child, live, methods
from tests.support.lab.hook_plugin import HookPlugin
from tests.support.lab.pods import LabPod, remove_groups
from tests.support.lab.policy_pods import BURSTABLE, PolicyPod, PolicyRelay
from tests.support.lab.qos_pods import Kubepods
from tests.support.lab.relay import Relay
from tests.unit.dump.output.test_har import problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.lab.containerd import Containerd

pytestmark = pytest.mark.e2e

POLICY = ("--policy", "static", "--reserved-resources", "cpu=1")
SECRET = "env-s3cr3t"


@dataclass(frozen=True, kw_only=True)
class Story:
    """A recording, and who is in it: `web` was there all the time, `db` came and went."""

    file: Path
    web: str
    db: str
    group: str  # the cgroup that both are below


def changes(request: Any) -> Any:
    """What the hook server wants of a container; the policy has something to say about its CPUs."""
    answer = response_to(request)
    answer.container_annotations["zone"] = "7"
    answer.container_envs["TOKEN"] = SECRET
    answer.container_resources.cpu_shares = 300
    answer.container_resources.cpuset_cpus = "0-1"
    return answer


@pytest.fixture(scope="module")
def story(containerd: Containerd, two_cpus: None) -> Iterator[Story]:
    """A Guaranteed pod comes, gets a CPU of its own from a Burstable one, and goes."""
    if reason := Kubepods.missing():
        pytest.skip(f"no cgroups for pods: {reason}")
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    file = folder / "story.crirec"
    with (
        Kubepods() as kubepods,
        HookPlugin(folder / "plugin.sock") as plugin,
        PolicyRelay(folder, containerd.socket, *POLICY, "--record", str(file)) as relay,
        relay.registered("greedy", plugin.socket),
        CriClient(relay.socket) as client,
    ):
        plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = changes
        with PolicyPod(client, kubepods, "web", 100, BURSTABLE) as web:
            db = PolicyPod(client, kubepods, "db")
            live(db)
            client.outcome("ContainerStatus", cri.ContainerStatusRequest(container_id="nowhere"))
            group = kubepods.name.rpartition("/")[0]
            story = Story(file=file, web=web.container_id, db=db.container_id, group=group)
    yield story
    shutil.rmtree(folder, ignore_errors=True)


def test_all_calls_are_listed(story: Story) -> None:
    """A line for each, with whom it is about; those of the relay itself say who made them."""
    lines = dump("show", story.file).splitlines()[1:]
    listed = calls(story.file)
    assert methods(listed) == [
        *("RunPodSandbox", "CreateContainer", "StartContainer"),
        *LIFE,
        *("ContainerStatus", "StopPodSandbox", "RemovePodSandbox"),
    ]
    assert [line.split()[2] for line in lines] == [one["method"] for one in listed]
    assert methods(listed, "store") == ["ListPodSandbox", "ListContainers"]
    created = next(line for line in lines if "CreateContainer" in line and "lab/db:main" in line)
    assert "* greedy, policy" in created
    assert dump("show", story.file, "--last", 1).splitlines()[1:] == lines[-1:]
    assert SECRET not in "".join(map(json.dumps, listed))
    assert SECRET.encode() not in story.file.read_bytes()


def test_what_hook_server_and_policy_changed(story: Story) -> None:
    """The difference, line by line, and both names; what was not changed has none."""
    [create] = calls(story.file, "~m CreateContainer & ~p db")
    assert create["changed_by"][:2] == ["greedy", "policy"]
    assert [one["side"] for one in create["messages"]] == ["request", "forwarded", "reply"]
    changed = [line for line in create["request_diff"] if line[:2] in ("- ", "+ ")]
    assert [line for line in changed if "cpu" in line and "interpose/" not in line] == [
        "-       cpu_quota: 100000",
        "-       cpu_shares: 1024",
        "+       cpu_quota: -1",
        "+       cpu_shares: 300",
        '+       cpuset_cpus: "1"',
    ]
    assert '+     zone: "7"' in changed
    assert "+     value: <redacted>" in changed
    asked, got = (one["body"]["config"] for one in create["messages"][:2])
    assert ("envs" in asked, got["envs"]) == (False, [{"key": "TOKEN", "value": "<redacted>"}])
    shown = dump("show", story.file, "--number", create["number"])
    assert "\n  +       cpu_shares: 300\n" in shown
    assert "changed:      greedy, policy" in shown
    # What the kubelet reads is what it asked for.
    [status] = calls(story.file, "~m ContainerStatus ~p db")
    assert '+       cpuset_cpus: "1"' not in status["reply_diff"]
    assert '-       cpuset_cpus: "1"' in status["reply_diff"]
    [start] = calls(story.file, "~m StartContainer ~p db")
    assert (start["changed"], start["request_diff"], start["reply_diff"]) == (False, [], [])


def test_calls_of_the_policy(story: Story) -> None:
    """Another container has to leave a CPU: the relay's own calls are in it, with their origin."""
    own = calls(story.file, "~o policy")
    assert [(one["method"], one["kind"], one["container_id"]) for one in own] == [
        ("UpdateContainerResources", "originated", story.web)
    ] * 2
    assert own[0]["messages"][0]["body"]["linux"]["cpuset_cpus"] == "0"
    assert own[1]["messages"][0]["body"]["linux"]["cpuset_cpus"] == "0-1"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("~s NOT_FOUND",), ["ContainerStatus"]),
        (("--status", "error"), ["ContainerStatus"]),
        (("~m Stop & !~p web",), ["StopContainer", "StopPodSandbox"]),
        (("pod=db", "method=^Create"), ["CreateContainer"]),
        (("--changed-by", "greedy", "--pod", "db"), ["CreateContainer"]),
        (("~q echo",), ["ExecSync"]),
        (("~t nowhere",), ["ContainerStatus"]),
        (("~k originated & ~o store",), ["ListPodSandbox", "ListContainers"]),
        (("~i busybox & ~ns lab & ~c main & ~d >1us & ~m Create",), ["CreateContainer"] * 2),
        (("~n 1-2",), ["ListPodSandbox", "ListContainers"]),
    ],
    ids=" ".join,
)
def test_filters(story: Story, words: tuple[str, ...], found: list[str]) -> None:
    """What people look for."""
    assert [one["method"] for one in calls(story.file, *words)] == found


def test_what_is_in_it(story: Story) -> None:
    """A summary, whole and undamaged."""
    info = json.loads(dump("info", story.file, "-o", "json"))
    assert (info["calls"], info["failed"], info["unfinished"], info["damaged_places"]) == (22, 1, 0, 0)
    assert info["changed"] == 4
    assert info["methods"]["ContainerStatus"] == {"OK": 1, "NOT_FOUND": 1}
    assert [file["index"] for file in info["files"]] == [True]
    assert info["dropped"] == {"frames": 0, "bytes": 0}
    assert info["header"]["redaction"] == "default"
    assert "22 calls, 1 failed, 4 changed" in dump("info", story.file)


def test_other_forms(story: Story, scratch: Path) -> None:
    """For browsers, for people, and for measuring."""
    har = json.loads(dump("show", story.file, "-o", "har"))
    entries = har["log"]["entries"]
    assert problems(har) == []
    assert (har["log"]["version"], len(entries)) == ("1.2", 22)
    assert [one["_method"] for one in entries if one["response"]["status"] == 404] == ["ContainerStatus"]
    assert all(one["time"] > 0 and one["startedDateTime"].endswith("Z") for one in entries)
    page = scratch / "story.html"
    dump("show", story.file, "-o", "html", "--output", page)
    text = page.read_text()
    assert text.lower().startswith("<!doctype html>")
    assert "CreateContainer" in text
    assert SECRET not in text
    latency = dump("show", story.file, "-o", "latency")
    assert all(name in latency for name in LIFE)
    dumped = dump("show", story.file, "-o", "text", "~p db & ~m Create")
    assert "(intercepted) REQUEST CreateContainer\n" in dumped
    assert "    CreateContainer ~> +       cpu_shares: 300\n" in dumped


def test_replayed_as_sent(story: Story, containerd: Containerd, scratch: Path) -> None:
    """Without hook server and policy the runtime gets what it got, calls of the policy among it, in that order."""
    again = scratch / "again.crirec"
    with Relay(scratch, containerd.socket, ("--record", str(again))) as relay:
        dump("replay", story.file, "--to", relay.socket, "--as-sent", "--cleanup")
        assert relay.child.stop() == 0
    remove_groups(story.group)
    made = sorted(calls(again, "~m Update | ~m Create"), key=lambda one: one["number"])
    assert [(one["pod"], one["messages"][0]["body"].get("linux", {}).get("cpuset_cpus")) for one in made] == [
        ("web", None),
        ("web", "0"),
        ("db", None),
        ("db", "0-1"),
        ("web", "0-1"),
    ]
    asked = made[2]["messages"][0]["body"]["config"]
    assert (asked["linux"]["resources"]["cpu_shares"], asked["linux"]["resources"]["cpuset_cpus"]) == (300, "1")
    assert asked["annotations"]["zone"] == "7"


def test_recording_from_outside(containerd: Containerd, scratch: Path) -> None:
    """Somebody attaches to a running relay, records a pod's life and leaves; the relay never notices."""
    file, log = scratch / "outside.crirec", scratch / "record.log"
    with Relay(scratch, containerd.socket) as relay, CriClient(relay.socket) as client:
        relay.child.wait_listening(relay.admin)
        live(LabPod(client, "before"))
        with dump_child(log, "record", "--socket", relay.admin, "-w", file) as recorder:
            recorder.wait_until(log.read_text, what="the recording to begin")
            live(LabPod(client, "during"))
            recorder.signal(signal.SIGINT)
            assert recorder.wait() == 0
        live(LabPod(client, "after"))
        assert relay.child.running
        assert relay.child.stop() == 0
    assert f"{len(LIFE)} calls in {file}" in log.read_text()
    recorded = calls(file)
    assert methods(recorded) == [*LIFE]
    assert {one["pod"] for one in recorded} == {"during"}
    assert {one["status"] for one in recorded} == {"OK"}
    info = json.loads(dump("info", file, "-o", "json"))
    assert (info["calls"], info["unfinished"], info["damaged_places"], info["dropped"]["frames"]) == (
        len(LIFE),
        0,
        0,
        0,
    )
    assert info["files"][0]["index"] is True
