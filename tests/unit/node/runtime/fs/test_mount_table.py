"""The table of mounts."""

from interpose.node.runtime.fs.mount_table import MountPoint, below, of_path, parse

TEXT = """22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
25 22 0:5 / /proc rw - proc proc rw
30 22 0:6 /a\\040b /mnt/with\\040blank rw master:3 unbindable - tmpfs my\\011source rw
31 22 0:7 / /mnt/deep/er rw unbindable - tmpfs none rw
32 22 0:8 / /mnt/deep rw - tmpfs none rw
nonsense
33 22 0:9 / /short rw -
34 22 0:9 / /shorter rw - tmpfs
"""
MOUNTS = parse(TEXT)


def test_lines_become_mounts() -> None:
    """With escapes undone; odd lines are passed over."""
    assert [one.path for one in MOUNTS] == ["/", "/proc", "/mnt/with blank", "/mnt/deep/er", "/mnt/deep"]
    assert MOUNTS[2] == MountPoint(
        path="/mnt/with blank", kind="tmpfs", source="my\tsource", root="/a b", propagation="slave", options="rw"
    )


def test_how_mounts_take_part() -> None:
    """Shared, private, slave before unbindable."""
    assert [one.propagation for one in MOUNTS] == ["shared", "private", "slave", "unbindable", "private"]


def test_what_is_below_a_folder_comes_latest_first() -> None:
    """Names that only begin alike are others."""
    assert below(MOUNTS, "/mnt/deep") == ["/mnt/deep", "/mnt/deep/er"]
    assert below(MOUNTS, "/mnt/dee") == []
    assert len(below(MOUNTS, "/")) == 5


def test_the_mount_a_path_is_on() -> None:
    """The deepest, and of two at one place the later."""
    again = MountPoint(path="/mnt/deep", kind="again", source="x")
    assert of_path((*MOUNTS, again), "/mnt/deep/file") is again
    found = of_path(MOUNTS, "/etc")
    assert found is not None
    assert found.path == "/"
    assert of_path((), "/etc") is None
