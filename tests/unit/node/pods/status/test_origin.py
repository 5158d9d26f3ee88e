"""What is noted about a pod in its folder."""

from dataclasses import replace
from pathlib import Path

import pytest

from interpose.node.pods.spec import RestartPolicy
from interpose.node.pods.status.origin import pods_of, read_origin, write_origin
from interpose.node.pods.volumes.pod_folders import PodFolders
from tests.support.node.managed_node import container, pod


def test_what_is_noted_is_read_back(tmp_path: Path) -> None:
    """The folder is made if need be."""
    folder = str(tmp_path / "pods" / "1234")
    noted = write_origin(folder, pod(source="/a.yaml"), 5)
    assert read_origin(folder) == noted
    assert (noted.source, noted.began, noted.containers, noted.restart_policy) == ("/a.yaml", 5, ("main",), "Always")
    assert (noted.namespace, noted.name) == ("default", "web")


def test_when_a_pod_began_is_noted_once(tmp_path: Path) -> None:
    """Its file may be moved."""
    write_origin(str(tmp_path), pod(source="/a.yaml"), 5)
    later = write_origin(str(tmp_path), pod(source="/b.yaml"), 9)
    assert later == replace(later, source="/b.yaml", began=5)
    assert write_origin(str(tmp_path), pod(source="/b.yaml"), 9) == later


def test_what_an_older_release_noted_is_understood(tmp_path: Path) -> None:
    """Sidecars and the name were not noted then; they are now, sidecars in their order."""
    (tmp_path / "origin").write_text('{"source": "/a", "began": 1, "containers": ["main"], "restartPolicy": "Never"}')
    found = read_origin(str(tmp_path))
    assert found is not None
    assert (found.sidecars, found.namespace, found.name) == ((), "", "")
    sidecars = tuple(container(name, restart_policy=RestartPolicy.ALWAYS) for name in ("b", "a"))
    noted = write_origin(str(tmp_path), pod(init_containers=(container("init"), *sidecars)), 5)
    assert (noted.sidecars, noted.began) == (("b", "a"), 1)
    assert read_origin(str(tmp_path)) == noted
    assert (noted.namespace, noted.name) == ("default", "web")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"source": "a", "began": "x"}'])
def test_what_cannot_be_understood_is_nothing(tmp_path: Path, text: str) -> None:
    """Nobody is kept from anything by it."""
    (tmp_path / "origin").write_text(text)
    assert read_origin(str(tmp_path)) is None


def test_all_folders_are_pods_of_ours(tmp_path: Path) -> None:
    """Whichever runtime they are on, unless one is named."""
    folders = PodFolders(str(tmp_path))
    for number, runtime in enumerate(("", "/run/that.sock")):
        one = pod(name=f"p{number}", uid=f"u{number}", labels={"app": "web"})
        write_origin(folders.folder(one.uid), one, 5, runtime)
    found = pods_of(folders, folders.uids())
    assert [(one.title, one.labels) for one in found] == [(f"default/p{n}", {"app": "web"}) for n in (0, 1)]
    assert [one.title for one in pods_of(folders, folders.uids(), "/run/this.sock")] == ["default/p0"]
