"""Containers as dockershim asks for them, and what is left of them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from bench.docker_pods import create_body, life_samples, remove_cgroups
from bench.docker_workloads import FAKE_DOCKER, LIFE, life_workloads
from tests.support.docker.fake.server import FakeDocker
from tests.support.lab.images import TEST_IMAGE

if TYPE_CHECKING:
    from pathlib import Path


def test_a_sandbox_and_its_container_are_told_apart_by_their_labels() -> None:
    """As dockershim labels them; the container names its sandbox."""
    sandbox = json.loads(create_body("image", "podsandbox", "web", "u1"))
    container = json.loads(create_body("image", "container", "web", "u1", sandbox="abc"))
    assert sandbox["Labels"]["io.kubernetes.docker.type"] == "podsandbox"
    assert sandbox["Labels"]["io.kubernetes.container.name"] == "POD"
    assert "io.kubernetes.sandbox.id" not in sandbox["Labels"]
    assert container["Labels"]["io.kubernetes.docker.type"] == "container"
    assert container["Labels"]["io.kubernetes.sandbox.id"] == "abc"
    assert sandbox["HostConfig"]["CgroupParent"] == container["HostConfig"]["CgroupParent"]


def test_only_groups_of_the_benchmark_are_removed(tmp_path: Path) -> None:
    """In every tree, however deep; what belongs to others stays."""
    for tree in ("cpu", "memory"):
        (tmp_path / tree / "interpose-bench" / "burstable" / "podx").mkdir(parents=True)
        (tmp_path / tree / "docker").mkdir()
    (tmp_path / "unified").mkdir()
    remove_cgroups(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["cpu", "docker", "docker", "memory", "unified"]


async def test_every_call_of_a_life_is_timed_and_no_container_stays(tmp_path: Path) -> None:
    """Everybody gets the same number of containers, and one more to warm up."""
    loads = life_workloads(FAKE_DOCKER, 0.01)
    async with FakeDocker(tmp_path / "a") as one, FakeDocker(tmp_path / "b") as two:
        sockets = {"one": (tmp_path / "a", None), "two": (tmp_path / "b", None)}
        samples = await asyncio.to_thread(life_samples, loads, sockets, TEST_IMAGE, 3)
        starts = [len(docker.calls("start")) for docker in (one, two)]
        left = [docker.containers for docker in (one, two)]

    assert {(sample.contestant, sample.workload) for sample in samples} == {
        (who, f"{call}@{FAKE_DOCKER}") for who in ("one", "two") for call in LIFE
    }
    assert all(sample.round == 3 and sample.p50 > 0 and sample.cpu is None for sample in samples)
    assert starts == [loads[0].calls + 1] * 2
    assert not any(left)
