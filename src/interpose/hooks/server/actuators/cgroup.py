"""Values that are files of the kernel: those of cgroups, and the two switches of the node.

What `host.cgroup` calls a ValueError is an OSError here, as for every actuator: the reader of the error wants to know
what is wrong with the value, not who noticed.
"""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Final

from interpose.core.model.cgroup import Level, Parameter, Value
from interpose.hooks.server.targets import ActuatorTarget
from interpose.host.cgroup.files import CgroupFiles
from interpose.host.cgroup.parameters import TABLE
from interpose.host.cgroup.tree import CgroupTree

_SYSCTLS: Final[Mapping[Parameter, str]] = MappingProxyType(
    {
        Parameter.SCHED_GROUP_IDENTITY: "sys/kernel/sched_group_identity_enabled",
        Parameter.SCHED_CORE: "sys/kernel/sched_core",
    }
)
_SWITCH: Final = ("0", "1")


class _DivergingValue(int):
    """A pod's value that a container of it does not have. Otherwise a plain number."""

    __slots__ = ()


class CgroupActuator:
    """Every parameter of the table, on the directory of a target."""

    parameters: Final = frozenset(TABLE)

    def __init__(self, tree: CgroupTree) -> None:
        self._tree = tree

    def read(self, target: ActuatorTarget, parameter: Parameter) -> Value:
        """The value in force."""
        try:
            return self._tree.read(_directory(target), parameter)
        except ValueError as error:
            raise OSError(errno.EIO, str(error)) from error

    def write(self, target: ActuatorTarget, parameter: Parameter, value: Value) -> None:
        """Put a value there."""
        try:
            self._tree.write(_directory(target), parameter, value)
        except ValueError as error:
            raise OSError(errno.EINVAL, str(error)) from error

    def same(self, parameter: Parameter, found: Value | None, wanted: Value) -> bool:
        """Whether what is found is what writing the wanted value leads to, on this kernel."""
        return self._tree.same(parameter, found, wanted)

    def same_by_runtime(self, parameter: Parameter, found: Value | None, wanted: Value) -> bool:
        """Whether what is found is what a runtime makes of the wanted value, on this kernel."""
        return self._tree.same_by_runtime(parameter, found, wanted)


class BvtActuator(CgroupActuator):
    """`cpu.bvt_warp_ns`: of a pod, its containers have it too.

    They inherit it when they are made and keep it when the pod's changes, so a pod that goes back to zero would leave
    them behind.
    """

    def read(self, target: ActuatorTarget, parameter: Parameter) -> Value:
        """The value of the directory; told apart if one below a pod has another."""
        value = super().read(target, parameter)
        if isinstance(value, int) and any(other != value for other in self._container_values(target, parameter)):
            return _DivergingValue(value)
        return value

    def same(self, parameter: Parameter, found: Value | None, wanted: Value) -> bool:
        """Whether everybody has it. Somebody who was ended between two writes leaves a pod alone with its value."""
        return not isinstance(found, _DivergingValue) and super().same(parameter, found, wanted)

    def write(self, target: ActuatorTarget, parameter: Parameter, value: Value) -> None:
        """Put it there and, for a pod, into the directories of its containers."""
        super().write(target, parameter, value)
        for directory in self._containers(target):
            with suppress(FileNotFoundError):  # it ended meanwhile
                self._tree.write(directory, parameter, value)

    def _container_values(self, target: ActuatorTarget, parameter: Parameter) -> Iterator[Value]:
        for directory in self._containers(target):
            with suppress(OSError, ValueError):
                yield self._tree.read(directory, parameter)

    def _containers(self, target: ActuatorTarget) -> list[str]:
        if target.level is not Level.POD:
            return []
        return [f"{target.directory}/{name}" for name in self._tree.children(target.directory)]


class SysctlActuator:
    """The switches of the node that some kernels have. They are the same for every target."""

    parameters: Final = frozenset(_SYSCTLS)

    def __init__(self, files: CgroupFiles, proc_root: str = "/proc") -> None:
        self._files = files
        self._proc = proc_root

    def read(self, target: ActuatorTarget, parameter: Parameter) -> Value:
        """The value in force."""
        with _missing_is_unsupported(parameter):
            text = self._files.read(f"{self._proc}/{_SYSCTLS[parameter]}").strip()
        if text not in _SWITCH:
            raise OSError(errno.EIO, f"{parameter}: cannot read {text[:80]!r}")
        return int(text)

    def write(self, target: ActuatorTarget, parameter: Parameter, value: Value) -> None:
        """Put a value there: 0 or 1."""
        if str(value) not in _SWITCH:
            raise OSError(errno.EINVAL, f"{parameter}: {value} is neither 0 nor 1")
        with _missing_is_unsupported(parameter):
            self._files.write(f"{self._proc}/{_SYSCTLS[parameter]}", str(value))

    def same(self, parameter: Parameter, found: Value | None, wanted: Value) -> bool:
        """A switch has no shades."""
        return found == wanted


def _directory(target: ActuatorTarget) -> str:
    if not target.directory:
        raise FileNotFoundError(errno.ENOENT, "it has no cgroup", target.name or target.key)
    return target.directory


@contextmanager
def _missing_is_unsupported(parameter: Parameter) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise OSError(errno.ENOTSUP, f"this kernel has no {parameter}") from error
