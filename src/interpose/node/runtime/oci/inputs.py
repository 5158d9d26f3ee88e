"""Reads the inputs of a specification: of the machine once, and for each container users, devices, files.

Blocking, for threads. A feature of the machine that cannot be read is taken as missing.
"""

import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from interpose.core.model.cgroup import CGROUP_ROOT
from interpose.node.runtime.fs.mounts import prepare_sources
from interpose.node.runtime.fs.scoped_path import read_inside
from interpose.node.runtime.oci import capabilities, devices, seccomp, users
from interpose.node.runtime.oci.seccomp import ARCHITECTURES
from interpose.node.runtime.oci.spec_types import HostFacts, OciDevice, SpecError
from interpose.node.runtime.oci.users import ResolvedUser

_LARGEST_PROFILE: Final = 4 << 20
_DEEPEST_PROFILE: Final = 100
_LOWEST: Final = -1000
_PLACES: Final = ("dev", "proc", "sys")
_WHERE: Final = "linux.security_context.seccomp"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecInputs:
    """The inputs of `spec.container_spec` besides the configuration."""

    user: ResolvedUser
    devices: tuple[OciDevice, ...]
    sources: Mapping[str, str]
    seccomp_profile: Mapping[str, Any] | None


def read_inputs(
    config: Any, rootfs: str, image_user: str, on_path: Callable[[str], None] = lambda _path: None
) -> SpecInputs:
    """Read the inputs of a container whose root file system exists. SpecError names a bad field.

    `on_path` is called with each path of the configuration before it is accessed: it may hang.
    """
    context = config.linux.security_context
    _refuse_links(rootfs)
    return SpecInputs(
        user=users.resolve(
            context, image_user, read_inside(rootfs, "etc/passwd") or "", read_inside(rootfs, "etc/group") or ""
        ),
        devices=_devices(config, on_path),
        sources=prepare_sources(config.mounts, on_path=on_path),
        seccomp_profile=_profile(seccomp.profile_file(context), on_path),
    )


def _refuse_links(rootfs: str) -> None:
    """OCI runtimes create links and devices in these folders, some of them wherever a link of the image leads."""
    for name in _PLACES:
        if Path(rootfs, name).is_symlink():
            raise SpecError("image", f"has a link in the place of /{name}")


def _devices(config: Any, on_path: Callable[[str], None]) -> tuple[OciDevice, ...]:
    """The devices of the configuration; a privileged container also has all devices of the machine."""
    host_devices = devices.all_devices() if config.linux.security_context.privileged else ()
    wanted = devices.wanted_devices(config.devices, on_path)
    return tuple({device.path: device for device in (*host_devices, *wanted)}.values())


def _profile(path: str | None, on_path: Callable[[str], None]) -> Mapping[str, Any] | None:
    if path is None:
        return None
    on_path(path)
    try:
        with Path(path).open("rb") as file:
            document = json.loads(file.read(_LARGEST_PROFILE))
    except (OSError, ValueError, RecursionError) as error:
        raise SpecError(_WHERE, f"profile {path} cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise SpecError(_WHERE, f"profile {path} is not a JSON object")
    if _is_deeper(document, _DEEPEST_PROFILE):
        raise SpecError(_WHERE, f"profile {path} is nested deeper than any profile")
    return document


def _is_deeper(document: Any, levels: int) -> bool:
    """Whether lists and objects are nested deeper than that: JSON that can be parsed cannot always be written."""
    found = [document]
    for _ in range(levels):
        inside = (value.values() if isinstance(value, dict) else value for value in found)
        found = [value for values in inside for value in values if isinstance(value, dict | list)]
    return bool(found)


def read_host(
    *, cgroup_version: int, cgroup_driver: str = "cgroupfs", cgroup_root: str = CGROUP_ROOT, proc: str = "/proc"
) -> HostFacts:
    """The features of this machine, and our rights on it."""
    status = _status(_text(f"{proc}/self/status"))
    permitted = int(status.get("CapPrm", "0"), 16) & int(status.get("CapBnd", "0"), 16)
    ours = capabilities.from_mask(permitted)
    own_score = _text(f"{proc}/self/oom_score_adj").strip()
    return HostFacts(
        hostname=platform.node() or "localhost",
        cgroup_version=cgroup_version,
        cgroup_driver=cgroup_driver,
        swap=_counts_swap(cgroup_version, cgroup_root, proc),
        hugetlb=_has_hugetlb(cgroup_version, cgroup_root),
        capabilities=ours,
        architectures=ARCHITECTURES.get(platform.machine(), ()),
        seccomp="Seccomp" in status,
        apparmor=_text("/sys/module/apparmor/parameters/enabled").strip() == "Y",
        selinux=Path("/sys/fs/selinux/enforce").exists(),
        lowest_oom_score=_LOWEST if "CAP_SYS_RESOURCE" in ours else int(own_score or 0),
    )


def _status(text: str) -> dict[str, str]:
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def _counts_swap(version: int, root: str, proc: str) -> bool:
    """Whether swap can be limited. The root of v2 does not have the file: our cgroup and the root's children do."""
    if version == 1:
        return Path(f"{root}/memory/memory.memsw.limit_in_bytes").exists()
    own = next((line[3:] for line in _text(f"{proc}/self/cgroup").splitlines() if line.startswith("0::")), "")
    try:
        children = [entry.path for entry in os.scandir(root) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        children = []
    return any(Path(f"{folder}/memory.swap.max").exists() for folder in (f"{root}{own}", *children))


def _has_hugetlb(version: int, root: str) -> bool:
    if version == 1:
        return Path(f"{root}/hugetlb/cgroup.procs").exists()
    return "hugetlb" in _text(f"{root}/cgroup.controllers").split()


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
