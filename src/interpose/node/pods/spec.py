"""The specification of a pod as its manifest has it, with the defaults of Kubernetes filled in. Values only; pure.

Names follow the manifest (`terminationGracePeriodSeconds` is `termination_grace_period`). Amounts are exact numbers in
base units: CPUs, bytes. A field that needs a cluster is refused when the manifest is read, so nothing here is silently
ignored. Values that are stored in the annotations of containers are in `status.container_values`: a reader of those
does not load the whole specification.

`pod_uid` must stay as it is from release to release: a pod with another uid is another pod.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

from interpose.core.model.resources import empty_map
from interpose.node.pods.status.container_values import ExecAction as ExecAction
from interpose.node.pods.status.container_values import HttpAction as HttpAction
from interpose.node.pods.status.container_values import Port as Port
from interpose.node.pods.status.container_values import ResourceRequirements as ResourceRequirements
from interpose.node.pods.status.container_values import RestartPolicy as RestartPolicy
from interpose.node.pods.status.container_values import SleepAction as SleepAction
from interpose.node.pods.status.container_values import TcpAction as TcpAction
from interpose.node.pods.status.container_values import TerminationMessagePolicy as TerminationMessagePolicy
from interpose.node.pods.status.container_values import no_amounts as no_amounts

_UID_DIGITS: Final = 32  # as the uid of a static pod


class PullPolicy(StrEnum):
    """When the image of a container is pulled."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRef:
    """`metadata.name`, `metadata.labels['a']`, `status.podIP`, `spec.nodeName` and the like."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFieldRef:
    """`limits.cpu` and the like of a container (empty: the own one), in units of the divisor."""

    resource: str
    container: str = ""
    divisor: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvVar:
    """A variable: a text that may hold $(OTHER), or where its value comes from.

    Values of ConfigMaps and Secrets are taken as they are: every `$` in them is doubled here.
    """

    name: str
    value: str = field(default="", repr=False)  # it may be of a Secret
    source: FieldRef | ResourceFieldRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeMount:
    """A volume of the pod inside a container."""

    name: str
    mount_path: str
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False
    recursive_read_only: str = "Disabled"
    propagation: str = "None"  # None, HostToContainer, Bidirectional


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPath:
    """A path of the node; `type` as Kubernetes has it: DirectoryOrCreate, File, ... or empty."""

    path: str
    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyDir:
    """A folder that lives as long as the pod; `medium` "Memory" is a tmpfs of `size_limit` bytes (None: half of it)."""

    medium: str = ""
    size_limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileItem:
    """One file of a volume that is made of values: its relative path, bytes, and mode. `secret`: it is of a Secret."""

    path: str
    content: bytes = field(default=b"", repr=False)  # it may be of a Secret
    field: FieldRef | ResourceFieldRef | None = None
    mode: int | None = None
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedFiles:
    """A volume of files: a downwardAPI volume, or a configMap/secret whose document is in the same manifests."""

    items: tuple[FileItem, ...] = ()
    default_mode: int = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A volume of the pod: a name and its source."""

    name: str
    source: HostPath | EmptyDir | ProjectedFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcAction:
    """A probe by the health service of gRPC."""

    port: int
    service: str = ""


