"""The demo shows what is there: files are read where programs write them."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from examples.demo.node import Node, Seen, processes_of
from examples.demo.parts import PODS
from examples.demo.places import Places, write_cgroups
from examples.demo.report import ASKED, Spot, without_guest
from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter
from interpose.core.model.kubernetes_names import POD_NAME, POD_UID
from interpose.cri.client import RuntimeClient
from interpose.cri.messages import cri
from interpose.node.runtime.cgroups.cgroups import detect
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.pods import container_config, create_request, pod_config, run_request

WEB, REPORTS, ORDERS = PODS


def node(folder: Path, runtime: FakeRuntime | None = None) -> Node:
    """One in a folder, with a runtime."""
    return Node(Places(folder), RuntimeClient(runtime or FakeRuntime()))


@pytest.fixture
def pods(tmp_path: Path) -> list[Seen]:
    """Cgroups of the residents as a runtime makes them."""
    places = Places(tmp_path)
    write_cgroups(places.cgroups)
    cgroups = detect(str(places.cgroups))
    found = [Seen(WEB, "u1", "c1"), Seen(REPORTS, "u2", "c2")]
    for one in found:
        directory = one.directory(Level.CONTAINER)
        cgroups.make(directory)
        files = {
            "cpu/cpu.shares": one.pod.asked.cpu_shares,
            "cpu/cpu.cfs_quota_us": one.pod.asked.cpu_quota or -1,
            "memory/memory.limit_in_bytes": one.pod.asked.memory_limit_in_bytes or 9223372036854771712,
        }
        for name, value in files.items():
            controller, _, file = name.partition("/")
            (places.cgroups / controller / directory / file).write_text(f"{value}\n")
    return found


def told(folder: Path, one: Seen, resources: dict[str, Any]) -> None:
    """The bundle of a container."""
    bundle = folder / "run/containers" / one.container
    bundle.mkdir(parents=True)
    (bundle / "config.json").write_text(json.dumps({"linux": {"resources": resources}}))


def test_without_others_pods_have_what_was_asked_for(tmp_path: Path, pods: Sequence[Seen]) -> None:
    """The first column of the table, and nothing anywhere that is not as on an untouched node."""
    here = node(tmp_path)

    assert here.measured(pods) == without_guest(ASKED)
    assert here.everything() == here.untouched(pods)


def test_a_file_that_is_being_written_has_no_value_yet(tmp_path: Path, pods: Sequence[Seen]) -> None:
    """It is empty for a moment."""
    path = Places(tmp_path).cgroups / "cpu" / pods[0].directory(Level.POD) / "cpu.bvt_warp_ns"
    path.write_text("")

    missing = without_guest(ASKED).keys() - node(tmp_path).measured(pods).keys()
    assert missing == {Spot("web", Level.POD, Parameter.CPU_BVT)}


def test_what_was_left_is_different(tmp_path: Path, pods: Sequence[Seen]) -> None:
    """Also in places the table does not speak of."""
    (Places(tmp_path).cgroups / "cpu/kubepods/besteffort/cpu.bvt_warp_ns").write_text("-1\n")
    here = node(tmp_path)

    found, untouched = here.everything(), here.untouched(pods)
    assert {key for key in found if found[key] != untouched[key]} == {("kubepods/besteffort", Parameter.CPU_BVT)}


def test_a_bundle_says_what_the_runtime_was_told(tmp_path: Path) -> None:
    """All CPUs are no restriction, and what is not there is no limit."""
    one = Seen(REPORTS, "u", "c")
    told(tmp_path, one, {"cpu": {"shares": 1536, "quota": -1, "cpus": "0-15"}})

    assert {spot.parameter: value for spot, value in node(tmp_path).told(one).items()} == {
        Parameter.CPU_SHARES: 1536,
        Parameter.CPU_QUOTA: UNLIMITED,
        Parameter.CPUSET_CPUS: CLEAR,
        Parameter.MEMORY_LIMIT: UNLIMITED,
    }


def test_when_a_value_was_written_is_known(tmp_path: Path, pods: Sequence[Seen]) -> None:
    """From its file."""
    path = Places(tmp_path).cgroups / "cpuset" / pods[0].directory(Level.CONTAINER) / "cpuset.cpus"
    os.utime(path, ns=(7, 7))

    assert node(tmp_path).changed_at(pods[0], Parameter.CPUSET_CPUS) == 7


async def test_pods_are_seen_when_their_container_runs(tmp_path: Path) -> None:
    """Those of the demo; how others ended is known too."""
    runtime = FakeRuntime()
    here = node(tmp_path, runtime)
    for name in ("orders", "web", "mailer"):
        config = pod_config(name, "shop", uid=f"uid-{name}")
        sandbox = (await runtime.call("RunPodSandbox", run_request(config))).pod_sandbox_id
        container = container_config(config, "main")
        container.labels.update({POD_NAME: name, POD_UID: f"uid-{name}"})
        image = container.image.image
        runtime.images.pull(image, cri.AuthConfig())
        created = (await runtime.call("CreateContainer", create_request(sandbox, config, container))).container_id
        await RuntimeClient(runtime).start_container(created)
        if name == "mailer":
            runtime.exit_container(created, 3)

    assert [(one.pod.name, one.uid) for one in (await here.seen()).values()] == [
        ("web", "uid-web"),
        ("orders", "uid-orders"),
    ]
    assert sorted(await here.pods()) == ["mailer", "orders", "web"]
    assert await here.exit_codes("mailer") == [3]


def test_what_is_left_of_pods_is_found(tmp_path: Path, pods: Sequence[Seen]) -> None:
    """Cgroups with all that is in them, and folders of the runtime."""
    (tmp_path / "run/sandboxes/s").mkdir(parents=True)

    left = node(tmp_path).leftovers()

    cgroups = [Path(path) for path in left if path.startswith(str(Places(tmp_path).cgroups))]
    assert [path for path in left if Path(path) not in cgroups] == [str(tmp_path / "run/sandboxes/s")]
    assert sorted(path.parent.name for path in cgroups if path.name == "kubepods") == ["cpu", "cpuset", "memory"]
    containers = {Places(tmp_path).cgroups / "cpu" / pod.directory(Level.CONTAINER) for pod in pods}
    assert containers <= set(cgroups)


def test_processes_are_found_by_the_folder(tmp_path: Path) -> None:
    """None is here."""
    assert processes_of(tmp_path) == []
    assert any(str(os.getpid()) in one for one in processes_of(Path("pytest")))
