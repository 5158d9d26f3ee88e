"""What rules are made of, gathered from sources that may fail."""

import logging
from collections.abc import Sequence

import pytest

from interpose.host.cgroup.paths import Driver, Layout
from interpose.model.cgroup import KubeQos, Parameter
from interpose.model.cpuset import CpuSet, KubeletCpus, NumaCpus
from interpose.model.pod import Pod
from interpose.runtimehooks.nodedocument import NodeDocument
from interpose.runtimehooks.nodeslo import NodeSLO
from interpose.runtimehooks.plugin import Kernel
from interpose.runtimehooks.podspec import RESOURCE_STATUS
from interpose.runtimehooks.surroundings import Gatherer
from interpose.testing.fakecgroup import FakeKernel
from interpose.testing.fakenode import FakeNode

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
        self.probed: list[Layout | None] = []

    def gatherer(self, layout: Layout | None = None, kubepods: str = "kubepods") -> Gatherer:
        """Asks them."""
        return Gatherer(
            tree=self.node.tree,
            kubepods=kubepods,
            layout=layout,
            document=lambda: self.document,
            probe=self._probe,
            cpus=self._cpus,
            kubelet=self._kubelet,
        )

    def _probe(self, layout: Layout | None) -> Kernel:
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
    found = Sources().gatherer().gather(())
    assert found.inputs.slo == NodeSLO(suppress_enabled=True)
    assert (found.inputs.labels, found.inputs.annotations) == ({"a": "b"}, {"c": "d"})
    assert found.inputs.kernel is KERNEL
    assert pools(found.inputs.pools.ls) == ["0-3", "4-7"]
    assert found.inputs.pools.cpu_manager_policy == "none"


def test_another_document_is_seen_the_next_time() -> None:
    """Nothing is kept."""
    sources = Sources()
    gatherer = sources.gatherer()
    gatherer.gather(())
    sources.document = NodeDocument()
    assert gatherer.gather(()).inputs.slo is None


def test_cpus_of_pods_are_not_in_the_pools() -> None:
    """Those that have them alone."""
    pod = Pod(
        id="s", uid="u", annotations={RESOURCE_STATUS: '{"cpuset":"2-3"}'}, labels={"koordinator.sh/qosClass": "LSR"}
    )
    assert pools(Sources().gatherer().gather((pod,)).inputs.pools.ls) == ["0-1", "4-7"]


@pytest.mark.parametrize("systemd", [False, True])
def test_the_kubelets_names_are_looked_for(systemd: bool) -> None:
    """By what is there; the kernel is asked where pods live."""
    sources = Sources()
    sources.node = FakeNode(FakeKernel(), systemd=systemd)
    found = sources.gatherer().gather(())
    assert found.layout == Layout(driver=Driver.SYSTEMD if systemd else Driver.CGROUPFS)
    assert sources.probed == [found.layout]


def test_a_node_without_the_kubelets_cgroups_has_no_layout() -> None:
    """They are looked for again each time."""
    kernel = FakeKernel()
    sources = Sources(kernel)
    gatherer = sources.gatherer(kubepods="pods")
    assert gatherer.gather(()).layout is None
    made = Layout(driver=Driver.CGROUPFS, root="pods")
    kernel.make(made.qos_directory(KubeQos.GUARANTEED))
    assert gatherer.gather(()).layout == made


def test_a_layout_that_was_chosen_is_not_looked_for() -> None:
    """Whatever is there."""
    chosen = Layout(driver=Driver.SYSTEMD, root="mine")
    assert Sources().gatherer(chosen).gather(()).layout is chosen


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), ValueError("cpu_manager_state: no JSON")])
def test_a_kubelet_whose_state_cannot_be_read_is_as_if_it_had_none(error: Exception) -> None:
    """The rest is there, and the problem is told."""
    sources = Sources()
    sources.kubelet = error
    gatherer = sources.gatherer()
    found = gatherer.gather(())
    assert found.inputs.pools.cpu_manager_policy == ""
    assert pools(found.inputs.pools.ls) == ["0-3", "4-7"]
    assert gatherer.problems == (str(error),)


@pytest.mark.parametrize("error", [FileNotFoundError(2, "No such file"), ValueError("cpulist: 'x'")])
def test_a_node_whose_cpus_cannot_be_read_has_no_pools(error: Exception) -> None:
    """What the kubelet says is still known."""
    sources = Sources()
    sources.cpus = error
    gatherer = sources.gatherer()
    found = gatherer.gather(())
    assert found.inputs.pools.ls == ()
    assert found.inputs.pools.cpu_manager_policy == "none"
    assert str(error) in gatherer.problems


def test_a_pod_whose_words_cannot_be_used_is_a_problem_of_the_node() -> None:
    """Its name is in it, and the others' CPUs are counted."""
    bad = Pod(id="s", uid="u", namespace="shop", name="web", annotations={RESOURCE_STATUS: "{"})
    gatherer = Sources().gatherer()
    assert pools(gatherer.gather((bad,)).inputs.pools.ls) == ["0-3", "4-7"]
    (problem,) = gatherer.problems
    assert "shop/web" in problem


def test_a_problem_is_logged_once_and_over_when_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """A round is not a reason to say the same again."""
    sources = Sources()
    sources.kubelet = ValueError("no JSON")
    gatherer = sources.gatherer()
    with caplog.at_level(logging.WARNING, "interpose.runtimehooks.surroundings"):
        for _ in range(3):
            gatherer.gather(())
        assert len(caplog.records) == 1
        assert list(gatherer.problems) == ["no JSON"]
        sources.kubelet = KubeletCpus(policy="static")
        found = gatherer.gather(())
    assert list(gatherer.problems) == []
    assert found.inputs.pools.cpu_manager_policy == "static"


def test_another_problem_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    """Only the same one is not."""
    sources = Sources()
    gatherer = sources.gatherer()
    with caplog.at_level(logging.WARNING, "interpose.runtimehooks.surroundings"):
        for text in ("no JSON", "no policy"):
            sources.kubelet = ValueError(text)
            gatherer.gather(())
    assert [record.__dict__["kv"]["err"] for record in caplog.records] == ["no JSON", "no policy"]
