"""Making a recorded request fit another place and time: uids, log files, mounts.

A runtime takes the name, namespace, uid and attempt of a pod together as its name, and one of a pod that is still there
is refused. So only the uid gets a suffix, wherever the configuration repeats it: names stay readable.

Pure: whether a file exists is asked of a function that is given.
"""

import posixpath
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final

from interpose.core.model.kubernetes_names import POD_UID
from interpose.dump.redact.patterns import REDACTED
from interpose.dump.replay.visit import parts, texts, type_name

_SLICE: Final = ".slice"
# Fields that repeat the uid of a pod as a part of a path.
_PATHS: Final = {"PodSandboxConfig": ("log_directory",), "LinuxPodSandboxConfig": ("cgroup_parent",)}
_LABELS: Final = ("labels", "label_selector")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """Where calls are made again."""

    exists: Callable[[str], bool]
    suffix: str = ""  # of uids
    logs: str = ""  # log files go below this; empty: where they were, if that is there
    drop_mounts: bool = False  # leave out mounts of what does not exist here


@dataclass(slots=True, kw_only=True)
class Adaptation:
    """What was done to a request."""

    redacted: int = 0  # values that are not what was sent
    dropped_mounts: list[str] = field(default_factory=list)
    missing_mounts: list[str] = field(default_factory=list)
    dropped_logs: list[str] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)  # to be made before the call


def uids(message: Any) -> set[str]:
    """The uids of the pods that a request is about."""
    return {part.uid for part in parts(message) if type_name(part) == "PodSandboxMetadata" and part.uid}


def free_suffix(wanted: Collection[str], taken: Collection[str]) -> str:
    """The suffix for all uids of a plan such that none is taken; none at all if that will do."""
    number = 0
    while True:
        suffix = f"-r{number}" if number else ""
        if not any(uid + suffix in taken for uid in wanted):
            return suffix
        number += 1


def adapt(message: Any, target: TargetOptions) -> Adaptation:
    """Change a request so that it can be made here."""
    done = Adaptation(redacted=sum(_is_redacted(text) for text in texts(message)))
    _adapt_logs(message, target, done)
    _adapt_mounts(message, target, done)
    if target.suffix:
        _rename(message, target.suffix)
    # After renaming: the uid is a part of the path.
    done.directories += _log_directories(message) if target.logs else ()
    return done


def _is_redacted(text: str | bytes) -> bool:
    return (REDACTED.encode() in text) if isinstance(text, bytes) else (REDACTED in text)


def _rename(message: Any, suffix: str) -> None:
    known = uids(message)
    for part in parts(message):
        name = type_name(part)
        if name == "PodSandboxMetadata" and part.uid:
            part.uid += suffix
        for path in _PATHS.get(name, ()):
            setattr(part, path, _renamed(getattr(part, path), known, suffix))
        for field_name in _LABELS:
            labels = getattr(part, field_name, None)
            if labels is not None and POD_UID in labels:
                labels[POD_UID] += suffix


def _renamed(path: str, known: Collection[str], suffix: str) -> str:
    """A path with the suffix behind the uids in it; slices of systemd have them with underscores."""
    written = _flat if path.endswith(_SLICE) else str
    for uid in known:
        path = path.replace(written(uid), written(uid + suffix))
    return path


def _flat(uid: str) -> str:
    return uid.replace("-", "_")


def _adapt_logs(message: Any, target: TargetOptions, done: Adaptation) -> None:
    dropped = False
    for part in parts(message):
        if type_name(part) != "PodSandboxConfig" or not part.log_directory:
            continue
        if target.logs:
            part.log_directory = posixpath.join(target.logs, posixpath.basename(part.log_directory.rstrip("/")))
        elif not target.exists(part.log_directory):
            done.dropped_logs.append(part.log_directory)
            part.ClearField("log_directory")
            dropped = True
    for part in parts(message) if dropped else ():
        if type_name(part) == "ContainerConfig":
            part.ClearField("log_path")


def _log_directories(message: Any) -> list[str]:
    """Where a runtime makes the log files: directories are left to its caller."""
    found = list(parts(message))
    directories = [
        config.log_directory for config in found if type_name(config) == "PodSandboxConfig" and config.log_directory
    ]
    paths = [config.log_path for config in found if type_name(config) == "ContainerConfig" and config.log_path]
    return [
        posixpath.join(directory, posixpath.dirname(path)).rstrip("/")
        for directory in directories
        for path in paths or [""]
    ]


def _adapt_mounts(message: Any, target: TargetOptions, done: Adaptation) -> None:
    for part in parts(message):
        if type_name(part) != "ContainerConfig":
            continue
        missing = [mount for mount in part.mounts if mount.host_path and not target.exists(mount.host_path)]
        if not target.drop_mounts:
            done.missing_mounts += [mount.host_path for mount in missing]
            continue
        done.dropped_mounts += [mount.host_path for mount in missing]
        for mount in missing:
            part.mounts.remove(mount)
