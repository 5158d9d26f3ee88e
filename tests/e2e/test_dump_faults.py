"""Recordings of calls to a real containerd while things break: what was written stays, and nothing is told twice."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from interpose.dump.fileset import rotated_set
from interpose.dump.reading import Recording, open_recording
from interpose.testing.lab.cri import CriClient
from interpose.testing.lab.dumps import LIFE, dump, dump_child, live
from interpose.testing.lab.load import Load
from interpose.testing.lab.pods import LabPod
from interpose.testing.lab.processes import wait_for
from interpose.testing.lab.relay import Relay

if TYPE_CHECKING:
    from pathlib import Path

    from interpose.testing.lab.containerd import Containerd

pytestmark = pytest.mark.e2e


def finished(file: Path) -> int:
    """Calls that ended, in all files of a recording."""
    return sum(flow.end is not None for flow in open_recording([file]).flows())


def test_relay_killed_in_the_middle(containerd: Containerd, scratch: Path) -> None:
    """The recording is readable, holds what passed up to then, and the next relay leaves it alone."""
    file = scratch / "a.crirec"
    with Relay(scratch, containerd.socket, ("--record", str(file))) as relay:
        with CriClient(relay.socket) as client:
            live(LabPod(client, "before"))
        with Load(relay.socket, method="Status") as load:
            load.wait_ok(100, since=0, within=10)
            relay.kill()
        wait_for(lambda: finished(file) > len(LIFE), within=10, what="the calls to be written")
        before = [flow for flow in Recording(file).flows() if flow.end is not None]
        assert [flow.name for flow in before[: len(LIFE)]] == [*LIFE]
        assert {flow.name for flow in before[len(LIFE) :]} == {"Status"}
        # All that was answered is there, but for what was on the way to the recording in the last milliseconds.
        assert len(before) - len(LIFE) >= 0.5 * sum(sample.ok for sample in load.samples())
        relay.start()
        with CriClient(relay.socket) as client:
            client.call("Version")
        assert relay.child.stop() == 0
    first, second = (Recording(one) for one in rotated_set(file))
    assert len([flow for flow in first.flows() if flow.end is not None]) >= len(before)
    assert first.damage == second.damage == []
    assert [flow.name for flow in second.flows()] == ["Version"]


def test_following_over_rotations(containerd: Containerd, scratch: Path) -> None:
    """Each call is printed once, when it ends, whatever file it went to; Ctrl-C ends it quietly."""
    file, out = scratch / "a.crirec", scratch / "followed"
    options = ("--record", str(file), "--record-size", "64KiB", "--record-files", "1000")
    with Relay(scratch, containerd.socket, options) as relay, CriClient(relay.socket) as client:
        wait_for(file.exists, within=10, what="the recording to begin")
        with (
            dump_child(out, "follow", file, "--from-start", "-o", "jsonl") as follower,
            LabPod(client, "followed") as pod,
        ):
            follower.wait_until(lambda: "StartContainer" in out.read_text(), within=10, what="the first calls")
            count = 0
            while len(rotated_set(file)) < 4:
                for _ in range(20):
                    pod.info()
                    count += 1
            follower.wait_until(lambda: out.read_text().count("\n") >= count + 3, within=10, what="all calls")
            assert follower.running
            pod.remove()
            follower.wait_until(lambda: "RemovePodSandbox" in out.read_text(), within=10, what="the last call")
            follower.signal(signal.SIGINT)
            assert follower.wait(10) == 0
        assert relay.child.stop() == 0
    followed = [json.loads(line) for line in out.read_text().splitlines()]
    numbers = [one["number"] for one in followed]
    assert len(numbers) == len(set(numbers))
    assert Counter(one["method"] for one in followed)["ContainerStatus"] == count
    shown = [json.loads(line) for line in dump("show", file, "--all-files", "-o", "jsonl").splitlines()]
    assert [one["number"] for one in shown] == numbers
    # Files that begin in the middle still know whom calls are about.
    assert {one["subject"] for one in followed if one["method"] == "ContainerStatus"} == {"lab/followed:main"}
    alone = [json.loads(line) for line in dump("show", file, "-o", "jsonl", "~m ContainerStatus").splitlines()]
    assert {one["subject"] for one in alone if one["messages"]} == {"lab/followed:main"}
    assert len(alone) > 20


def test_taken_over_under_load(containerd: Containerd, scratch: Path) -> None:
    """Every call of the load is in one of the files of both relays, none is in two."""
    file = scratch / "a.crirec"
    with Relay(scratch, containerd.socket, ("--record", str(file))) as relay:
        with Load(relay.socket, threads=4) as load:
            load.wait_ok(200, since=0, within=10)
            old = relay.take_over()
            load.wait_ok(200, since=time.monotonic(), within=10)
        assert old.exit_code == 0
        assert relay.child.stop() == 0
    assert load.failures() == []
    recordings = [Recording(one) for one in rotated_set(file)]
    assert len(recordings) == 2
    flows = [[flow for flow in one.flows() if flow.name == "Version"] for one in recordings]
    assert all(flow.end is not None and flow.end.code == 0 for part in flows for flow in part)
    assert [one.damage for one in recordings] == [[], []]
    # A call that was given up by the old relay before it reached it may be told twice by none of them.
    assert len(flows[0]) + len(flows[1]) == len(load.samples())
    assert min(len(part) for part in flows) >= 100
    assert len({one.header.facts["session"] for one in recordings}) == 2
