"""Options of static-pools: the pools themselves, whatever they were read from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from interpose.core.model.cpuset import CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCpuList:
    """CPUs that are granted together. `text` is as configured, and what containers see in their environment."""

    cpus: CpuSet
    text: str
    socket: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool; the lists of an exclusive one have one container each."""

    exclusive: bool
    lists: tuple[PoolCpuList, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolsOptions:
    """Options of the policy static-pools. `pools` is empty until file or directory was read."""

    pools: Mapping[str, Pool] = field(default_factory=dict)
    conf_file: str = ""  # ConfFilePath: YAML with pools
    conf_dir: str = "/etc/cmk"  # ConfDirPath: CMK's tree of directories
    label_node: bool = False  # LabelNode
    taint_node: bool = False  # TaintNode
