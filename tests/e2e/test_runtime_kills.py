"""kill -9 of the real runtime at its acts: what a caller goes on with is whole, and in the end nothing is left.

A pod is brought up and taken down by a client that begins again where it was, as a kubelet does. The runtime dies at a
chosen act (of about 250: each change of a file, cgroup or mount, each program started, each word to a shim or a
client), and another one takes over.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.cri import CriClient
from tests.support.lab.kill.killable import KillableRuntime
from tests.support.lab.kill.soak import KillSoak
from tests.support.lab.pod.script import PodScript, RuntimeAwayError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

THOROUGH = bool(os.environ.get("INTERPOSE_THOROUGH"))
FIRST = 19  # the acts before are those of an empty start
STEP = 1 if THOROUGH else 37
WHOLE = 400  # more acts than there are


@pytest.fixture(scope="module")
def node() -> Iterator[KillableRuntime]:
    """A runtime with an image, not running."""
    if reason := KillableRuntime.missing():
        pytest.skip(f"no runtime: {reason}")
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    with KillableRuntime(folder) as runtime:
        runtime.add_images()
        runtime.stop()
        yield runtime
    shutil.rmtree(folder, ignore_errors=True)


def until_killed(node: KillableRuntime, script: PodScript, at: int) -> bool:
    """Go on with the pod until the runtime dies; whether it did."""
    try:
        if node.start_doomed(at):
            with CriClient(node.socket) as client:
                script.run(client)
    except RuntimeAwayError:
        pass
    if script.done and node.child.running:
        return node.child.stop() != 0  # it may die while it leaves
    assert node.child.wait() == -signal.SIGKILL
    return True


def finish(node: KillableRuntime, script: PodScript) -> None:
    """Let another runtime bring it to its end: then nothing is left on the machine."""
    node.start()
    deadline = time.monotonic() + WAIT_LIMIT
    while not script.done:
        # Calls are answered when all is in order, which may take longer than a client waits.
        with contextlib.suppress(RuntimeAwayError), CriClient(node.socket) as client:
            script.run(client)
        assert node.child.running
        assert time.monotonic() < deadline
    node.wait_clean()
    node.stop()


def finished_without_trace(node: KillableRuntime, script: PodScript, images: list[str]) -> None:
    """As `finish`, and the store of images is as it was."""
    where = node.died_at
    try:
        finish(node, script)
        assert node.images_now() == images
    except BaseException as error:
        error.add_note(f"killed at act {where}")
        raise


@pytest.mark.timeout(3600 if THOROUGH else 900, method="thread")
def test_killed_at_any_act(node: KillableRuntime) -> None:
    """Whatever it was doing: the pod comes up after it, works, and goes without a trace."""
    images = node.images_now()
    killed = True
    for at in range(FIRST, WHOLE, STEP):
        script = PodScript("pod", node.cgroup, node.folder / "logs")
        killed = until_killed(node, script, at)
        finished_without_trace(node, script, images)
        if not killed:
            break
    assert not killed


@pytest.mark.timeout(3600 if THOROUGH else 900, method="thread")
@pytest.mark.parametrize("first", range(40, 300, 20) if THOROUGH else (113,))
def test_killed_again_while_it_repairs(node: KillableRuntime, first: int) -> None:
    """What is left of a half done repair is repaired by the next one."""
    images = node.images_now()
    killed = True
    for at in range(FIRST, WHOLE, STEP):
        script = PodScript("pod", node.cgroup, node.folder / "logs")
        assert until_killed(node, script, first)
        killed = node.dies_while_starting(at)
        finished_without_trace(node, script, images)
        if not killed:
            break
    assert not killed


@pytest.mark.timeout(3600 if THOROUGH else 900, method="thread")
def test_everything_is_killed_at_random(scratch: Path) -> None:
    """Runtime, manager, shims, holders, containers, while manifests change: pods come up again, and leave no trace."""
    if reason := KillableRuntime.missing():
        pytest.skip(f"no runtime: {reason}")
    seed = random.SystemRandom().randrange(1 << 16) if THOROUGH else 9
    print(f"seed {seed}")
    soak = KillSoak(scratch, seed)
    soak.run(600 if THOROUGH else 5)
    assert soak.tally.checks
