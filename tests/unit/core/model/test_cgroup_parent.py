"""Where systemd puts slices."""

import pytest

from interpose.core.model.cgroup import slice_path


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("kubepods.slice", "/kubepods.slice"),
        ("kubepods-pod1.slice", "/kubepods.slice/kubepods-pod1.slice"),
        ("a-b-c.slice", "/a.slice/a-b.slice/a-b-c.slice"),
        ("a.scope", "a.scope"),
        ("", ""),
        (".slice", ".slice"),
        ("-.slice", "-.slice"),
    ],
)
def test_each_dash_is_a_level(name: str, path: str) -> None:
    """And what is not a name of a slice stays as it is."""
    assert slice_path(name) == path
