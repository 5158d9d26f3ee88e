"""Recordings of calls to a real containerd while things break: what was written stays, and nothing is told twice."""

from __future__ import annotations

import itertools
import json
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.dump.recording.files import rotated_set
from interpose.dump.recording.reader import Recording, open_recording
from tests.support.lab.cri import CriClient
from tests.support.lab.dumps import LIFE, dump, dump_child, live
from tests.support.lab.load.load import Load
from tests.support.lab.pods import LabPod
from tests.support.lab.processes import wait_for
from tests.support.lab.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.lab.containerd import Containerd

pytestmark = pytest.mark.e2e


def finished(file: Path) -> int:
    """Calls that ended, in all files of a recording; none before the worker of the relay has made the first."""
    if not file.exists():
        return 0
    return sum(flow.end is not None for flow in open_recording([file]).flows())


def test_relay_killed_in_the_middle(containerd: Containerd, scratch: Path) -> None:
    """The recording is readable, holds what passed up to then, and the next relay leaves it alone."""
    file = scratch / "a.crirec"
    with Relay(scratch, containerd.socket, ("--record", str(file))) as relay:
        with CriClient(relay.socket) as client:
            live(LabPod(client, "before"))
        with Load(relay.socket, method="Status") as load:
            load.wait_ok(100, since=0)
            answered = len(LIFE) + sum(sample.ok for sample in load.samples())
            wait_for(lambda: finished(file) >= answered, what=f"{answered} calls to be written", every=0.05)
            relay.kill()
        names = [flow.name for flow in Recording(file).flows() if flow.end is not None]
        assert names == [*LIFE, *["Status"] * (len(names) - len(LIFE))]
        relay.start()
        with CriClient(relay.socket) as client:
            client.call("Version")
        assert relay.child.stop() == 0
    first, second = (Recording(one) for one in rotated_set(file))
    assert [flow.name for flow in first.flows()][: len(names)] == names
    assert first.damage == second.damage == []
    assert [flow.name for flow in second.flows()] == ["Version"]


def test_following_over_rotations(containerd: Containerd, scratch: Path) -> None:
    """Each call is printed once, when it ends, whatever file it went to; Ctrl-C ends it quietly."""
    file, out = scratch / "a.crirec", scratch / "followed"
    options = ("--record", str(file), "--record-size", "64KiB", "--record-files", "1000")
    with Relay(scratch, containerd.socket, options) as relay, CriClient(relay.socket) as client:
        wait_for(file.exists, what="the recording to begin")
        with (
            dump_child(out, "follow", file, "--from-start", "-o", "jsonl") as follower,
            LabPod(client, "followed") as pod,
        ):
            follower.wait_until(lambda: "StartContainer" in out.read_text(), what="the first calls")
            count = 0
            while len(rotated_set(file)) < 4:
                for _ in range(20):
                    pod.info()
                    count += 1
            for _ in range(3):
                pod.info()
                count += 1
            follower.wait_until(lambda: out.read_text().count("\n") >= count + 3, what="all calls")
            assert follower.running
            pod.remove()
            follower.wait_until(lambda: "RemovePodSandbox" in out.read_text(), what="the last call")
            follower.signal(signal.SIGINT)
            assert follower.wait() == 0
        assert relay.child.stop() == 0
    followed = [json.loads(line) for line in out.read_text().splitlines()]
    numbers = [one["number"] for one in followed]
    assert len(numbers) == len(set(numbers))
    assert Counter(one["method"] for one in followed)["ContainerStatus"] == count
    shown = [json.loads(line) for line in dump("show", file, "-o", "jsonl").splitlines()]
    assert [one["number"] for one in shown] == numbers
    # Files that begin in the middle still know whom calls are about.
    assert {one["subject"] for one in followed if one["method"] == "ContainerStatus"} == {"lab/followed:main"}
    alone = [json.loads(line) for line in dump("show", file, "-o", "jsonl", "~m ContainerStatus").splitlines()]
    asked = [one for one in alone if any(message["side"] == "request" for message in one["messages"])]
    assert {one["subject"] for one in asked} == {"lab/followed:main"}


def call_until(stopped: threading.Event, client: CriClient, numbers: Iterator[int]) -> list[int]:
    """Calls that can be told apart, one after the other; an exception if one fails."""
    made = []
    while not stopped.is_set():
        made.append(next(numbers))
        client.call("Version", cri.VersionRequest(version=str(made[-1])))
    return made


def numbers_in(file: Path) -> list[int]:
    """The calls of `call_until` that a file holds, each whole and well ended."""
    recording = Recording(file)
    flows = [flow for flow in recording.flows() if flow.name == "Version"]
    assert all(flow.end is not None and flow.end.code == 0 and len(flow.messages) == 2 for flow in flows)
    assert recording.damage == []
    return [int(cri.VersionRequest.FromString(flow.messages[0].data).version) for flow in flows]


def test_taken_over_under_load(containerd: Containerd, scratch: Path) -> None:
    """Every call of the load is in one of the files of both relays, none is in two."""
    file = scratch / "a.crirec"
    numbers, stopped = itertools.count(), threading.Event()
    with Relay(scratch, containerd.socket, ("--record", str(file))) as relay:
        with CriClient(relay.socket) as client, ThreadPoolExecutor(4) as pool:
            callers = [pool.submit(call_until, stopped, client, numbers) for _ in range(4)]
            try:
                wait_for(lambda: next(numbers) > 500, what="some calls")
                old = relay.take_over()
                taken_over = next(numbers)
                wait_for(lambda: next(numbers) > taken_over + 500, what="some more calls")
            finally:
                stopped.set()
            made = [number for caller in callers for number in caller.result()]
        assert old.exit_code == 0
        assert relay.child.stop() == 0
    parts = [numbers_in(one) for one in rotated_set(file)]
    assert len(parts) == 2
    assert sorted(parts[0] + parts[1]) == sorted(made)
    assert all(len(part) > 10 for part in parts)
