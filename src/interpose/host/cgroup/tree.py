"""The cgroups of this node: values by directory and parameter, whichever version the kernel has.

Directories are relative to the root of the hierarchies, as `paths` makes them; nothing outside is read or written, and
the root itself is never written. Errors are the system's: a directory that is gone is FileNotFoundError, a file that
this kernel does not have is ENOTSUP, everything else is the kernel's answer. A value that no kernel takes, and a text
that no kernel writes, is a ValueError.
"""

import errno
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, Literal, NamedTuple, NoReturn

from interpose.core.model.cgroup import CGROUP_ROOT, CLEAR, KubeQos, Parameter, Value
from interpose.errors import ConfigError
from interpose.host.cgroup import parameters
from interpose.host.cgroup.files import CgroupFiles
from interpose.host.cgroup.parameters import TABLE
from interpose.host.cgroup.paths import CgroupLayout, Driver, check_confined

# Hierarchies of v1 in the order in which children and processes are looked for.
_CONTROLLERS: Final = ("cpu", "cpuset", "memory")
_THREADS: Final[Mapping[int, str]] = {1: "tasks", 2: "cgroup.threads"}


class WholeSet(str):
    """A cpuset of v1 that has all that its parent has: what a cleared one looks like there. Otherwise a plain text."""

    __slots__ = ()


class _ParameterFile(NamedTuple):
    """The file of a parameter, looked up once: reads are many."""

    base: str  # of its hierarchy; empty if that is not mounted
    file: str
    parse: Callable[[str], Value]


def detect_version(files: CgroupFiles, root: str = CGROUP_ROOT) -> Literal[1, 2]:
    """Which cgroups are mounted there; ConfigError if none are. v1 with v2 beside it (hybrid) is v1."""
    if files.exists(f"{root}/cgroup.controllers"):
        return 2
    if _hierarchies(files, root):
        return 1
    raise ConfigError(
        f"cgroup root {root}: holds neither cgroup v2 (no file cgroup.controllers) nor a directory of a v1 controller "
        f"({', '.join(_CONTROLLERS)})"
    )


def detect_layout(tree: "CgroupTree", root_name: str = "kubepods") -> CgroupLayout | None:
    """How the kubelet names cgroups, by what is there; None if it has made none yet.

    A change of its driver leaves the old directories behind, so of two the one with more in it counts.
    """
    layouts = [CgroupLayout(driver=driver, root=root_name) for driver in Driver]
    present = [layout for layout in layouts if tree.exists(layout.qos_directory(KubeQos.GUARANTEED))]
    return max(present, key=lambda layout: _population(tree, layout), default=None)


def _population(tree: "CgroupTree", layout: CgroupLayout) -> int:
    count = 0
    for qos in KubeQos:
        with suppress(FileNotFoundError):
            count += len(tree.children(layout.qos_directory(qos)))
    return count


def _hierarchies(files: CgroupFiles, root: str) -> dict[str, str]:
    """The v1 hierarchy of each controller, by name: they may be mounted alone or joined ("cpu,cpuacct")."""
    try:
        names = sorted(files.directories(root))
    except OSError:
        return {}
    found = {controller: f"{root}/{name}" for name in reversed(names) for controller in name.split(",")}
    return {controller: found[controller] for controller in _CONTROLLERS if controller in found}


