"""Pods of somebody else on the same runtime."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interpose.cli.pod.foreign_pods import foreign_pods_warning, list_foreign_pods
from interpose.net.grpc.status import Code, RpcError
from interpose.node.pods.status.runtime_pod import RuntimePod
from tests.support.node.pod_commands import PodCommands, pod_commands


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[PodCommands]:
    with pod_commands(tmp_path) as made:
        yield made


class Manager:
    """Has a runtime with two pods, of which one has a folder here; or one that does not answer."""

    def __init__(self, *, answers: bool = True) -> None:
        self.dirs = self
        self._answers = answers

    def uids(self) -> list[str]:
        return ["u1"]

    async def get_pods(self) -> list[RuntimePod]:
        if not self._answers:
            raise RpcError(Code.UNAVAILABLE, "nobody there")
        return [RuntimePod(uid=f"u{n}", name=f"p{n}", namespace="kube-system") for n in (1, 2)]


async def test_pods_without_a_folder_of_ours_are_of_others() -> None:
    """A runtime that does not answer has none: that it is away is told elsewhere."""
    assert await list_foreign_pods(Manager()) == ["kube-system/p2"]
    assert await list_foreign_pods(Manager(answers=False)) == []


def test_a_few_are_named() -> None:
    """So that it is plain whose they are."""
    assert "1 pod of somebody else (a/b)." in foreign_pods_warning(["a/b"])
    assert "4 pods of somebody else (a, b, c, ...)." in foreign_pods_warning(["a", "b", "c", "d"])


def test_who_starts_pods_beside_them_is_warned(commands: PodCommands) -> None:
    """And only they: one's own pods are no reason."""
    assert "somebody else" not in commands("run", "-f", commands.manifest("a")).stderr
    assert "somebody else" not in commands("run", "-f", commands.manifest("b")).stderr
    result = commands("run", "-f", commands.manifest("c"), "--root", commands.folder / "another")
    assert result.exit_code == 0
    assert "warning: this runtime has 2 pods of somebody else (default/a, default/b)." in result.stderr
