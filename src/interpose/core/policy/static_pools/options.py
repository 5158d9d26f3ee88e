"""Options of static-pools: the pools themselves, wherever they were written down."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from interpose.core.model.cpuset import CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCpuList:
    """CPUs that are given out together. `text` is what was written, which containers are told."""

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
    """Of static-pools. `pools` is empty until file or directory was read."""

    pools: Mapping[str, Pool] = field(default_factory=dict)
    conf_file: str = ""  # ConfFilePath: YAML with pools
    conf_dir: str = "/etc/cmk"  # ConfDirPath: CMK's tree of directories
    label_node: bool = False  # LabelNode
    taint_node: bool = False  # TaintNode
