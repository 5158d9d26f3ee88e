"""The same pods on a real containerd and on our own runtime: what comes of them is the same.

All manifests in tests/data/pods are run at once by `interpose pod run`, looked at while they are up, stopped, looked at
again, and removed. A test is about one manifest; the fixture did the work.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.lab.containerd import Containerd
from tests.support.lab.cri import CriClient
from tests.support.lab.installations import chosen
from tests.support.lab.pod.outcome import Outcomes
from tests.support.lab.pod.run import PodNode, containerd_node, runtime_node
from tests.support.lab.runtime import Runtime
from tests.support.net.subnets import reserved_subnet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

pytestmark = pytest.mark.e2e

MANIFESTS: Final = sorted((Path(__file__).parents[1] / "data" / "pods").glob("*.yaml"))

# Name of a container and how often it was started before: how it is, while the pods are up and after they were stopped.
# Those before it may be gone: garbage is collected once a minute.
# `sleep` as the first process of its namespace does not hear SIGTERM, so most are killed.
RUNS: Final = "runs"
UP: Final[dict[str, str]] = {
    "always-nonzero": "main/1 runs",
    "always-zero": "main/1 runs",
    "capabilities": "every/0 runs, more/0 runs, none/0 runs, of-a-user/0 runs, some/0 runs, standard/0 runs",
    "deadline": "main/0 Error 137",
    "env": "main/0 Completed 0",
    "files": "main/0 Completed 0",
    "graceful": "main/0 runs",
    "hook-fails": "main/0 Error 11",
    "hooks": "main/0 runs",
    "host-ipc": "main/0 runs",
    "host-network": "main/0 runs",
    "host-pid": "main/0 runs",
    "init-bad": "first/0 Error 9",
    "init-good": "first/0 Completed 0, main/0 runs, second/0 Completed 0",
    "init-retry": "first/1 Completed 0, main/0 Completed 0",
    "last-words": "elsewhere/0 Completed 0, from-the-log/0 Error 1, good-end/0 Completed 0, usual/0 Error 1",
    "liveness": "main/1 runs",
    "log": "bytes/0 Completed 0, long/0 Completed 0, streams/0 Completed 0",
    "names": "main/0 runs",
    "network": "client/0 runs, server/0 runs",
    "never-killed": "segv/0 Error 139, term/0 Error 143",
    "never-nonzero": "main/0 Error 7",
    "never-several": "one/0 Completed 0, three/0 Error 1, two/0 Error 5",
    "never-zero": "main/0 Completed 0",
    "no-such-image": "",
    "no-such-program": "main/0 StartError 128",
    "not-root": "",
    "onfailure-retry": "main/1 Completed 0",
    "onfailure-zero": "main/0 Completed 0",
    "out-of-memory": "main/0 OOMKilled 137",
    "out-of-memory-child": "main/0 OOMKilled 2",
    "own-policies": "never/0 Error 6, onfailure/0 Completed 0",
    "privileged": "beside/0 runs, main/0 runs",
    "probes": "web/0 runs",
    "qos-best-effort": "main/0 runs",
    "qos-burstable": "asks/0 runs, limited/0 runs, nothing/0 runs",
    "qos-guaranteed": "big/0 runs, small/0 runs",
    "read-only": "main/0 runs",
    "seccomp": "filtered/0 runs, unfiltered/0 runs",
    "shared-processes": "one/0 runs, two/0 runs",
    "sidecar": "check/0 Completed 0, main/0 runs, side/0 runs",
    "sidecar-of-a-job": "main/0 Completed 0, side/0 Completed 0",
    "stdin-once": "main/0 runs",
    "stubborn": "main/0 runs",
    "sysctls": "main/0 runs",
    "terminal": "both/0 runs, neither/0 runs, stdin/0 runs, tty/0 runs",
    "users": "known/0 runs, own/0 runs, pod-wide/0 runs",
    "volumes": "fill/0 Completed 0, reader/0 runs, writer/0 runs",
}
KILLED: Final = "Error 137"
DOWN: Final[dict[str, str]] = {
    "graceful": "main/0 Error 12",
    "hooks": "main/0 Completed 0",
    "host-pid": "main/0 Error 143",
    "liveness": "main/1 Error 13",
    "shared-processes": "one/0 Error 143, two/0 Error 143",
    "stdin-once": "main/0 Completed 0",
}

NO_PROGRAM: Final = (
    "executable file `/bin/no-such-program` not found: No such file or directory"
    if chosen().oci == "crun"
    else 'exec: "/bin/no-such-program": stat /bin/no-such-program: no such file or directory'
)

# What `interpose pod run` says of pods that did not come up; its last words.
FAILURES: Final = {
    "deadline": "DeadlineExceeded: was active longer than 2 s",
    "hook-fails": "main: exit code 11",
    "init-bad": "first: exit code 9",
    "last-words": "usual: exit code 1: last words",
    "never-killed": "segv: exit code 139",
    "never-nonzero": "main: exit code 7",
    "never-several": "two: exit code 5",
    "no-such-image": "main: ErrImageNeverPull: Container image 'localhost/no-such-image:1' is not present with pull "
    "policy of Never",
    "no-such-program": f"main: StartError, exit code 128: {NO_PROGRAM}",
    "not-root": "main: CreateContainerConfigError: container main: runAsNonRoot is set, and the image runs as root",
    "out-of-memory": "main: OOMKilled, exit code 137",
    "out-of-memory-child": "main: OOMKilled, exit code 2",
    "own-policies": "never: exit code 6",
}

# Where the two are not the same, and why. Each takes what differs out of a text of a document.
DIFFERENCES: Final = (
    # Both hand on the words of runc and crun; containerd puts the way they took before and a code after them.
    (
        re.compile(
            r"(?:failed to create containerd task: .*)?runc (?:create|run) failed: .*?: (exec: .*?)(?:: unknown)?$"
        ),
        r"\1",
    ),
    (re.compile(r"failed to create containerd task: .*OCI runtime create failed: (executable file .*)$"), r"\1"),
    # Layers: our runtime mounts overlays, this containerd copies (its `native` snapshotter).
    (re.compile(r"^/ (?:ext4|xfs|btrfs|tmpfs|overlay) (?=relatime,r[ow])"), "/ "),
)

# Commands that somebody types while the pods are up; what they print is compared, and is:
TYPED: Final = (
    (("logs", "-p", "always-nonzero"), "", 0, "first\n"),
    (("logs", "log", "-c", "streams"), "", 0, "out\n\nno end"),
    (("logs", "terminal", "-c", "tty"), "", 0, "a terminal\nand\n"),
    (("exec", "network", "-c", "client", "--", "sh", "-c", "hostname; exit 5"), "", 5, "network\n"),
    (("exec", "-i", "users", "-c", "own", "--", "sh", "-c", "cat; id -u"), "words\n", 0, "words\n2001\n"),
    (("attach", "-i", "stdin-once"), "typed\n", 0, "typed\nread it all\n"),
)


@dataclass(frozen=True, kw_only=True)
class Story:
    """What came of all pods on one runtime."""

    code: int
    said: list[str]
    up: dict[str, Any]
    listed: dict[str, Any]
    typed: list[tuple[int, str]]
    down: dict[str, Any]
    left: dict[str, list[str]]


def play(made: AbstractContextManager[PodNode]) -> Story:
    """Run, look, stop, look again, remove."""
    with made as node, CriClient(node.pods.socket) as client:
        execs = ("capabilities", "users", "seccomp", "privileged", "host-pid", "shared-processes", "qos-burstable")
        outcomes = Outcomes(client, node.subnet, node.words, execs)
        done = node.pods.run("run", "-f", node.pods.manifests(MANIFESTS), code=None)
        up = outcomes.read()
        listed = {
            row["name"]: (row["status"], row["running"], row["containers"], row["restarts"], len(row["ips"]))
            for row in node.pods.document("ls")
        }
        typed = [node.pods.run(*argv, stdin=stdin, code=None) for argv, stdin, _, _ in TYPED]
        node.pods.run("stop", "--all")
        down = outcomes.read()
        node.pods.run("rm", "--all")
        return Story(
            code=done.returncode,
            said=[line for line in done.stderr.splitlines() if line.startswith("error: ")],
            up=up,
            listed=listed,
            typed=[(one.returncode, one.stdout) for one in typed],
            down=down,
            left=node.leftovers(),
        )


def heard(story: Story) -> Story:
    """The story as if every kill for want of memory had been heard of in time.

    containerd 1.6 hears of it by another way than of the exit, and if that one is faster, the exit has no reason.
    """
    for name in ("out-of-memory", "out-of-memory-child"):
        story = _heard(story, name)
    return story


def _heard(story: Story, name: str) -> Story:
    told = FAILURES[name]
    plain = told.replace("OOMKilled, ", "")

    def corrected(documents: dict[str, Any]) -> dict[str, Any]:
        containers = {
            key: {**one, "reason": "OOMKilled"} if one["reason"] == "Error" else one
            for key, one in documents[name]["containers"].items()
        }
        return {**documents, name: {**documents[name], "containers": containers}}

    status, *numbers = story.listed[name]
    return replace(
        story,
        said=[line.replace(f"lab/{name}: {plain}", f"lab/{name}: {told}") for line in story.said],
        up=corrected(story.up),
        down=corrected(story.down),
        listed={**story.listed, name: ("OOMKilled" if status == "Error" else status, *numbers)},
    )


@pytest.fixture(scope="module")
def stories() -> Iterator[dict[str, Story]]:
    """Both runtimes at the same time, all pods at once."""
    for kind in (Containerd, Runtime):
        if reason := kind.missing():
            pytest.skip(f"no {kind.name}: {reason}")
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    try:
        with reserved_subnet() as there, reserved_subnet() as here, ThreadPoolExecutor(2) as pool:
            theirs = pool.submit(play, containerd_node(folder / "c", there))
            # The same OCI runtime below: a newer one mounts differently.
            ours = pool.submit(play, runtime_node(folder / "o", here, chosen().oci_runtime or "runc"))
            yield {"containerd": heard(theirs.result()), "ours": ours.result()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def same(document: Any) -> Any:
    """The document without what is known to differ."""
    if isinstance(document, dict):
        return {key: same(value) for key, value in document.items()}
    if isinstance(document, list):
        return [same(value) for value in document]
    if isinstance(document, str):
        for pattern, instead in DIFFERENCES:
            document = pattern.sub(instead, document)
    return document


def state(one: dict[str, Any]) -> str:
    """How a container is."""
    return RUNS if one["state"] == "CONTAINER_RUNNING" else f"{one['reason']} {one['exit code']}"


def newest(document: dict[str, Any]) -> dict[str, Any]:
    """The newest container of each name."""
    by_name = {name.partition("/")[0]: name for name in sorted(document["containers"])}
    return {name: document["containers"][name] for name in by_name.values()}


def words(document: dict[str, Any]) -> str:
    """How the newest containers of a pod are."""
    return ", ".join(f"{name} {state(one)}" for name, one in sorted(newest(document).items()))


def comparable(document: dict[str, Any], other: dict[str, Any]) -> Any:
    """The document without what is known to differ, and without what was only collected in the other."""
    kept = newest(document).keys() | other["containers"].keys()
    containers = {name: one for name, one in document["containers"].items() if name in kept}
    return same({**document, "containers": containers})


def test_every_manifest_has_an_expectation() -> None:
    """And there are no others."""
    assert sorted(file.stem for file in MANIFESTS) == sorted(UP)


@pytest.mark.parametrize("name", sorted(UP))
def test_what_is_up_is_the_same(stories: dict[str, Story], name: str) -> None:
    """States, last words, logs, and all that the kernel says of processes and cgroups."""
    theirs, ours = (stories[who].up[name] for who in ("containerd", "ours"))
    assert words(ours) == UP[name]
    assert comparable(ours, theirs) == comparable(theirs, ours)


@pytest.mark.parametrize("name", sorted(UP))
def test_what_was_stopped_is_the_same(stories: dict[str, Story], name: str) -> None:
    """Who was told to end ends as it likes, who does not hear is killed; the sandbox is down."""
    theirs, ours = (stories[who].down[name] for who in ("containerd", "ours"))
    assert words(ours) == DOWN.get(name, UP[name].replace(RUNS, KILLED))
    assert ours["sandbox"]["state"] == "SANDBOX_NOTREADY"
    assert comparable(ours, theirs) == comparable(theirs, ours)


@pytest.mark.parametrize(
    ("name", "ended"), [("always-nonzero", "Error 3"), ("always-zero", "Completed 0"), ("liveness", "Error 13")]
)
def test_the_end_before_is_known(stories: dict[str, Story], name: str, ended: str) -> None:
    """Of a container that was started again, unless it was collected meanwhile."""
    one = stories["ours"].up[name]["containers"].get("main/0")
    assert one is None or state(one) == ended


@pytest.mark.parametrize("who", ["containerd", "ours"])
def test_a_run_tells_which_pods_failed_and_why(stories: dict[str, Story], who: str) -> None:
    """With an exit code that says that some did."""
    said = {line.split(" ")[2].strip(":").removeprefix("lab/"): line.split(": ", 2)[2] for line in stories[who].said}
    assert stories[who].code == 1
    assert same(said) == FAILURES


def test_the_list_is_the_same(stories: dict[str, Story]) -> None:
    """Words, numbers, restarts and addresses."""
    assert stories["ours"].listed == stories["containerd"].listed
    assert stories["ours"].listed["always-nonzero"] == ("Running", 1, 1, 1, 1)
    assert stories["ours"].listed["host-network"] == ("Running", 1, 1, 0, 0)


@pytest.mark.parametrize("who", ["containerd", "ours"])
@pytest.mark.parametrize("index", range(len(TYPED)), ids=[" ".join(argv[:2]) for argv, *_ in TYPED])
def test_commands_do_the_same(stories: dict[str, Story], who: str, index: int) -> None:
    """Logs, exec and attach, with their exit codes."""
    assert stories[who].typed[index] == TYPED[index][2:]


@pytest.mark.parametrize("who", ["containerd", "ours"])
def test_nothing_is_left(stories: dict[str, Story], who: str) -> None:
    """No cgroups, mounts, processes, addresses or files of pods."""
    assert stories[who].left == {}


# -- what the values are, apart from being the same


def control(story: Story, pod: str, container: str) -> dict[str, str]:
    """What the kernel allows a container."""
    found: dict[str, str] = story.up[pod]["containers"][f"{container}/0"]["process"]["cgroup"]
    return found


@pytest.mark.parametrize(
    ("pod", "container", "shares", "quota", "memory", "score"),
    [
        ("qos-guaranteed", "big", "512", "50000", 64 << 20, None),
        ("qos-guaranteed", "small", "2", "1000", 16 << 20, None),
        ("qos-burstable", "asks", "256", "-1", None, None),
        ("qos-burstable", "limited", "102", "150000", 48 << 20, None),
        ("qos-burstable", "nothing", "2", "-1", None, "999"),
        ("qos-best-effort", "main", "2", "-1", None, "1000"),
    ],
)
def test_resources_are_in_the_cgroup(
    stories: dict[str, Story], pod: str, container: str, shares: str, quota: str, memory: int | None, score: str | None
) -> None:
    """Shares, quota and memory as a kubelet computes them, and who is killed first when memory ends."""
    found = control(stories["ours"], pod, container)
    assert (found["cpu.shares"], found["cpu.cfs_quota_us"]) == (shares, quota)
    if memory is not None:
        assert found["memory.limit_in_bytes"] == str(memory)
    if score is not None:
        assert stories["ours"].up[pod]["containers"][f"{container}/0"]["process"]["oom_score_adj"] == score


@pytest.mark.parametrize(
    ("pod", "shares", "quota", "memory"),
    [
        ("qos-guaranteed", "513", "50100", str(80 << 20)),
        ("qos-burstable", "358", "-1", None),
        ("qos-best-effort", "2", "-1", None),
    ],
)
def test_the_pod_has_resources_as_a_whole(
    stories: dict[str, Story], pod: str, shares: str, quota: str, memory: str | None
) -> None:
    """The cgroup around its containers, as a kubelet makes it: a limit only where all of them have one."""
    found = stories["ours"].up[pod]["cgroup"]
    assert (found["cpu.shares"], found["cpu.cfs_quota_us"]) == (shares, quota)
    assert memory in (None, found["memory.limit_in_bytes"])


@pytest.mark.parametrize(
    ("pod", "shared"),
    [
        ("capabilities", {"net": "the pod's", "ipc": "the pod's", "uts": "the pod's", "pid": "its own"}),
        ("host-network", {"net": "the node's", "ipc": "its own", "uts": "the node's", "pid": "its own"}),
        ("host-pid", {"net": "its own", "ipc": "its own", "uts": "its own", "pid": "the node's"}),
        ("host-ipc", {"net": "its own", "ipc": "the node's", "uts": "its own", "pid": "its own"}),
        ("shared-processes", {"net": "the pod's", "ipc": "the pod's", "uts": "the pod's", "pid": "the pod's"}),
    ],
)
def test_namespaces_are_shared_as_wanted(stories: dict[str, Story], pod: str, shared: dict[str, str]) -> None:
    """By the containers of a pod, or with the node."""
    containers = stories["ours"].up[pod]["containers"].values()
    for one in containers:
        assert {kind: one["process"]["namespaces"][kind] for kind in shared} == shared
