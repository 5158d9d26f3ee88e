"""What rules are made of, gathered from sources that may fail."""

import logging
from collections.abc import Sequence

import pytest

from interpose.core.model.cgroup import KubeQos, Parameter
from interpose.core.model.cpuset import CpuSet, KubeletCpus, NumaCpus
from interpose.core.model.pod import Pod
from interpose.hooks.server.node.cpu_share_pools import RESERVATION, SYSTEM_QOS
from interpose.hooks.server.node.node_document import NodeDocument
from interpose.hooks.server.node.node_inputs import NodeInputCollector
from interpose.hooks.server.node.nodeslo import NodeSLO
from interpose.hooks.server.plugin import Kernel
from interpose.hooks.server.pods.pod_annotations import RESOURCE_STATUS
from interpose.host.cgroup.paths import CgroupLayout, Driver
from interpose.testing.fakenode import FakeNode
from interpose.testing.kernel.cgroup import FakeKernel

KERNEL = Kernel(parameters=frozenset((Parameter.CPU_IDLE,)), sched_core=1)


class Sources:
    """What a node can be asked; a text instead of an answer is what fails."""

    def __init__(self, kernel: FakeKernel | None = None) -> None:
        self.node = FakeNode(kernel)
        self.document = NodeDocument(slo=NodeSLO(suppress_enabled=True), labels={"a": "b"}, annotations={"c": "d"})
        self.cpus: Sequence[NumaCpus] | Exception = (
            NumaCpus(socket=0, node=0, cpus=CpuSet.parse("0-3")),
            NumaCpus(socket=0, node=1, cpus=CpuSet.parse("4-7")),
        )
        self.kubelet: KubeletCpus | Exception = KubeletCpus(policy="none")
        self.probed: list[CgroupLayout | None] = []

    def gatherer(self, layout: CgroupLayout | None = None, kubepods: str = "kubepods") -> NodeInputCollector:
        """Asks them."""
        return NodeInputCollector(
            tree=self.node.tree,
            kubepods=kubepods,
            layout=layout,
            document=lambda: self.document,
            probe=self._probe,
            cpus=self._cpus,
            kubelet=self._kubelet,
        )

    def _probe(self, layout: CgroupLayout | None) -> Kernel:
        self.probed.append(layout)
        return KERNEL

    def _cpus(self) -> Sequence[NumaCpus]:
        if isinstance(self.cpus, Exception):
            raise self.cpus
        return self.cpus

    def _kubelet(self) -> KubeletCpus:
        if isinstance(self.kubelet, Exception):
            raise self.kubelet
        return self.kubelet


def pools(inputs: Sequence[object]) -> list[str]:
    """CPUs of pools."""
    return [one.cpus for one in inputs]  # type: ignore[attr-defined]


def test_every_source_is_in_it() -> None:
    """As it is now."""
    found = Sources().gatherer().collect(())
    assert found.inputs.slo == NodeSLO(suppress_enabled=True)
    assert (found.inputs.labels, found.inputs.annotations) == ({"a": "b"}, {"c": "d"})
    assert found.inputs.kernel is KERNEL
    assert pools(found.inputs.pools.ls) == ["0-3", "4-7"]
    assert found.inputs.pools.cpu_manager_policy == "none"


def test_another_document_is_seen_the_next_time() -> None:
    """Nothing is kept."""
    sources = Sources()
    gatherer = sources.gatherer()
    gatherer.collect(())
    sources.document = NodeDocument()
    assert gatherer.collect(()).inputs.slo is None


def test_cpus_of_pods_are_not_in_the_pools() -> None:
    """Those that have them alone."""
    pod = Pod(
        id="s", uid="u", annotations={RESOURCE_STATUS: '{"cpuset":"2-3"}'}, labels={"koordinator.sh/qosClass": "LSR"}
    )
    assert pools(Sources().gatherer().collect((pod,)).inputs.pools.ls) == ["0-1", "4-7"]


@pytest.mark.parametrize("systemd", [False, True])
def test_the_kubelets_names_are_looked_for(systemd: bool) -> None:
    """By what is there; the kernel is asked where pods live."""
    sources = Sources()
    sources.node = FakeNode(FakeKernel(), systemd=systemd)
    found = sources.gatherer().collect(())
    assert found.layout == CgroupLayout(driver=Driver.SYSTEMD if systemd else Driver.CGROUPFS)
    assert sources.probed == [found.layout]


def test_a_node_without_the_kubelets_cgroups_has_no_layout() -> None:
    """They are looked for again each time."""
    kernel = FakeKernel()
    sources = Sources(kernel)
    gatherer = sources.gatherer(kubepods="pods")
    assert gatherer.collect(()).layout is None
    made = CgroupLayout(driver=Driver.CGROUPFS, root="pods")
    kernel.make(made.qos_directory(KubeQos.GUARANTEED))
    assert gatherer.collect(()).layout == made


def test_a_layout_that_was_chosen_is_not_looked_for() -> None:
    """Whatever is there."""
    chosen = CgroupLayout(driver=Driver.SYSTEMD, root="mine")
    assert Sources().gatherer(chosen).collect(()).layout is chosen


