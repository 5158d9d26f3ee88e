"""Which devices and mounts of a create request say where a container should be, by its pod's annotations too. Pure.

Read-only mounts, files that the kubelet makes, and libraries of the host do not: they are read once, or by everybody.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from interpose.config.documents.yaml import DocumentNode, parse_document
from interpose.core.model.text import did_you_mean, quoted
from interpose.core.policy.annotations import PolicyAnnotation, find_annotation
from interpose.core.policy.expressions import glob_problem, matches_glob
from interpose.core.policy.request import Request
from interpose.errors import ConfigError

ANNOTATION: Final = "topologyhints"
DENY: Final = "deny.topologyhints"
ALLOW: Final = "allow.topologyhints"

_MAX_TEXT: Final = 16 * 1024  # characters of an annotation
_MAX_PATHS: Final = 64  # of a container that are looked at; more are of a mistake, or meant to keep the relay busy
# In the container or on the host.
_IGNORED: Final = (
    "/.nri-resource-policy",
    "/.cri-resmgr",
    "/etc/",
    "/dev/termination-log",
    "/lib/",
    "/lib64/",
    "/usr/lib/",
    "/usr/lib32/",
    "/usr/lib64/",
)
# Volumes whose files the kubelet makes itself, wherever its folder is.
_MADE_BY_KUBELET: Final = re.compile(
    r"/pods/[^/]+/volumes/kubernetes\.io~(configmap|secret|projected|downward-api|empty-dir)/"
)


class HintKind(StrEnum):
    """Where hints come from; a word of the annotation for each."""

    MOUNTS = "mounts"
    DEVICES = "devices"
    POD_RESOURCES = "pod-resources"  # nothing here asks the kubelet for these


_EVERY_KIND: Final = frozenset(HintKind)
_WORDS: Final = {
    "all": _EVERY_KIND,
    "none": frozenset[HintKind](),
    **{kind.value: frozenset({kind}) for kind in HintKind},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRules:
    """Paths of the host or of sysfs: beginnings of them, or globs of path.Match."""

    globs: bool = False
    paths: tuple[str, ...] = ()

    def match(self, *paths: str) -> bool:
        """Whether one of these paths is meant."""
        return any(
            matches_glob(rule, path) if self.globs else path.startswith(rule) for rule in self.paths for path in paths
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HintRules:
    """What a container wants hints of."""

    kinds: frozenset[HintKind] = _EVERY_KIND
    deny: PathRules = PathRules()
    allow: PathRules = PathRules()

    def counts(self, path: str, device: str) -> bool:
        """Whether a path of the host counts that is of this device of sysfs; what is allowed may not be denied."""
        return not self.deny.match(path, device) or self.allow.match(path, device)


@dataclass(frozen=True, slots=True)
class HintPath:
    """A path of the host that a container uses."""

    path: str
    kind: HintKind


def read_rules(request: Request) -> HintRules:
    """The rules of a container; ValueError that names the annotation which cannot be read."""
    kinds = find_annotation(request, ANNOTATION)
    return HintRules(
        kinds=_EVERY_KIND if kinds is None else _read_kinds(kinds),
        deny=_read_paths(find_annotation(request, DENY)),
        allow=_read_paths(find_annotation(request, ALLOW)),
    )


def find_paths(config: Any, rules: HintRules) -> tuple[HintPath, ...]:
    """Paths that count, of the ContainerConfig of a create request: devices first, which answer at once."""
    found: dict[HintPath, None] = {}
    if HintKind.DEVICES in rules.kinds:
        writable = (device.host_path for device in config.devices if "w" in device.permissions)
        found.update((HintPath(path, HintKind.DEVICES), None) for path in writable)
    if HintKind.MOUNTS in rules.kinds:
        mounts = (mount.host_path for mount in config.mounts if not mount.readonly and _matters(mount))
        found.update((HintPath(path, HintKind.MOUNTS), None) for path in mounts)
    usable = (path for path in found if path.path.startswith("/") and "\0" not in path.path)
    certainly = (path for path in usable if rules.allow.paths or rules.counts(path.path, ""))
    return tuple(certainly)[:_MAX_PATHS]


def _matters(mount: Any) -> bool:
    paths = (mount.container_path, mount.host_path)
    return not any(path.startswith(_IGNORED) for path in paths) and not _MADE_BY_KUBELET.search(mount.host_path)


def _read_kinds(annotation: PolicyAnnotation) -> frozenset[HintKind]:
    try:
        return _EVERY_KIND if annotation.flag() else frozenset()
    except ValueError:
        return frozenset[HintKind]().union(*(_WORDS[word] for word in annotation.choices(_WORDS)))


def _read_paths(annotation: PolicyAnnotation | None) -> PathRules:
    if annotation is None:
        return PathRules()
    if len(annotation.text) > _MAX_TEXT:
        raise ValueError(f"annotation {annotation.key}: has {len(annotation.text)} characters, more than {_MAX_TEXT}")
    try:
        root = parse_document(annotation.text, f"annotation {annotation.key}")
    except ConfigError as error:
        raise ValueError(str(error)) from None
    entries = dict(root.entries)
    if root.tag != "map" or len(entries) != len(root.entries):
        raise annotation.error("is no map such as {type: prefix, paths: [/dev/sda]}")
    if unknown := [key for key in entries if key not in ("type", "paths")]:
        raise annotation.error(f"has {quoted(unknown[0])}, which is none of type, paths")
    kind, paths = entries.get("type", DocumentNode(tag="null")), entries.get("paths", DocumentNode(tag="null"))
    if kind.text not in ("prefix", "glob"):
        raise annotation.error(f"has type {quoted(kind.text)}, which is neither prefix nor glob{_guess(kind.text)}")
    rules = PathRules(globs=kind.text == "glob", paths=tuple(item.text for item in paths.items))
    if paths.tag != "list" or not all(rules.paths):
        raise annotation.error("has no list of paths")
    if problem := _find_problem(rules):
        raise annotation.error(f"has a {problem}")
    return rules


def _guess(word: str) -> str:
    return did_you_mean(word, ("prefix", "glob"))


def _find_problem(rules: PathRules) -> str:
    problems: Iterable[str] = map(glob_problem, rules.paths) if rules.globs else ()
    return next(filter(None, problems), "")
