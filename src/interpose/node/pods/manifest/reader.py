"""Pods as people write them: standard manifests, with the ConfigMaps and Secrets that stand beside them.

All problems of all documents are reported at once, each with its file, line and key. What the API of Pods has and a
node without a cluster cannot do is refused by name; what a cluster notes about a pod (status, managedFields, ...) and
how it was scheduled is left aside, so that a pod that was exported can be read. Reading files is the only IO here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from interpose.config.documents.fields import Report
from interpose.config.documents.objects import Found, find_objects
from interpose.config.documents.yaml import MAX_FILE_BYTES, parse_document, read_text, split_documents
from interpose.errors import ConfigError
from interpose.node.pods.manifest.objects import CONFIG_MAP, SECRET, ConfigObject, read_config_object
from interpose.node.pods.manifest.pods import read_pod
from interpose.node.pods.spec import PodSpec

_KINDS: Final = ("Pod", CONFIG_MAP, SECRET)
_SUFFIXES: Final = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderPods:
    """The pods of a folder, by their files; a file with problems gives none, the others are as good as ever. Files that
    hold nothing at all are `empty`."""

    pods: tuple[PodSpec, ...] = ()
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    empty: frozenset[str] = frozenset()


def read_pods(text: str, where: str) -> tuple[PodSpec, ...]:
    """The pods of a text. ConfigError with everything that is wrong with any of its documents."""
    found = _combined({where: _Source(where, text)})
    problems = [problem for part in found.problems.values() for problem in part]
    if not found.pods and not problems:
        problems.append(f"{where}: holds no pods")
    if problems:
        raise ConfigError(problems)
    return found.pods


def read_pod_file(path: str) -> tuple[PodSpec, ...]:
    """The pods of a file."""
    return read_pods(read_text(path, MAX_FILE_BYTES), f"file {path}")


def read_pod_folder(path: str) -> FolderPods:
    """The pods of all .yaml, .yml and .json files of a folder, hidden ones left out. ConfigMaps and Secrets of one file
    are for the pods of all. ConfigError if the folder itself cannot be read."""
    try:
        files = sorted(one for one in Path(path).iterdir() if one.suffix in _SUFFIXES and not one.name.startswith("."))
    except OSError as error:
        raise ConfigError(f"folder {path}: cannot be read: {error.strerror}") from None
    texts: dict[str, str] = {}
    problems: dict[str, tuple[str, ...]] = {}
    for file in files:
        try:
            texts[str(file)] = read_text(str(file), MAX_FILE_BYTES)
        except ConfigError as error:
            problems[str(file)] = tuple(error.problems)
    found = combine_manifests(texts)
    return FolderPods(pods=found.pods, problems={**problems, **found.problems})


def combine_manifests(texts: Mapping[str, str]) -> FolderPods:
    """The pods of several files whose texts are known, by the names of the files. What two give is the first one's.
    Pure."""
    return _combined({name: _Source(f"file {name}", text) for name, text in texts.items()})


def _combined(sources: "Mapping[str, _Source]") -> FolderPods:
    """Of what is given twice the first one counts, and the file of the other has a problem."""
    holders: dict[tuple[str, str, str], ConfigObject] = {}
    for source in sources.values():
        for one in source.holders:
            first = holders.setdefault((one.kind, one.namespace, one.name), one)
            if first is not one:
                title = f"{one.kind} {one.namespace}/{one.name}"
                source.problems.append(f"{one.title}: {title} is given twice, first in {first.title}")
    pods: list[PodSpec] = []
    seen: dict[str, PodSpec] = {}
    for source in sources.values():
        of_file = source.read(tuple(holders.values()))
        for pod in of_file:
            for name in (f"pod {pod.title}", f"uid {pod.uid}"):
                if (first_pod := seen.setdefault(name, pod)) is not pod:
                    source.problems.append(f"{source.where}: {name} is given twice, first in {first_pod.source}")
        if not source.problems:
            pods += of_file
    return FolderPods(
        pods=tuple(pods),
        problems={name: tuple(one.problems) for name, one in sources.items() if one.problems},
        empty=frozenset(name for name, one in sources.items() if one.empty),
    )


class _Source:
    """A text: ConfigMaps and Secrets are read at once, pods when those of all texts are known."""

    def __init__(self, where: str, text: str) -> None:
        self.where = where
        self.problems: list[str] = []
        self.holders: list[ConfigObject] = []
        self._pods: list[tuple[str, Found]] = []
        try:
            for title, document in split_documents(text, where):
                self._look(title, document)
        except ConfigError as error:
            self.problems += error.problems

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it."""
        return not (self.problems or self.holders or self._pods)

    def _look(self, title: str, document: str) -> None:
        report = Report(title)
        try:
            for found in find_objects(parse_document(document, title), "", report, _KINDS):
                if found.kind == "Pod":
                    self._pods.append((title, found))
                elif (holder := read_config_object(found, report, title)) is not None:
                    self.holders.append(holder)
            report.settle()
        except ConfigError as error:
            self.problems += error.problems

    def read(self, holders: tuple[ConfigObject, ...]) -> tuple[PodSpec, ...]:
        """The pods; what is wrong with one is noted."""
        found: list[PodSpec] = []
        for title, item in self._pods:
            report = Report(title)
            pod = read_pod(item, holders, report, self.where.removeprefix("file "))
            try:
                report.settle()
            except ConfigError as error:
                self.problems += error.problems
            if pod is not None:
                found.append(pod)
        return tuple(found)