UNREADABLE = [PermissionError(13, "Permission denied"), ValueError("cpu_manager_state: no JSON")]
STATIC = KubeletCpus(policy="static", assigned={"u": {"main": CpuSet.parse("2-3")}})


@pytest.mark.parametrize("error", UNREADABLE)
def test_pools_are_doubtful_if_the_kubelets_state_could_never_be_read(error: Exception) -> None:
    """Nobody knows what it gave away. The rest is there, and the problem is told."""
    sources = Sources()
    sources.kubelet = error
    gatherer = sources.gatherer()
    found = gatherer.collect(())
    assert found.inputs.pools.cpu_manager_policy == ""
    assert found.inputs.pools.problem == str(error)
    assert found.inputs.slo is not None
    assert gatherer.problems == (str(error),)


@pytest.mark.parametrize("error", UNREADABLE)
def test_of_a_damaged_state_of_the_kubelet_the_last_good_one_is_used(error: Exception) -> None:
    """So that the CPUs it gave away stay theirs while pods come and go; the problem is told."""
    sources = Sources()
    gatherer = sources.gatherer()
    sources.kubelet = STATIC
    good = gatherer.collect(()).inputs.pools
    assert pools(good.ls) == ["0-1", "4-7"]
    sources.kubelet = error
    assert gatherer.collect(()).inputs.pools == good
    assert gatherer.problems == (str(error),)
    bound = Pod(id="s", uid="b", annotations={RESOURCE_STATUS: '{"cpuset":"4-5"}'})
    assert pools(gatherer.collect((bound,)).inputs.pools.ls) == ["0-1", "6-7"]
    sources.kubelet = KubeletCpus(policy="none")
    assert pools(gatherer.collect(()).inputs.pools.ls) == ["0-3", "4-7"]
    assert list(gatherer.problems) == []


def test_annotations_of_the_topology_are_seen_by_everybody() -> None:
    """By plugins and by whoever computes the pools, as one; the node's own beat the copies, which may be old."""
    sources = Sources()
    sources.document = NodeDocument(
        annotations={RESERVATION: '{"reservedCPUs":"0"}', "a": "node"},
        topology_annotations={RESERVATION: '{"reservedCPUs":"1"}', SYSTEM_QOS: '{"cpuset":"4"}', "a": "topology"},
    )
    found = sources.gatherer().collect(()).inputs
    assert pools(found.pools.ls) == ["1-3", "5-7"]
    assert found.annotations["a"] == "node"
    assert found.annotations[SYSTEM_QOS] == '{"cpuset":"4"}'


@pytest.mark.parametrize("error", [FileNotFoundError(2, "No such file"), ValueError("cpulist: 'x'")])
def test_a_node_whose_cpus_cannot_be_read_has_no_pools(error: Exception) -> None:
    """What the kubelet says is still known."""
    sources = Sources()
    sources.cpus = error
    gatherer = sources.gatherer()
    found = gatherer.collect(())
    assert found.inputs.pools.ls == ()
    assert found.inputs.pools.problem == str(error)
    assert found.inputs.pools.cpu_manager_policy == "none"
    assert str(error) in gatherer.problems


def test_a_pod_whose_words_cannot_be_used_is_a_problem_of_the_node() -> None:
    """Its name is in it, and the others' CPUs are counted."""
    bad = Pod(id="s", uid="u", namespace="shop", name="web", annotations={RESOURCE_STATUS: "{"})
    gatherer = Sources().gatherer()
    assert pools(gatherer.collect((bad,)).inputs.pools.ls) == ["0-3", "4-7"]
    (problem,) = gatherer.problems
    assert "shop/web" in problem
    assert gatherer.collect((bad,)).inputs.pools.problem == ""


def test_a_problem_is_logged_once_and_over_when_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """A round is not a reason to say the same again."""
    sources = Sources()
    sources.kubelet = ValueError("no JSON")
    gatherer = sources.gatherer()
    with caplog.at_level(logging.WARNING, "interpose.hooks.server.node.node_inputs"):
        for _ in range(3):
            gatherer.collect(())
        assert len(caplog.records) == 1
        assert list(gatherer.problems) == ["no JSON"]
        sources.kubelet = KubeletCpus(policy="static")
        found = gatherer.collect(())
    assert list(gatherer.problems) == []
    assert found.inputs.pools.cpu_manager_policy == "static"


def test_another_problem_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    """Only the same one is not."""
    sources = Sources()
    gatherer = sources.gatherer()
    with caplog.at_level(logging.WARNING, "interpose.hooks.server.node.node_inputs"):
        for text in ("no JSON", "no policy"):
            sources.kubelet = ValueError(text)
            gatherer.collect(())
    assert [record.__dict__["kv"]["err"] for record in caplog.records] == ["no JSON", "no policy"]


def test_pods_that_are_not_all_make_no_pools_to_go_by(caplog: pytest.LogCaptureFixture) -> None:
    """Somebody unknown may have CPUs alone. It is so at every start, and no news."""
    found = Sources().gatherer().collect((), complete=False).inputs.pools
    assert found.problem == "the runtime has not listed all its pods"
    assert not caplog.records
