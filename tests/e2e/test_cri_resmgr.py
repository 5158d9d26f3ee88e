"""`cri-resmgr` as its documentation starts it, in front of a real containerd on CPUs 0 and 1.

The command lines are those of the old documentation; only the sockets are added, as this is not the only one here.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.cri import CriClient
from tests.support.lab.policy_pods import BURSTABLE, CriResmgr, PolicyPod
from tests.support.lab.processes import wait_for
from tests.support.lab.relay import program

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.lab.containerd import Containerd
    from tests.support.lab.qos_pods import Kubepods

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("two_cpus")]

OLD = ("The available policies are:", "  static: ", "  static-plus: ", "  static-pools: ")
NEW = ("Available policies:", "  * static: ", "  * static-plus: ", "  * static-pools: ")


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    """A command line that prints something and ends."""
    argv = [str(program("cri-resmgr")), *flags]
    return subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_LIMIT, check=False)


def lives(resmgr: CriResmgr, kubepods: Kubepods, *, web_has: str, db_has: str) -> None:
    """The life of two pods, with these CPUs while both run."""
    with CriClient(resmgr.socket) as client, PolicyPod(client, kubepods, "web", 100, BURSTABLE) as web:
        assert web.cpus == "0-1"
        with PolicyPod(client, kubepods, "db") as db:
            assert (web.cpus, db.cpus, db.born) == (web_has, db_has, db_has)
            assert db.exec("echo", "hello").stdout == b"hello\n"
        web.wait_cpus("0-1")


def test_the_message_dumper(containerd: Containerd, scratch: Path, kubepods: Kubepods) -> None:
    """No policy: nothing is changed. Every call is written to a file."""
    dump = scratch / "cri.dump"
    flags = ("-policy", "null", "-dump", "reset,full:.*", "-dump-file", str(dump))
    with CriResmgr(scratch, containerd.socket, *flags) as resmgr:
        assert resmgr.policy()["policy"] == "none"
        lives(resmgr, kubepods, web_has="0-1", db_has="0-1")
    lines = dump.read_text().splitlines()
    assert all(line[0] == "[" and line[25] == "]" for line in lines)
    for kind, name in (
        ("intercepted", "RunPodSandbox"),
        ("intercepted", "CreateContainer"),
        ("passthrough", "ExecSync"),
        ("intercepted", "RemovePodSandbox"),
    ):
        assert [line for line in lines if line[25:].startswith(f"] ({kind}) REQUEST {name}")]
        assert [line for line in lines if line[25:].startswith(f"] ({kind}) REPLY {name}")]


def test_the_policy_static(containerd: Containerd, scratch: Path, kubepods: Kubepods) -> None:
    """One CPU is reserved, the other one goes to a Guaranteed pod."""
    flags = ("--policy", "static", "--reserved-resources", "cpu=1000m")
    with CriResmgr(scratch, containerd.socket, *flags) as resmgr:
        lives(resmgr, kubepods, web_has="0", db_has="1")


def test_the_policy_static_plus(containerd: Containerd, scratch: Path, kubepods: Kubepods) -> None:
    """The reserved CPU is for the system alone, until nothing else is left."""
    flags = ("--policy", "static-plus", "--reserved-resources", "cpu=1000m")
    with (
        CriResmgr(scratch, containerd.socket, *flags) as resmgr,
        CriClient(resmgr.socket) as client,
        PolicyPod(client, kubepods, "web", 100, BURSTABLE) as web,
    ):
        assert (web.cpus, web.shares) == ("1", 102)
        with PolicyPod(client, kubepods, "db", 1000, BURSTABLE) as db:
            assert (web.cpus, db.cpus, db.born, db.shares) == ("0", "1", "1", 1024)
        web.wait_cpus("1")


def test_an_option_file(containerd: Containerd, scratch: Path, kubepods: Kubepods) -> None:
    """All options from a file, comments and indented ones among them."""
    resmgr = CriResmgr(scratch, containerd.socket)
    resmgr.use_option_file(
        "# the policy\npolicy = static\nreserved-resources = cpu=1000m\n\nlogger = fmt\n  debug = policy,static\n"
    )
    with resmgr:
        assert "--logger: has no effect" in resmgr.log.read_text()
        lives(resmgr, kubepods, web_has="0", db_has="1")


def test_forgetting_the_policy(containerd: Containerd, scratch: Path, kubepods: Kubepods) -> None:
    """Refused while the relay is there; afterwards everything is decided anew."""
    flags = ("--policy", "static", "--reserved-resources", "cpu=1000m")
    with (
        CriResmgr(scratch, containerd.socket, *flags) as resmgr,
        CriClient(resmgr.socket) as client,
        PolicyPod(client, kubepods, "web", 100, BURSTABLE) as web,
        PolicyPod(client, kubepods, "db") as db,
    ):
        wait_for(lambda: not resmgr.policy()["state_file"]["dirty"], what="the state to be written")
        refused = run(*resmgr.argv("--reset-policy")[1:])
        assert refused.returncode != 0
        assert str(resmgr.socket) in refused.stderr
        resmgr.child.stop()
        done = run(*resmgr.argv("--reset-policy")[1:])
        assert done.returncode == 0
        assert done.stdout.startswith("--reset-policy: the next start decides about all containers anew")
        resmgr.start()
        assert (web.cpus, db.cpus, resmgr.exclusive()) == ("0", "1", {"db": "1"})


@pytest.mark.parametrize(
    ("flag", "starts"), [("-list-policies", OLD), ("--list-policies", NEW), ("-h", ("Usage: cri-resmgr", "  --policy"))]
)
def test_what_is_printed(flag: str, starts: tuple[str, ...]) -> None:
    """Lists in the form of the release that the dashes belong to, and help."""
    done = run(flag)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert all(any(line.startswith(start) for line in lines) for start in starts)
