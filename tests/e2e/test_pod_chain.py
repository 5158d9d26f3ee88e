"""The whole chain on one machine without Kubernetes: `interpose pod`, the relay with a hook server and a policy, a
runtime: our own, in a process of its own or in the relay's, or a containerd of each version that is there. Values are
those of the kernel.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from interpose.hooks.api.hookpoint import HookPoint
from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.hookserver import response_to
from tests.support.lab.containerd import Containerd
from tests.support.lab.dumps import calls, methods
from tests.support.lab.embedded import EmbeddedRelay
from tests.support.lab.hook_plugin import HookPlugin
from tests.support.lab.images import build_archives, default_images
from tests.support.lab.installations import INSTALLATIONS, candidates, oci_missing, oci_program
from tests.support.lab.pod.run import PodCommand, pod_image
from tests.support.lab.pods import CGROUPS, remove_groups
from tests.support.lab.policy_pods import PolicyRelay
from tests.support.lab.processes import wait_for
from tests.support.lab.relay import program
from tests.support.lab.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

DATA: Final = Path(__file__).parents[1] / "data"
POLICY: Final = ("--policy", "static", "--reserved-resources", "cpu=1")


def mark(request: Any) -> Any:
    """What the hook server wants of each container."""
    answer = response_to(request)
    answer.container_envs["MARK"] = "made by a hook"
    answer.container_resources.cpu_shares = 300
    return answer


@dataclass(frozen=True, kw_only=True)
class Chain:
    """All parts, with both pods up."""

    pods: PodCommand
    relay: PolicyRelay
    plugin: HookPlugin
    recording: Path
    said: str

    def group(self, pod: str) -> str:
        """The cgroup of the pod's one container, below each hierarchy."""
        (one,) = self.pods.document("status", pod)["containers"]
        (path,) = (CGROUPS / "cpu" / self.pods.cgroup.strip("/")).rglob(one["id"])
        return str(path.relative_to(CGROUPS / "cpu"))

    def show(self, *words: str) -> str:
        """A view for people."""
        argv = [str(program()), *words, "--admin", str(self.relay.admin)]
        return subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_LIMIT, check=True).stdout


def control(group: str, name: str) -> str:
    """A control file of a container."""
    return (CGROUPS / name.partition(".")[0] / group / name).read_text().strip()


OURS: Final = ("processes", "crun", "embedded")


@pytest.fixture(scope="module", params=candidates(OURS))
def chain(request: pytest.FixtureRequest, two_cpus: None) -> Iterator[Chain]:
    """`interpose pod run` through the relay; every part is started as somebody would."""
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    recording = folder / "all.crirec"
    options = (*POLICY, "--record", str(recording))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        begin = _ours if request.param in OURS else _containerd
        relay = begin(stack, folder, request.param, options)
        plugin = stack.enter_context(HookPlugin(folder / "plugin.sock"))
        plugin.answers[HookPoint.PRE_CREATE_CONTAINER] = mark
        stack.enter_context(relay.registered("marker", plugin.socket))
        pods = PodCommand(folder=folder, socket=relay.socket, cgroup=f"/{folder.name}")
        stack.callback(remove_groups, pods.cgroup)
        stack.callback(pods.run, "rm", "--all", "--grace", "0", code=None)
        said = pods.run("run", "-f", DATA / "chain.yaml").stderr
        yield Chain(pods=pods, relay=relay, plugin=plugin, recording=recording, said=said)


def _ours(stack: ExitStack, folder: Path, how: str, options: tuple[str, ...]) -> PolicyRelay:
    """Our runtime with the image, and the relay that it is behind or in."""
    if reason := Runtime.missing() or (oci_missing() if how == "crun" else None):
        pytest.skip(f"no runtime: {reason}")
    runtime = Runtime(folder / "r", executor=oci_program("crun") if how == "crun" else "runc")
    runtime.folder.mkdir()
    if how == "embedded":
        stack.callback(runtime.__exit__)
        relay: PolicyRelay = EmbeddedRelay(folder / "relay", runtime, *options)
    else:
        stack.enter_context(runtime)
        relay = PolicyRelay(folder / "relay", runtime.socket, *options)
    runtime.import_archives([pod_image(folder)])
    return stack.enter_context(relay)


