"""The demo's node: a machine, its pods and what must become of them, and two versions of a NodeSLO.

Tables only; nothing here prints or decides. Every value that the demo shows has its line in `POD_VALUES`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from examples.demo.image import IMAGE
from interpose.core.model.cgroup import CLEAR, UNLIMITED, KubeQos, Level, Parameter, Value
from interpose.core.model.qos import QOS_LABEL, QosClass
from interpose.hooks.server.pods.pod_annotations import DEVICE_ALLOCATED, EXTENDED_RESOURCES

NAMESPACE: Final = "shop"
CONTAINER: Final = "main"
MACHINE: Final = "2 sockets x 4 cores x 2 threads"
CPUS: Final = "0-15"
_GIB: Final = 1 << 30
_BOTH: Final = (Level.POD, Level.CONTAINER)
_POD: Final = (Level.POD,)
_CONTAINER: Final = (Level.CONTAINER,)
_MANIFEST: Final = """\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: {namespace}
  labels: {labels}
  annotations: {annotations}
spec:
  containers:
    - name: {container}
      image: {image}
      command: [sh, -c, {script}]
      resources: {resources}
"""
# Ends when it is told to, also as the first process of a container.
_SERVE: Final = "trap exit TERM; echo serving; sleep 600 & wait"


class Asked(NamedTuple):
    """Resources as CRI has them; 0 is none."""

    cpu_shares: int
    cpu_quota: int = 0
    memory_limit_in_bytes: int = 0


class DemoPod(NamedTuple):
    """A pod with one container: what Kubernetes is told, and what Koordinator's webhook and scheduler write on it."""

    name: str
    qos: QosClass
    kube_qos: KubeQos
    asks: str  # for people
    resources: Mapping[str, Mapping[str, str]]  # as a manifest has them
    asked: Asked
    annotations: Mapping[str, str] = MappingProxyType({})

    @property
    def manifest(self) -> str:
        """The file from which it is started."""
        return _manifest(self.name, {QOS_LABEL: str(self.qos)}, self.annotations, _SERVE, self.resources)


def _manifest(
    name: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    script: str,
    resources: Mapping[str, Mapping[str, str]],
) -> str:
    return _MANIFEST.format(
        name=name,
        namespace=NAMESPACE,
        labels=json.dumps(dict(labels)),
        annotations=json.dumps(dict(annotations)),
        container=CONTAINER,
        image=IMAGE,
        script=json.dumps(script),
        resources=json.dumps(dict(resources)),
    )


def _limited(request: str, limit: str, memory: str) -> dict[str, dict[str, str]]:
    return {"requests": {"cpu": request, "memory": memory}, "limits": {"cpu": limit, "memory": memory}}


_BATCH: Final = {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "2Gi"}
RESIDENTS: Final = (
    DemoPod(
        name="web",
        qos=QosClass.LS,
        kube_qos=KubeQos.BURSTABLE,
        asks="half a CPU, up to 2",
        resources=_limited("500m", "2", "1Gi"),
        asked=Asked(512, 200_000, _GIB),
    ),
    DemoPod(
        name="reports",
        qos=QosClass.BE,
        kube_qos=KubeQos.BEST_EFFORT,
        asks="1500m batch CPU and 2Gi batch memory, unknown to CRI",
        resources={},
        asked=Asked(2),
        annotations={
            EXTENDED_RESOURCES: json.dumps({"containers": {CONTAINER: {"requests": _BATCH, "limits": _BATCH}}})
        },
    ),
)
GPU: Final = "2"
GUEST: Final = DemoPod(
    name="orders",
    qos=QosClass.LSR,
    kube_qos=KubeQos.GUARANTEED,
    asks="4 CPUs, Guaranteed",
    resources=_limited("4", "4", "4Gi"),
    asked=Asked(4096, 400_000, 4 * _GIB),
    annotations={DEVICE_ALLOCATED: json.dumps({"gpu": [{"minor": int(GPU)}]})},
)
PODS: Final = (*RESIDENTS, GUEST)

# One that fails whenever it starts, and what it says.
FAILING: Final = "mailer"
LAST_WORDS: Final = "cannot reach the mail server"
EXIT_CODE: Final = 3
LATER: Final[Mapping[str, str]] = MappingProxyType(
    {GUEST.name: GUEST.manifest, FAILING: _manifest(FAILING, {}, {}, f"echo {LAST_WORDS}; exit {EXIT_CODE}", {})}
)


class Due(NamedTuple):
    """A value that must be there, chapter by chapter.

    As asked for; when its pod has started; with the guest there; after the NodeSLO was edited; without the guest.
    """

    parameter: Parameter
    levels: tuple[Level, ...]
    asked: Value
    started: Value
    arrived: Value
    edited: Value
    left: Value


def _due(
    parameter: Parameter,
    levels: tuple[Level, ...],
    asked: Value,
    started: Value,
    *,
    arrived: Value | None = None,
    edited: Value | None = None,
    left: Value | None = None,
) -> Due:
    """What is not said is as it was before."""
    with_guest = started if arrived is None else arrived
    after_edit = with_guest if edited is None else edited
    return Due(parameter, levels, asked, started, with_guest, after_edit, after_edit if left is None else left)


# All CPUs are no restriction, and count as none.
_SHARES: Final = _due(Parameter.CPUSET_CPUS, _CONTAINER, CLEAR, CLEAR, arrived="0-1,6-15", left=CLEAR)
POD_VALUES: Final[Mapping[str, tuple[Due, ...]]] = MappingProxyType(
    {
        "web": (
            _SHARES,
            _due(Parameter.CPU_BVT, _POD, 0, 2, edited=1),
        ),
        "reports": (
            _SHARES,
            _due(Parameter.CPU_SHARES, _POD, 1024, 1536),
            _due(Parameter.CPU_SHARES, _CONTAINER, 2, 1536),
            _due(Parameter.CPU_QUOTA, _BOTH, UNLIMITED, 150_000, edited=UNLIMITED),
            _due(Parameter.MEMORY_LIMIT, _BOTH, UNLIMITED, 2 * _GIB),
            _due(Parameter.CPU_BVT, _POD, 0, -1),
        ),
        "orders": (
            _due(Parameter.CPUSET_CPUS, _CONTAINER, CLEAR, "2-5"),
            _due(Parameter.CPU_BVT, _POD, 0, 2),
        ),
    }
)

# -- the node's policy

BEFORE: Final = """\
resourceQOSStrategy:
  lsrClass: {cpuQOS: {enable: true, groupIdentity: 2}}
  lsClass: {cpuQOS: {enable: true, groupIdentity: 2}}
  beClass: {cpuQOS: {enable: true, groupIdentity: -1}}
"""
AFTER: Final = """\
resourceQOSStrategy:
  lsrClass: {cpuQOS: {enable: true, groupIdentity: 2}}
  lsClass: {cpuQOS: {enable: true, groupIdentity: 1}}
  beClass: {cpuQOS: {enable: true, groupIdentity: -1}}
resourceUsedThresholdWithBE: {enable: true, cpuSuppressPolicy: cfsQuota}
"""


def edit(path: Path, text: str) -> None:
    """Replace a file in one step, as editors and mounted ConfigMaps do."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(path)
