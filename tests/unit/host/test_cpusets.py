"""What "every CPU that is allowed" is, from trees as kernels show them."""

from pathlib import Path

from interpose.host.cpusets import allowed_sets


def tree(root: Path, files: dict[str, str]) -> Path:
    """A tree of control files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_cgroup_v1_has_a_tree_of_its_own(tmp_path: Path) -> None:
    """The pod's group in the cpuset tree."""
    files = {"cpuset/kubepods/pod1/cpuset.cpus": "0-3\n", "cpuset/kubepods/pod1/cpuset.mems": "0-1\n"}
    assert allowed_sets("/kubepods/pod1", tree(tmp_path, files), tmp_path) == ("0-3", "0-1")


def test_cgroup_v2_shows_what_is_effective(tmp_path: Path) -> None:
    """An empty cpuset.cpus there means inherited; the effective file has the value."""
    files = {
        "kubepods.slice/cpuset.cpus": "\n",
        "kubepods.slice/cpuset.cpus.effective": "0-7\n",
        "kubepods.slice/cpuset.mems.effective": "0\n",
    }
    assert allowed_sets("/kubepods.slice", tree(tmp_path, files), tmp_path) == ("0-7", "0")


def test_group_that_does_not_exist_has_the_set_of_its_ancestor(tmp_path: Path) -> None:
    """A pod's cgroup may come later than the question."""
    files = {"cpuset/cpuset.cpus": "0-1\n", "cpuset/cpuset.mems": "0\n", "cpuset/kubepods/cpuset.cpus": "1\n"}
    assert allowed_sets("/kubepods/pod1", tree(tmp_path, files), tmp_path) == ("1", "0")


def test_without_cgroups_all_that_is_online(tmp_path: Path) -> None:
    """And one memory node if the kernel lists none."""
    files = {"cpu/online": "0-15\n"}
    assert allowed_sets("/kubepods", tmp_path / "none", tree(tmp_path, files)) == ("0-15", "0")


def test_parent_cannot_lead_out_of_the_tree(tmp_path: Path) -> None:
    """The name comes from a request."""
    files = {"secret/cpuset.cpus": "9", "cgroup/cpuset.cpus": "0", "cgroup/cpuset.mems": "0"}
    assert allowed_sets("/../secret", tree(tmp_path, files) / "cgroup", tmp_path) == ("0", "0")
