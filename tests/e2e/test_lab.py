"""The lab itself: real daemons come up, work, and leave nothing behind."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.support.lab.containerd import Containerd
from tests.support.lab.cri import CriClient
from tests.support.lab.docker.dockerd import Dockerd
from tests.support.lab.images import TEST_IMAGE
from tests.support.lab.load import nginx
from tests.support.lab.pods import LabPod, remove_groups

pytestmark = pytest.mark.e2e


def traces(folder: Path) -> list[str]:
    """Command lines and mounts that still name the folder."""
    found = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found += [command] if str(folder) in command else []
    return found


def test_containerd_leaves_nothing_behind(scratch: Path) -> None:
    """Shims and mounts of a forgotten pod are gone with the containerd that ran it."""
    if reason := Containerd.missing():
        pytest.skip(f"no containerd: {reason}")
    with Containerd(scratch / "c") as containerd, CriClient(containerd.socket) as client:
        containerd.add_images()
        forgotten = LabPod(client, "forgotten")
        forgotten.run()
        assert any("containerd-shim" in trace for trace in traces(containerd.folder))
    remove_groups(forgotten.cgroup_parent)
    assert traces(scratch / "c") == []


def test_containers_survive_a_restart_of_containerd(own_containerd: Containerd) -> None:
    """A restart keeps the socket's path and what runs."""
    own_containerd.add_images()
    with CriClient(own_containerd.socket) as client, LabPod(client, "stays") as pod:
        before = pod.status()
        own_containerd.restart()
        with CriClient(own_containerd.socket) as again:
            containers = again.call("ListContainers").containers
        assert [(c.id, c.state) for c in containers] == [(before.id, before.state)]


def test_dockerd_runs_a_container(scratch: Path) -> None:
    """dockerd runs a container from an image that was never pulled, and leaves nothing behind."""
    if reason := Dockerd.missing():
        pytest.skip(f"no dockerd: {reason}")
    with Dockerd(scratch / "d") as dockerd:
        dockerd.add_images()
        assert dockerd.docker("run", "--rm", "--network", "host", TEST_IMAGE, "echo", "hello") == "hello\n"
        # At once: the program is pid 1 of its container and deaf to SIGTERM.
        dockerd.docker("run", "-d", "--stop-timeout", "0", "--network", "host", TEST_IMAGE)
    assert traces(scratch / "d") == []


def test_nginx_answers_any_call_with_one_large_message(scratch: Path) -> None:
    """Any method gets the same gRPC message with status OK."""
    if reason := nginx.missing():
        pytest.skip(f"no nginx: {reason}")
    with nginx.start(scratch / "n", scratch / "n.sock", size=300_000), CriClient(scratch / "n.sock") as client:
        for path in ("/any.Service/Method", "/other.Service/Call"):
            outcome = client.outcome(path, b"request")
            assert (outcome.code, len(outcome.reply)) == ("OK", 300_000)
