"""Cgroup parents in both forms."""

import pytest

from interpose.cri.store.verbose_info import parent_of
from interpose.relay.docker.translate.hostconfig import cgroups_path, parent_to_cri, parent_to_docker


@pytest.mark.parametrize(
    ("docker", "cri"),
    [
        ("", ""),
        ("/kubepods/burstable/pod1", "/kubepods/burstable/pod1"),
        ("kubepods-burstable-pod1.slice", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice"),
        ("/custom/odd.slice", "/custom/odd.slice"),
        ("-.slice", "-.slice"),
    ],
)
def test_there_and_back(docker: str, cri: str) -> None:
    """One form is the other's inverse, and the runtime's view of a container in it says the same."""
    assert parent_to_cri(docker) == cri
    assert parent_to_docker(cri, docker) == docker
    assert parent_of(cgroups_path(docker, "c1")) == cri


@pytest.mark.parametrize(
    ("path", "before", "docker"),
    [
        ("/a.slice/a-b.slice", "x.slice", "a-b.slice"),
        ("/a.slice/a-b.slice/", "x.slice", "a-b.slice"),
        ("a-b.slice", "x.slice", "a-b.slice"),
        ("/a.slice/a-b.slice", "", "a-b.slice"),
        ("/a/b", "", "/a/b"),
        ("/a.slice/a-b.slice", "/kubepods/pod1", "/a.slice/a-b.slice"),
        ("", "x.slice", ""),
        ("", "/x", ""),
    ],
)
def test_a_changed_parent_is_written_in_the_form_there_was(path: str, before: str, docker: str) -> None:
    """dockerd's driver takes one of them only."""
    assert parent_to_docker(path, before) == docker
