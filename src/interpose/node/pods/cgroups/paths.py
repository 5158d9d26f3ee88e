"""Where a pod is in the tree of cgroups. No IO."""

from typing import Final

from interpose.host.cgroup.paths import CgroupLayout, Driver
from interpose.node.pods.cri_config.qos import pod_qos
from interpose.node.pods.spec import PodSpec

_PODS: Final = "kubepods"


def layout_of(driver: Driver, root: str = "") -> CgroupLayout:
    """The pods' part of the tree, below a root that may be empty. ValueError if that cannot be one."""
    return CgroupLayout(driver=driver, root="/".join(filter(None, (root.strip("/"), _PODS))))


def cgroup_parent(pod: PodSpec, driver: Driver, root: str = "") -> str:
    """CRI's cgroup parent: a whole path with either driver. ValueError if the pod's uid or the root makes none."""
    return "/" + layout_of(driver, root).pod(pod.uid, pod_qos(pod))
