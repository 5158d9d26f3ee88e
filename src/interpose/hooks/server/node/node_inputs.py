"""What rules are made of, gathered anew for each round: the document, the kernel's features, the CPU pools.

Called in a worker thread. What cannot be found out is told once. Of the kubelet's state the last that could be read is
used then, since it is read while it is written now and then; what else is missing for the pools, the pools say.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from interpose.core.model.cpuset import KubeletCpus, NumaCpus
from interpose.core.model.pod import Pod
from interpose.hooks.server.node.cpu_share_pools import compute_pools
from interpose.hooks.server.node.node_document import NodeDocument
from interpose.hooks.server.plugin import Kernel, NodeInputs
from interpose.host.cgroup.paths import CgroupLayout
from interpose.host.cgroup.tree import CgroupTree, detect_layout
from interpose.log import RateLimited

_log = logging.getLogger(__name__)

_INCOMPLETE: Final = "the runtime has not listed all its pods"  # normal at the start


class NodeSnapshot(NamedTuple):
    """What rules are made of, and how the kubelet names cgroups (None: there are none of its yet)."""

    inputs: NodeInputs
    layout: CgroupLayout | None


class NodeInputCollector:
    """Asks every source. A layout that was chosen is not looked for."""

    def __init__(
        self,
        *,
        tree: CgroupTree,
        kubepods: str,
        layout: CgroupLayout | None,
        document: Callable[[], NodeDocument],
        probe: Callable[[CgroupLayout | None], Kernel],
        cpus: Callable[[], Sequence[NumaCpus]],
        kubelet: Callable[[], KubeletCpus],
    ) -> None:
        self._tree = tree
        self._kubepods = kubepods
        self._layout = layout
        self._document = document
        self._probe = probe
        self._cpus = cpus
        self._kubelet = kubelet
        self._last_kubelet: KubeletCpus | None = None
        self._limited = RateLimited(_log)
        self.problems: tuple[str, ...] = ()

    def collect(self, pods: Sequence[Pod], complete: bool = True) -> NodeSnapshot:
        """Everything as it is now. Pods that are not all there are: nobody knows whose CPUs are whose."""
        problems: list[str] = []  # that there is a substitute for
        unreadable: list[str] = [] if complete else [_INCOMPLETE]
        document = self._document()
        # The topology has copies of the node's annotations, which may be old.
        annotations = {**document.topology_annotations, **document.annotations}
        layout = self._layout or detect_layout(self._tree, self._kubepods)
        cpus: Sequence[NumaCpus] = ()
        try:
            self._last_kubelet = self._kubelet()
        except (OSError, ValueError) as error:
            (unreadable if self._last_kubelet is None else problems).append(str(error))
        try:
            cpus = self._cpus()
        except (OSError, ValueError) as error:
            unreadable.append(str(error))
        shared = compute_pools(cpus, pods, annotations, self._last_kubelet or KubeletCpus(), unreadable)
        problems += shared.problems
        for problem in (text for text in problems if text != _INCOMPLETE):
            self._limited.log(logging.WARNING, "Part of the node's state cannot be used", key=problem, err=problem)
        self.problems = tuple(problems)
        inputs = NodeInputs(
            slo=document.slo,
            labels=document.labels,
            annotations=annotations,
            pools=shared.pools,
            kernel=self._probe(layout),
        )
        return NodeSnapshot(inputs, layout)