ProbeAction = ExecAction | HttpAction | TcpAction | GrpcAction


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A probe of a container. All times are in seconds."""

    action: ProbeAction
    initial_delay: int = 0
    timeout: int = 1
    period: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleHandlers:
    """The lifecycle hooks of a container, and the signal that stops it."""

    post_start: ExecAction | HttpAction | TcpAction | SleepAction | None = None
    pre_stop: ExecAction | HttpAction | TcpAction | SleepAction | None = None
    stop_signal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeLinux:
    """SELinux options; an empty part is the runtime's default."""

    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A seccomp or AppArmor profile: RuntimeDefault, Unconfined, or Localhost with a name."""

    type: str
    localhost: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityContext:
    """The security context of a container. None: not set, and the pod's field of the same name applies."""

    privileged: bool = False
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    read_only_root: bool = False
    allow_privilege_escalation: bool | None = None
    add_capabilities: tuple[str, ...] = ()
    drop_capabilities: tuple[str, ...] = ()
    seccomp: Profile | None = None
    apparmor: Profile | None = None
    selinux: SeLinux | None = None
    proc_mount: str = "Default"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSecurityContext:
    """The security context of a pod: defaults of its containers, and settings of the pod itself."""

    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_policy: str = "Merge"
    fs_group: int | None = None
    sysctls: tuple[tuple[str, str], ...] = ()
    seccomp: Profile | None = None
    apparmor: Profile | None = None
    selinux: SeLinux | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRule:
    """A rule about exit codes: `operator` In or NotIn; `action` Restart or RestartAllContainers."""

    action: str
    operator: str
    codes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """A container of a pod: a main, init or ephemeral one."""

    name: str
    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    ports: tuple[Port, ...] = ()
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    resize_policy: Mapping[str, str] = field(default_factory=empty_map)  # resource -> NotRequired, RestartContainer
    volume_mounts: tuple[VolumeMount, ...] = ()
    liveness: Probe | None = None
    readiness: Probe | None = None
    startup: Probe | None = None
    lifecycle: LifecycleHandlers = LifecycleHandlers()
    security: SecurityContext = SecurityContext()
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: TerminationMessagePolicy = TerminationMessagePolicy.FILE
    pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT  # filled in by the tag where the manifest is silent
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    restart_policy: RestartPolicy | None = None  # own one: a sidecar if Always on an init container
    restart_rules: tuple[RestartRule, ...] = ()
    target: str = ""  # of ephemeral ones: the container whose processes they see


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsConfig:
    """Additions to, or with dnsPolicy None all of, what the pod's resolv.conf says."""

    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAlias:
    """A line of /etc/hosts."""

    ip: str
    hostnames: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PullAuth:
    """Credentials for a registry (a host, with a path if they are for a part of it only)."""

    registry: str
    username: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    registry_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """A pod. `uid` is the manifest's, or made from its content so that an edited manifest is another pod."""

    name: str
    namespace: str = "default"
    uid: str
    labels: Mapping[str, str] = field(default_factory=empty_map)
    annotations: Mapping[str, str] = field(default_factory=empty_map)
    containers: tuple[ContainerSpec, ...]
    init_containers: tuple[ContainerSpec, ...] = ()
    ephemeral_containers: tuple[ContainerSpec, ...] = ()
    restart_policy: RestartPolicy = RestartPolicy.ALWAYS
    termination_grace_period: int = 30
    deletion_grace_period: int | None = None  # set when the pod is being deleted with another grace
    deleted: bool = False  # deletionTimestamp: nothing is started any more
    active_deadline: int | None = None
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    share_process_namespace: bool = False
    hostname: str = ""
    subdomain: str = ""
    hostname_as_fqdn: bool = False
    dns_policy: str = "ClusterFirst"
    dns_config: DnsConfig = DnsConfig()
    host_aliases: tuple[HostAlias, ...] = ()
    volumes: tuple[Volume, ...] = ()
    security: PodSecurityContext = PodSecurityContext()
    resources: ResourceRequirements | None = None  # of the pod as a whole
    overhead: Mapping[str, Fraction] = field(default_factory=no_amounts)
    runtime_handler: str = ""  # runtimeClassName
    priority: int | None = None
    priority_class: str = ""
    node_name: str = ""
    service_account: str = ""
    pull_auths: tuple[PullAuth, ...] = ()  # imagePullSecrets; manifest_pulls.auths_for says which are for which image
    source: str = ""  # the file it came from, for people
    document: Mapping[str, Any] = field(default_factory=dict, compare=False, hash=False)  # as written, for -o json

    @property
    def title(self) -> str:
        """The pod's name for people: `namespace/name`."""
        return f"{self.namespace}/{self.name}"


def pod_uid(namespace: str, name: str, content: Mapping[str, Any]) -> str:
    """A uid that stays the same while the manifest says the same, whatever the order of its keys."""
    text = json.dumps([namespace, name, content], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_UID_DIGITS]
