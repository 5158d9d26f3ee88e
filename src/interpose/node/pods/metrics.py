"""What a manager that keeps pods tells of them as metrics. Few values for each label, however many pods there are."""

from collections import Counter
from collections.abc import Iterable
from typing import Final, Protocol

from interpose.metrics import Collector, Family, Sample
from interpose.node.pods.status.phase import ContainerViewState, PodPhase
from interpose.node.pods.status.pod_state import PodState
from interpose.node.pods.sync.result import StepReason

_OTHER: Final = "other"
_REASONS: Final = (*(reason.value for reason in StepReason if reason is not StepReason.NONE), _OTHER)


class PodMetricsSource(Protocol):
    """The states of the pods of a manager, of their manifests and of the runtime."""

    @property
    def pods(self) -> Iterable[PodState]: ...
    @property
    def away(self) -> str: ...
    @property
    def problems(self) -> int: ...


def pods_collector(source: PodMetricsSource) -> Collector:
    """A collector of the metric families of the pod manager."""
    return lambda: _families(source)


def _families(source: PodMetricsSource) -> Iterable[Family]:
    pods = list(source.pods)
    phases = Counter({phase.value: 0 for phase in PodPhase})
    phases.update(pod.phase.value for pod in pods)
    yield _by("interpose_pods", "Pods that are kept, by phase.", "phase", phases)
    ready = sum(pod.ready for pod in pods)
    yield Family("interpose_pods_ready", "gauge", "Pods that are kept and ready.", [Sample(ready)])
    waiting = Counter(dict.fromkeys(_REASONS, 0))
    waiting.update(
        _reason(container.reason)
        for pod in pods
        for container in pod.containers
        if container.state is ContainerViewState.WAITING
    )
    yield _by("interpose_pods_containers_waiting", "Containers that wait to be started, by reason.", "reason", waiting)
    restarts = sum(container.restart_count for pod in pods for container in pod.containers)
    text = "How often the containers of the pods that are kept were restarted, in all."
    yield Family("interpose_pods_restarts", "gauge", text, [Sample(restarts)])
    text = "Whether the runtime answers."
    yield Family("interpose_pods_runtime_up", "gauge", text, [Sample(0 if source.away else 1)])
    text = "Manifest files that cannot be used; what they said before counts."
    yield Family("interpose_pods_manifests_unusable", "gauge", text, [Sample(source.problems)])


def _by(name: str, text: str, label: str, counts: Counter[str]) -> Family:
    return Family(name, "gauge", text, [Sample(count, {label: value}) for value, count in sorted(counts.items())])


def _reason(text: str) -> str:
    return text if text in _REASONS else _OTHER
