"""What has to be done about init containers, those that end and those that stay (sidecars). Pure.

They are walked from the last to the first: the ends of early ones may have been removed long ago, so the last one that
the runtime knows of says how far the pod has come.
"""

from interpose.core.model.pod import ContainerState
from interpose.node.pods.labels import container_hash
from interpose.node.pods.spec import ContainerSpec, PodSpec, RestartPolicy
from interpose.node.pods.status.types import ContainerStatus, PodStatus
from interpose.node.pods.sync.action_types import Kill, KillReason, PodActionsDraft, ProbeResults
from interpose.node.pods.sync.restart_policy import is_sidecar, policy_of, resize, rule_for


def compute_init_actions(pod: PodSpec, status: PodStatus, health: ProbeResults, draft: PodActionsDraft) -> bool:
    """Note in the draft what to do; whether main containers may run."""
    if not pod.init_containers:
        return True
    # A main container in this sandbox could only be made when the init containers were done.
    walk = _Walk(
        pod, health, draft, initialized=any(status.latest_active(container.name) for container in pod.containers)
    )
    for index in reversed(range(len(pod.init_containers))):
        walk.step(index, status.latest_active(pod.init_containers[index].name))
        if draft.kill_pod:
            return False  # of the last one that is known: nothing is to be started yet
    if not walk.past:
        draft.init_start.append(0)
    draft.init_start.reverse()
    return walk.initialized


class _Walk:
    """From the last to the first. `past`: the pod has come further than the container that is looked at."""

    def __init__(self, pod: PodSpec, health: ProbeResults, draft: PodActionsDraft, *, initialized: bool) -> None:
        self._pod = pod
        self._health = health
        self._draft = draft
        self.initialized = initialized
        self.past = initialized

    def step(self, index: int, found: ContainerStatus | None) -> None:
        container = self._pod.init_containers[index]
        stays = is_sidecar(container)
        if found is None:
            if self.past and stays:
                self._draft.init_start.append(index)
            return
        if self.past and not stays:
            return
        match found.state:
            case ContainerState.CREATED:
                self._draft.init_start.append(index)
            case ContainerState.RUNNING:
                if stays:
                    self._running_sidecar(index, container, found)
            case ContainerState.EXITED:
                self._exited(index, container, found)
            case _:
                self._unknown(index, container, found)
        self.past = True

    def _running_sidecar(self, index: int, container: ContainerSpec, found: ContainerStatus) -> None:
        if container.startup is not None and (started := self._health.startup(found.id)) is not True:
            if started is False:
                self._restart(index, container, found, KillReason.STARTUP)
            return
        self._done(index)
        if found.hash != container_hash(container):
            self._restart(index, container, found, KillReason.CHANGED)
        elif container.liveness is not None and self._health.liveness(found.id) is False:
            self._restart(index, container, found, KillReason.LIVENESS)
        else:
            resize(index, container, found, self._draft, init=True)

    def _exited(self, index: int, container: ContainerSpec, found: ContainerStatus) -> None:
        if is_sidecar(container):
            self._draft.init_start.append(index)
        elif not found.failed:
            self._done(index)
        elif self._may_restart(container, found):
            self._draft.init_start.append(index)
        else:
            self._draft.kill_pod = True

    def _unknown(self, index: int, container: ContainerSpec, found: ContainerStatus) -> None:
        if self._may_restart(container, found):
            self._restart(index, container, found, KillReason.UNKNOWN)
        else:
            self._draft.kill_pod = True

    def _may_restart(self, container: ContainerSpec, found: ContainerStatus) -> bool:
        # An init container has to succeed, so that Always is as good as OnFailure.
        return rule_for(container, found) is not None or policy_of(self._pod, container) is not RestartPolicy.NEVER

    def _done(self, index: int) -> None:
        if index == len(self._pod.init_containers) - 1:
            self.initialized = True
        elif not self.past:
            self._draft.init_start.append(index + 1)

    def _restart(self, index: int, container: ContainerSpec, found: ContainerStatus, reason: KillReason) -> None:
        self._draft.init_start.append(index)
        self._draft.kill[found.id] = Kill(
            container=container,
            name=container.name,
            reason=reason,
            message=f"Init container {container.name} {reason.words}, will be restarted",
        )
