"""Containers as dockershim asks for them, and what is left of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from bench.docker_pods import create_body, remove_cgroups

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
