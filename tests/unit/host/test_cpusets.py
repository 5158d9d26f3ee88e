"""What "every CPU that is allowed" is, from trees as kernels show them."""

from pathlib import Path

import pytest

from interpose.config.documents.amounts import CpuAmount
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.constraints import ExcludedCpus
from interpose.errors import ConfigError
from interpose.host.cpusets import read_allowed_sets, resolve


def tree(root: Path, files: dict[str, str]) -> Path:
    """A tree of control files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_cgroup_v1_has_a_tree_of_its_own(tmp_path: Path) -> None:
    """The pod's group in the cpuset tree."""
    files = {"cpuset/kubepods/pod1/cpuset.cpus": "0-3\n", "cpuset/kubepods/pod1/cpuset.mems": "0-1\n"}
    assert read_allowed_sets("/kubepods/pod1", tree(tmp_path, files), tmp_path) == ("0-3", "0-1")


def test_cgroup_v2_shows_what_is_effective(tmp_path: Path) -> None:
    """An empty cpuset.cpus there means inherited; the effective file has the value."""
    files = {
        "kubepods.slice/cpuset.cpus": "\n",
        "kubepods.slice/cpuset.cpus.effective": "0-7\n",
        "kubepods.slice/cpuset.mems.effective": "0\n",
    }
    assert read_allowed_sets("/kubepods.slice", tree(tmp_path, files), tmp_path) == ("0-7", "0")


def test_group_that_does_not_exist_has_the_set_of_its_ancestor(tmp_path: Path) -> None:
    """A pod's cgroup may come later than the question."""
    files = {"cpuset/cpuset.cpus": "0-1\n", "cpuset/cpuset.mems": "0\n", "cpuset/kubepods/cpuset.cpus": "1\n"}
    assert read_allowed_sets("/kubepods/pod1", tree(tmp_path, files), tmp_path) == ("1", "0")


def test_without_cgroups_all_that_is_online(tmp_path: Path) -> None:
    """And one memory node if the kernel lists none."""
    files = {"cpu/online": "0-15\n"}
    assert read_allowed_sets("/kubepods", tmp_path / "none", tree(tmp_path, files)) == ("0-15", "0")


def test_parent_cannot_lead_out_of_the_tree(tmp_path: Path) -> None:
    """The name comes from a request."""
    files = {"secret/cpuset.cpus": "9", "cgroup/cpuset.cpus": "0", "cgroup/cpuset.mems": "0"}
    assert read_allowed_sets("/../secret", tree(tmp_path, files) / "cgroup", tmp_path) == ("0", "0")


def test_amounts_that_need_no_cgroup_are_what_they_are(tmp_path: Path) -> None:
    """Nothing is read for them."""
    assert resolve(CpuAmount(cpus=CpuSet.of([1])), root=tmp_path) == CpuSet.of([1])
    assert resolve(CpuAmount(excluded=CpuSet.of([1])), root=tmp_path) == ExcludedCpus(CpuSet.of([1]))
    assert resolve(CpuAmount(milli=1500), root=tmp_path) == 1500
    assert resolve(CpuAmount(milli=0), root=tmp_path) == 0


@pytest.mark.parametrize("name", ["system", "/system", "{path}"])
@pytest.mark.parametrize("file", ["cpuset.cpus", "cpuset.cpus.effective", "cpuset.effective_cpus"])
@pytest.mark.parametrize("place", ["system", "cpuset/system"])
def test_a_cgroup_is_found_by_its_path_or_below_the_tree(tmp_path: Path, name: str, file: str, place: str) -> None:
    """Absolute, relative, of either version; the newline of the file is not a part of the list."""
    tree(tmp_path, {f"sys/fs/cgroup/{place}/{file}": "0-1,4\n"})
    wanted = f"/sys/fs/cgroup/{place}" if name.startswith("{") else name
    assert resolve(CpuAmount(cgroup=wanted), root=tmp_path) == CpuSet.parse("0-1,4")


def test_a_path_is_one_of_the_host(tmp_path: Path) -> None:
    """Where its file system is somewhere else, nothing of our own is read."""
    ours = tree(tmp_path, {"group/cpuset.cpus": "9"}) / "group"
    with pytest.raises(ConfigError, match="has no CPUs"):
        resolve(CpuAmount(cgroup=str(ours)), root=tmp_path / "host")
    tree(tmp_path / "host", {f"{ours}/cpuset.cpus".lstrip("/"): "0-1"})
    assert resolve(CpuAmount(cgroup=str(ours)), root=tmp_path / "host") == CpuSet.parse("0-1")


def test_a_cgroup_without_cpus_is_refused_with_all_places(tmp_path: Path) -> None:
    """Whoever misspelt it sees where it was looked for."""
    tree(tmp_path, {"sys/fs/cgroup/empty/cpuset.cpus": "\n"})
    for name in ("empty", "missing"):
        with pytest.raises(ConfigError) as caught:
            resolve(CpuAmount(cgroup=name), "flag --reserved-resources", root=tmp_path)
        assert caught.value.problems[0].startswith(f"flag --reserved-resources: cgroup {name} has no CPUs, looked for")
        root = f"{tmp_path}/sys/fs/cgroup"
        assert f"{root}/{name}, {root}/cpuset/{name}" in caught.value.problems[0]


def test_a_file_that_is_no_list_is_refused(tmp_path: Path) -> None:
    """A path may lead anywhere."""
    tree(tmp_path, {"sys/fs/cgroup/x/cpuset.cpus": "hello\n"})
    with pytest.raises(ConfigError, match=r"cpu: cgroup x: 'hello' is not a list of CPUs"):
        resolve(CpuAmount(cgroup="x"), root=tmp_path)
