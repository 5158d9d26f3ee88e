"""Where everything is: records of the store joined with the directories of the cgroup tree.

Made anew for each round, in a worker thread; what has not changed since the last round is the same object as then, so
that whoever computed something from it need not do it again. A directory that is gone is normal.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from interpose.core.model.cgroup import CLEAR, CRI_FIELDS, KubeQos, Level, Parameter
from interpose.core.model.pod import Container, ContainerState, Pod
from interpose.hooks.server.context import GroupContext
from interpose.hooks.server.node.nodeslo import HostApplication
from interpose.hooks.server.reconcile.desired_state import ContainerTarget, GroupTarget, PodTarget
from interpose.hooks.server.reconcile.journal import Journal
from interpose.hooks.server.reconcile.original_values import (
    ANNOTATION,
    ValueRecord,
    read_note,
    record_in_force,
    record_of_entry,
    with_requested,
)
from interpose.hooks.server.targets import ActuatorTarget
from interpose.host.cgroup.paths import CgroupLayout, Driver, find_child, pod_directory
from interpose.host.cgroup.tree import CgroupTree

_BASES: Final[Mapping[str, KubeQos]] = {
    "Kubepods": KubeQos.GUARANTEED,
    "KubepodsBurstable": KubeQos.BURSTABLE,
    "KubepodsBesteffort": KubeQos.BEST_EFFORT,
}


class Inventory:
    """Finds subjects. One thread at a time."""

    def __init__(self, tree: CgroupTree, journal: Journal) -> None:
        self._tree = tree
        self._journal = journal
        self._members: dict[str, tuple[Container, Mapping[Parameter, ValueRecord], ContainerTarget]] = {}
        self._subjects: dict[str, PodTarget] = {}

    def subjects(self, pods: Iterable[tuple[Pod, Sequence[Container]]]) -> list[PodTarget]:
        """Pods that live, with their containers that do."""
        found = [self._subject(pod, containers) for pod, containers in newest(pods)]
        self._subjects = {subject.pod.id: subject for subject in found}
        alive = {member.container.id for subject in found for member in subject.members}
        self._members = {key: value for key, value in self._members.items() if key in alive}
        return found

    def _subject(self, pod: Pod, containers: Sequence[Container]) -> PodTarget:
        directory, children = self.list_pod_directory(pod.cgroup_parent)
        target = sandbox = None
        if directory and is_own(pod, directory):
            target = pod_target(pod, directory)
        if (child := find_child(children, pod.id)) is not None:
            sandbox_directory = f"{directory}/{child}"
            sandbox = ActuatorTarget(
                level=Level.SANDBOX, key=pod.id, directory=sandbox_directory, name=_name(pod), pod_uid=pod.uid
            )
        members = tuple(
            self._member(pod, container, directory, children) for container in containers if _is_alive(container)
        )
        subject = PodTarget(pod=pod, target=target, sandbox=sandbox, members=members)
        known = self._subjects.get(pod.id)
        return known if known == subject else subject

    def list_pod_directory(self, cgroup_parent: str) -> tuple[str, list[str]]:
        """The directory of a pod and what is in it; nothing if there is none."""
        with suppress(OSError, ValueError):
            directory = pod_directory(cgroup_parent)
            return directory, self._tree.children(directory)
        return "", []

    def _member(self, pod: Pod, record: Container, directory: str, children: Sequence[str]) -> ContainerTarget:
        if record.cgroup_parent and record.cgroup_parent != pod.cgroup_parent:
            directory, children = self.list_pod_directory(record.cgroup_parent)
        child = find_child(children, record.id) if directory else None
        target = container_target(pod, record, f"{directory}/{child}" if child is not None else "")
        notes = self._notes(record, target)
        known = self._members.get(record.id)
        if known is not None and known[0] is record and known[1] == notes and known[2].target == target:
            return known[2]
        member = ContainerTarget(container=with_requested(record, notes), target=target)
        self._members[record.id] = (record, notes, member)
        return member

    def _notes(self, record: Container, target: ActuatorTarget) -> Mapping[Parameter, ValueRecord]:
        """What of the container's resources is our doing. What only its annotation tells goes into the journal.

        An entry whose value is not in force any more tells nothing: somebody asked for something else since.
        """
        entries = self._journal.entries_of(Level.CONTAINER, record.id)
        notes: dict[Parameter, ValueRecord] = {}
        for parameter, value_record in read_note(record.annotations.get(ANNOTATION, "")).items():
            if (
                parameter not in entries
                and (there := self._in_force(record, target, parameter, value_record)) is not None
            ):
                notes[parameter] = there
                with suppress(OSError):  # a full disk; the note itself stays
                    self._journal.note(
                        target,
                        parameter,
                        found=value_record.requested,
                        written=value_record.applied,
                        plugin=value_record.plugin,
                    )
        for parameter, entry in entries.items():
            if parameter in CRI_FIELDS:
                there = self._in_force(record, target, parameter, record_of_entry(entry))
                if there is not None:
                    notes[parameter] = there
        return notes

    def _in_force(
        self, record: Container, target: ActuatorTarget, parameter: Parameter, value_record: ValueRecord
    ) -> ValueRecord | None:
        whole = ""
        if CLEAR in (value_record.applied, value_record.before) and target.directory:
            read_allowed = self._tree.allowed_cpus if parameter is Parameter.CPUSET_CPUS else self._tree.allowed_mems
            with suppress(OSError, ValueError):
                whole = read_allowed(target.directory.rpartition("/")[0])
        return record_in_force(record, parameter, value_record, whole)

    # -- above pods

    def groups(self, layout: CgroupLayout | None, applications: Sequence[HostApplication]) -> list[GroupTarget]:
        """The node, directories of QoS classes and host applications that exist."""
        groups = [
            GroupTarget(
                GroupContext(level=Level.NODE, name="node"), ActuatorTarget(level=Level.NODE, key="node", name="node")
            )
        ]
        if layout is not None:
            for qos in KubeQos:
                directory = layout.qos_directory(qos)
                if self._tree.exists(directory):
                    target = ActuatorTarget(level=Level.QOS, key=directory, directory=directory, name=qos.value)
                    groups.append(GroupTarget(GroupContext(level=Level.QOS, kube_qos=qos, name=qos.value), target))
        for application in applications:
            with suppress(ValueError):
                directory = application_directory(application, layout)
                if directory and self._tree.exists(directory):
                    name = application.name
                    target = ActuatorTarget(level=Level.HOST_APP, key=directory, directory=directory, name=name)
                    context = GroupContext(level=Level.HOST_APP, qos=application.qos, name=name)
                    groups.append(GroupTarget(context, target))
        return groups


def pod_target(pod: Pod, directory: str) -> ActuatorTarget:
    """A pod with a cgroup."""
    return ActuatorTarget(level=Level.POD, key=directory, directory=directory, name=_name(pod), pod_uid=pod.uid)


def container_target(pod: Pod, container: Container, directory: str) -> ActuatorTarget:
    """A container of a pod; without a directory it does not run."""
    return ActuatorTarget(
        level=Level.CONTAINER,
        key=container.id,
        directory=directory,
        name=f"{_name(pod)}/{container.name}",
        pod_uid=pod.uid,
        running=bool(directory),
    )


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"


def is_own(pod: Pod, directory: str) -> bool:
    """Whether a directory is this pod's alone: the kubelet names it after the pod's uid.

    Whoever may run pods can name any cgroup as their parent. Values of a pod must not end up on the node's services or
    on all pods of a class.
    """
    last = directory.rpartition("/")[2]
    return bool(pod.uid) and (pod.uid in last or pod.uid.replace("-", "_") in last)


def application_directory(application: HostApplication, layout: CgroupLayout | None) -> str:
    """The cgroup of a host application; empty if it is below pods' and those are not there."""
    if application.base in _BASES:
        if layout is None:
            return ""
        return f"{layout.qos_directory(_BASES[application.base])}/{application.directory.strip('/')}"
    return application.directory.strip("/")


def newest(pods: Iterable[tuple[Pod, Sequence[Container]]]) -> list[tuple[Pod, Sequence[Container]]]:
    """Of several sandboxes of one pod the last one that is ready: they share one cgroup."""
    found: dict[str, tuple[Pod, Sequence[Container]]] = {}
    for pod, containers in pods:
        key = pod.uid or pod.id
        if pod.ready and (key not in found or found[key][0].attempt <= pod.attempt):
            found[key] = (pod, containers)
    return list(found.values())


def _is_alive(container: Container) -> bool:
    return container.state is not ContainerState.EXITED


def default_layout(driver: str, root: str) -> CgroupLayout | None:
    """The layout that was chosen by name; None if it is to be looked for."""
    return None if driver == "auto" else CgroupLayout(driver=Driver(driver), root=root)