def _containerd(stack: ExitStack, folder: Path, name: str, options: tuple[str, ...]) -> PolicyRelay:
    """This containerd with the images, and the relay in front of it."""
    if reason := INSTALLATIONS[name].missing():
        pytest.skip(f"no {name}: {reason}")
    daemon = stack.enter_context(Containerd(folder / "c", INSTALLATIONS[name]))
    daemon.import_archives([*build_archives(folder, default_images()[:1]), pod_image(folder)])
    return stack.enter_context(PolicyRelay(folder / "relay", daemon.socket, *options))


def test_pods_come_up_through_the_chain(chain: Chain) -> None:
    """And are shown as what they are."""
    assert "2 pods up" in chain.said
    rows = {row["name"]: (row["status"], row["running"]) for row in chain.pods.document("ls")}
    assert rows == {"web": ("Running", 1), "db": ("Running", 1)}


@pytest.mark.parametrize("pod", ["web", "db"])
def test_what_the_hook_server_changed_is_in_the_container(chain: Chain, pod: str) -> None:
    """A variable from the first line on, and CPU shares."""
    assert chain.pods.run("logs", pod).stdout.splitlines()[0] == "mark made by a hook"
    assert chain.pods.run("exec", pod, "--", "sh", "-c", "echo $MARK").stdout == "made by a hook\n"
    assert control(chain.group(pod), "cpu.shares") == "300"
    asked = [call.request for call in chain.plugin.calls if call.point is HookPoint.PRE_CREATE_CONTAINER]
    assert pod in [one.pod_meta.name for one in asked]


def test_the_policy_gave_each_its_cpus(chain: Chain) -> None:
    """The Guaranteed pod has CPU 1 alone, the other has what is left."""
    web, db = chain.group("web"), chain.group("db")
    wait_for(lambda: control(web, "cpuset.cpus") == "0", what="web to leave CPU 1")
    assert control(db, "cpuset.cpus") == "1"
    assert chain.pods.run("logs", "db").stdout.splitlines()[1].split() == ["Cpus_allowed_list:", "1"]
    assert control(db, "memory.limit_in_bytes") == str(64 << 20)


def test_views_explain_it(chain: Chain) -> None:
    """Who has what, why, and that all is well."""
    why = chain.show("explain", "lab/db/main")
    assert "Guaranteed, CPU 1 (limit 1)" in why
    assert "CPU 1 of its own" in why
    assert chain.relay.exclusive() == {"db": "1"}
    status = chain.show("status")
    assert "policy: static" in status
    assert "2, 1 with CPUs of their own" in status


def test_the_recording_has_the_calls(chain: Chain) -> None:
    """Those of `interpose pod`, and what the hook server and the policy made of them."""
    found = calls(chain.recording)
    assert {"RunPodSandbox", "CreateContainer", "StartContainer", "ContainerStatus"} <= set(methods(found))
    assert methods(found).count("RunPodSandbox") == 2
    created = {one["subject"]: one for one in found if one["method"] == "CreateContainer"}
    assert sorted(created) == ["lab/db:main", "lab/web:main"]
    for one in created.values():
        assert one["status"] == "OK"
        assert {"marker", "policy"} <= set(one["changed_by"])


def test_a_pod_that_goes_gives_its_cpus_back(chain: Chain) -> None:
    """The last test: the pod is removed, and comes back as it was."""
    web = chain.group("web")
    chain.pods.run("rm", "db")
    wait_for(lambda: control(web, "cpuset.cpus") == "0-1", what="web to have both CPUs")
    chain.pods.run("run", "-f", DATA / "chain.yaml")
    assert chain.relay.exclusive() == {"db": "1"}
    chain.pods.run("rm", "--all")
    assert chain.pods.document("ls") == []