class CgroupTree:
    """Reads and writes cgroups below one root. Has no state of its own; may be used from several threads."""

    def __init__(self, files: CgroupFiles, root: str = CGROUP_ROOT, *, version: int, page: int | None = None) -> None:
        self.version = version
        self.root = root = os.path.realpath(root)  # below it no link is followed
        self._files = files
        self._page = os.sysconf("SC_PAGE_SIZE") if page is None else page
        # v2 has one hierarchy for all, which is the root.
        by_controller = _hierarchies(files, root) if version == 1 else dict.fromkeys(_CONTROLLERS, root)
        self._by_controller = by_controller
        self._bases = tuple(dict.fromkeys(by_controller.values()))
        self._parameter_files: dict[Parameter, _ParameterFile] = {
            parameter: _ParameterFile(
                by_controller.get(row.controller, ""), row.form(version).file, row.form(version).parse
            )
            for parameter, row in TABLE.items()
        }

    @property
    def watch_root(self) -> str:
        """The hierarchy in which directories that come and go are watched: the CPU controller's on v1."""
        return self._bases[0] if self._bases else self.root

    # -- values

    def read(self, directory: str, parameter: Parameter) -> Value:
        """The value in force. A cpuset without a value of its own is CLEAR."""
        value = self._parsed(check_confined(directory), parameter)
        if self.version == 1 and isinstance(value, str):
            with suppress(OSError, ValueError):  # an odd parent is no reason to have no value
                return WholeSet(value) if value == self._parents_set(directory, parameter) else value
        return value

    def text(self, directory: str, controller: str, file: str) -> str:
        """What a file of a controller has that is no parameter; FileNotFoundError also if the kernel has none such."""
        base = self._controller_base(controller, file)
        return self._files.read(f"{_joined(base, directory)}/{file}")

    def put_text(self, directory: str, controller: str, file: str, text: str) -> None:
        """Write such a file; errors as `text`, and the kernel's own."""
        base = self._controller_base(controller, file)
        self._files.write(f"{base}/{check_confined(directory)}/{file}", text)

    def _controller_base(self, controller: str, file: str) -> str:
        base = self._by_controller.get(controller)
        if base is None:
            raise FileNotFoundError(errno.ENOENT, "its hierarchy is not mounted", file)
        return base

    def write(self, directory: str, parameter: Parameter, value: Value) -> None:
        """Put a value there. CLEAR of a cpuset leaves it with what its parent has."""
        check_confined(directory)
        try:
            path = self._path(directory, parameter)
            if value is CLEAR and self.version == 1 and TABLE[parameter].is_list:
                value = self._parents_set(directory, parameter)
            text = parameters.render(parameter, value, self.version)
            if (join := TABLE[parameter].form(self.version).join) is not None:
                text = join(text, self._files.read(path))
            self._files.write(path, text)
        except OSError as error:
            self._explain(error, directory, parameter)

    def same(self, parameter: Parameter, found: Value | None, wanted: Value) -> bool:
        """Whether what `read` gave is what writing the wanted value leads to."""
        if wanted is CLEAR and isinstance(found, WholeSet):
            return True
        return parameters.same(parameter, found, wanted, self.version, self._page)

    def same_by_runtime(self, parameter: Parameter, found: Value | None, wanted: Value) -> bool:
        """The same for a value that a runtime writes; it has conversions of its own."""
        return self.same(parameter, found, wanted) or parameters.same_by_runtime(
            parameter, found, wanted, self.version, self._page
        )

    def supports(self, directory: str, parameter: Parameter) -> bool:
        """Whether the kernel has this parameter there; an empty directory asks about the root."""
        place = self._parameter_files[parameter]
        return bool(place.base) and self._files.exists(f"{_joined(place.base, directory)}/{place.file}")

    # -- directories

    def exists(self, directory: str) -> bool:
        """Whether there is such a directory, in any hierarchy."""
        check_confined(directory)
        return any(self._files.exists(f"{base}/{directory}") for base in self._bases)

    def children(self, directory: str) -> list[str]:
        """Names of the directories in a directory; an empty one asks about the root."""
        return self._first_base(directory, self._files.directories)

    def processes(self, directory: str) -> list[int]:
        """Processes in this directory, not in those below. What runs outside our PID namespace is left out."""
        return self._numbers(check_confined(directory), "cgroup.procs")

    def threads(self, directory: str) -> list[int]:
        """Threads in this directory, not in those below."""
        return self._numbers(check_confined(directory), _THREADS[self.version])

    def allowed_cpus(self, directory: str) -> str:
        """CPUs that can be used there: what is in force in the directory, or in its nearest ancestor that has some."""
        return self._allowed(directory, Parameter.CPUSET_CPUS)

    def allowed_mems(self, directory: str) -> str:
        """Memory nodes that can be used there."""
        return self._allowed(directory, Parameter.CPUSET_MEMS)

    # -- inside

    def _path(self, directory: str, parameter: Parameter) -> str:
        place = self._parameter_files[parameter]
        if not place.base:
            raise FileNotFoundError(errno.ENOENT, "its hierarchy is not mounted", place.file)
        return f"{place.base}/{directory}/{place.file}"

    def _parsed(self, directory: str, parameter: Parameter) -> Value:
        try:
            text = self._files.read(self._path(directory, parameter))
        except OSError as error:
            self._explain(error, directory, parameter)
        try:
            return self._parameter_files[parameter].parse(text)
        except ValueError:
            return parameters.parse(parameter, text, self.version)  # fails as well, and says what it is about

    def _explain(self, error: OSError, directory: str, parameter: Parameter) -> NoReturn:
        """Tell a directory that is gone from a file that this kernel does not have."""
        if error.errno == errno.ENODEV:  # removed while its file was open
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), directory) from error
        if error.errno != errno.ENOENT:
            raise error
        base = self._parameter_files[parameter].base
        if self._files.exists(f"{base}/{directory}") if base else self.exists(directory):
            raise OSError(errno.ENOTSUP, f"no {self._parameter_files[parameter].file} here", directory) from error
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), directory) from error

    def _parents_set(self, directory: str, parameter: Parameter) -> Value:
        place = self._parameter_files[parameter]
        parent = directory.rpartition("/")[0]
        return place.parse(self._files.read(f"{_joined(place.base, parent)}/{place.file}"))

    def _first_base(self, directory: str, look: Callable[[str], list[str]]) -> list[str]:
        """The answer of the first hierarchy that has the directory."""
        for base in self._bases:
            try:
                return look(_joined(base, directory))
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENODEV):
                    raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), directory)

    def _numbers(self, directory: str, file: str) -> list[int]:
        words = self._first_base(directory, lambda place: self._files.read(f"{place}/{file}").split())
        return [number for word in words if (number := int(word))]

    def _allowed(self, directory: str, parameter: Parameter) -> str:
        base = self._parameter_files[parameter].base
        if directory:
            check_confined(directory)
        while base:
            for file in TABLE[parameter].effective:
                try:
                    text = self._files.read(f"{_joined(base, directory)}/{file}").strip()
                except OSError:
                    continue
                if text:
                    return text
            if not directory:
                break
            directory = directory.rpartition("/")[0]
        return ""


def _joined(base: str, directory: str) -> str:
    return f"{base}/{check_confined(directory)}" if directory else base
