"""Usage figures."""

from interpose._pb import cri_pb2 as cri
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.runtime import stats as fakestats
from tests.support.clock import ManualClock


def test_cpu_time_grows_with_the_clock(runtime: FakeRuntime, clock: ManualClock) -> None:
    """A second later a running container used more CPU."""
    runtime.populate(1)
    container = next(iter(runtime.containers.values()))
    before = fakestats.container_stats(container, clock()).cpu.usage_core_nano_seconds.value
    clock.advance(1)
    after = fakestats.container_stats(container, clock())
    assert after.cpu.usage_core_nano_seconds.value - before == after.cpu.usage_nano_cores.value == 100_000_000
    assert after.memory.working_set_bytes.value > 0


def test_what_does_not_run_has_no_usage(runtime: FakeRuntime, clock: ManualClock) -> None:
    """An exited container keeps its disk figures only; a stopped pod has none."""
    sandbox = runtime.populate(1)[0]
    runtime.state.stop_sandbox(sandbox)
    stats = fakestats.container_stats(runtime.containers[sandbox.containers[0]], clock())
    assert not stats.HasField("cpu")
    assert not stats.HasField("memory")
    assert stats.writable_layer.used_bytes.value > 0
    assert not fakestats.sandbox_stats(runtime.state, sandbox, clock()).HasField("linux")


def test_a_pod_is_the_sum_of_its_running_containers(runtime: FakeRuntime, clock: ManualClock) -> None:
    """Two of three containers run: the pod uses twice as much as one."""
    sandbox = runtime.populate(1, 3)[0]
    runtime.exit_container(sandbox.containers[0])
    clock.advance(10)
    one = fakestats.container_stats(runtime.containers[sandbox.containers[1]], clock())
    pod = fakestats.sandbox_stats(runtime.state, sandbox, clock()).linux
    assert pod.cpu.usage_core_nano_seconds.value == 2 * one.cpu.usage_core_nano_seconds.value
    assert pod.memory.working_set_bytes.value == 2 * one.memory.working_set_bytes.value
    assert [each.attributes.id for each in pod.containers] == sandbox.containers[1:]
    assert pod.process.process_count.value == 3


def test_filters_select(runtime: FakeRuntime, clock: ManualClock) -> None:
    """Stats of containers by id, pod and label; of pods by id and label."""
    first, second = runtime.populate(2)

    def containers(wanted: cri.ContainerStatsFilter) -> list[str]:
        return [one.attributes.id for one in fakestats.list_container_stats(runtime.state, wanted, clock())]

    def pods(wanted: cri.PodSandboxStatsFilter) -> list[str]:
        return [one.attributes.id for one in fakestats.list_sandbox_stats(runtime.state, wanted, clock())]

    uid = {"io.kubernetes.pod.uid": first.config.metadata.uid}
    assert containers(cri.ContainerStatsFilter()) == first.containers + second.containers
    assert containers(cri.ContainerStatsFilter(id=second.containers[0])) == second.containers
    assert containers(cri.ContainerStatsFilter(pod_sandbox_id=second.id)) == second.containers
    assert containers(cri.ContainerStatsFilter(label_selector=uid)) == first.containers
    assert pods(cri.PodSandboxStatsFilter()) == [first.id, second.id]
    assert pods(cri.PodSandboxStatsFilter(id=second.id)) == [second.id]
    assert pods(cri.PodSandboxStatsFilter(label_selector=uid)) == [first.id]


def test_metrics_fit_their_descriptors(runtime: FakeRuntime, clock: ManualClock) -> None:
    """Each metric has a descriptor and as many label values as that has keys."""
    first, second = runtime.populate(2)
    runtime.state.stop_sandbox(second)
    clock.advance(100)
    keys = {one.name: one.label_keys for one in fakestats.metric_descriptors()}
    (pod,) = fakestats.sandbox_metrics(runtime.state, clock())
    assert pod.pod_sandbox_id == first.id
    (container,) = pod.container_metrics
    assert {metric.name for metric in container.metrics} == set(keys)
    for metric in container.metrics:
        assert len(metric.label_values) == len(keys[metric.name])
    assert container.metrics[0].value.value == 10
