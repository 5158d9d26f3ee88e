"""What a fake node with a hook server is made of: documents, CPUs, and the look at all files."""

from pathlib import Path
from typing import Any

import pytest

from interpose.hooks.server.node.node_document import NodeDocument
from interpose.hooks.server.node.node_file import NodeFile
from interpose.hooks.server.pods.pod_annotations import NORMALIZATION_RATIO
from interpose.host.numa_cpus import read_cpus
from interpose.testing.kernel.cgroup import FakeKernel
from tests.support.hooks.node import all_files, node_document, node_settings, write_cpus, write_document


def read_back(folder: Path, **said: Any) -> NodeDocument:
    """As the hook server understands it."""
    write_document(folder / "nodeslo.json", node_document(**said))
    file = NodeFile(str(folder / "nodeslo.json"), lambda _: None)
    file.load()
    assert file.document is not None, file.problems
    return file.document


def test_documents_are_those_of_a_node(tmp_path: Path) -> None:
    """Classes, suppression and the speed of CPUs."""
    found = read_back(tmp_path, identity=True, cfs_quota=True, ratio=1.2)
    assert found.slo is not None
    assert (found.slo.be.enable, found.slo.suppress_enabled, found.slo.suppress_policy) == (True, True, "cfsQuota")
    assert found.annotations == {NORMALIZATION_RATIO: "1.20"}


def test_nothing_is_on_unless_it_is_said(tmp_path: Path) -> None:
    """And there is no speed."""
    found = read_back(tmp_path)
    assert found.slo is not None
    assert (found.slo.be.enable, found.slo.suppress_enabled, found.annotations) == (False, False, {})


def test_documents_are_replaced_in_one_step(tmp_path: Path) -> None:
    """Nothing else stays in the folder."""
    for _ in range(2):
        write_document(tmp_path / "nodeslo.json", {})
    assert [one.name for one in tmp_path.iterdir()] == ["nodeslo.json"]


def test_cpus_are_read_as_they_were_written(tmp_path: Path) -> None:
    """By NUMA node."""
    write_cpus(tmp_path, ["0-3", "4-7"])
    assert [(one.node, str(one.cpus)) for one in read_cpus(str(tmp_path))] == [(0, "0-3"), (1, "4-7")]


@pytest.mark.parametrize("version", [1, 2])
def test_all_files_of_a_kernel(version: int) -> None:
    """Of every cgroup, and the scores of processes in them."""
    kernel = FakeKernel(version)
    kernel.make("a/b")
    kernel.spawn("a/b", 7, oom_score_adj=5)
    before = all_files(kernel)
    kernel.write(kernel.path("a/b", "cpu.idle"), "1")
    kernel.write(f"{kernel.proc}/7/oom_score_adj", "6")
    after = all_files(kernel)
    names = {path.rpartition("/")[2] for path in before if before[path] != after[path]}
    assert names == {"cpu.idle", "oom_score_adj", "cpu.shares" if version == 1 else "cpu.weight"}


def test_settings_have_switches(tmp_path: Path) -> None:
    """Everything is in one folder."""
    settings = node_settings(tmp_path, cpuset=False)
    assert (settings.plugins.cpuset, settings.plugins.batch_resource) == (False, True)
    assert settings.state_dir == str(tmp_path / "state")
