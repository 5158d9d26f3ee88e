"""Pods as people write them: standard manifests, with the ConfigMaps and Secrets that stand beside them.

All problems of all documents are reported at once, each with its file, line and key. What the API of Pods has and a
node without a cluster cannot do is refused by name; what a cluster notes about a pod (status, managedFields, ...) and
how it was scheduled is left aside, so that a pod that was exported can be read. With `resources_only` only what bears
on resources is read (`manifest.resource_pods`), for pods that are planned and not run. Reading files is the only IO.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from interpose.config.documents.fields import Report
from interpose.config.documents.objects import Found, find_objects
from interpose.config.documents.yaml import MAX_FILE_BYTES, parse_document, read_text, split_documents
from interpose.errors import ConfigError
from interpose.node.pods.manifest.objects import CONFIG_MAP, SECRET, ConfigObject, read_config_object
from interpose.node.pods.manifest.pods import read_pod
from interpose.node.pods.manifest.resource_pods import read_resource_pod
from interpose.node.pods.spec import PodSpec

_KINDS: Final = ("Pod", CONFIG_MAP, SECRET)
_SUFFIXES: Final = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderPods:
    """The pods of a folder, by their files. A file with problems gives no pods, and spoils no other file. Files that
    hold nothing at all are `empty`."""

    pods: tuple[PodSpec, ...] = ()
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    empty: frozenset[str] = frozenset()


def read_pods(text: str, where: str, *, resources_only: bool = False) -> tuple[PodSpec, ...]:
    """The pods of a text. ConfigError with everything that is wrong with any of its documents."""
    found = _combine({where: _Source(where, text, resources_only=resources_only)})
    problems = [problem for part in found.problems.values() for problem in part]
    if not found.pods and not problems:
        problems.append(f"{where}: holds no pods")
    if problems:
        raise ConfigError(problems)
    return found.pods


def read_pod_file(path: str, *, resources_only: bool = False) -> tuple[PodSpec, ...]:
    """The pods of a file. ConfigError also if the file cannot be read."""
    return read_pods(read_text(path, MAX_FILE_BYTES), f"file {path}", resources_only=resources_only)


def read_pod_folder(path: str) -> FolderPods:
    """The pods of all .yaml, .yml and .json files of a folder, hidden ones left out. ConfigMaps and Secrets of one file
    are for the pods of all. ConfigError if the folder itself cannot be read."""
    try:
        files = sorted(
            file for file in Path(path).iterdir() if file.suffix in _SUFFIXES and not file.name.startswith(".")
        )
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
    """The pods of several files whose texts are known, by the names of the files. Of an object that is in two files the
    one in the first file counts. Pure."""
    return _combine({name: _Source(f"file {name}", text) for name, text in texts.items()})


def _combine(sources: "Mapping[str, _Source]") -> FolderPods:
    """Of an object that is given twice the first one counts, and the file of the other has a problem."""
    objects: dict[tuple[str, str, str], ConfigObject] = {}
    for source in sources.values():
        for config_object in source.config_objects():
            first = objects.setdefault((config_object.kind, config_object.namespace, config_object.name), config_object)
            if first is not config_object:
                title = f"{config_object.kind} {config_object.namespace}/{config_object.name}"
                source.duplicates.append(f"{config_object.title}: {title} is given twice, first in {first.title}")
    pods: list[PodSpec] = []
    pods_by_name: dict[str, PodSpec] = {}
    for source in sources.values():
        of_file = source.read_pods(tuple(objects.values()))
        for pod in of_file:
            for name in (f"pod {pod.title}", *([f"uid {pod.uid}"] if pod.uid else ())):
                if (first_pod := pods_by_name.setdefault(name, pod)) is not pod:
                    source.duplicates.append(f"{source.where}: {name} is given twice, first in {first_pod.source}")
        if not source.problems:
            pods += of_file
    return FolderPods(
        pods=tuple(pods),
        problems={name: source.problems for name, source in sources.items() if source.problems},
        empty=frozenset(name for name, source in sources.items() if source.is_empty),
    )


class _Source:
    """The documents of a text."""

    def __init__(self, where: str, text: str, *, resources_only: bool = False) -> None:
        self.where = where
        self.duplicates: list[str] = []
        self._documents: list[_Document] = []
        self._split_problems: list[str] = []
        try:
            for title, document in split_documents(text, where):
                self._documents.append(_Document(title, document, resources_only=resources_only))
        except ConfigError as error:
            self._split_problems = error.problems

    @property
    def problems(self) -> tuple[str, ...]:
        """All problems: of the documents in their order, then those of the text as a whole."""
        of_documents = (problem for document in self._documents for problem in document.problems)
        return (*of_documents, *self._split_problems, *self.duplicates)

    @property
    def is_empty(self) -> bool:
        """Whether the text has neither objects nor problems."""
        return not self.problems and not any(document.has_objects for document in self._documents)

    def config_objects(self) -> Iterator[ConfigObject]:
        """The ConfigMaps and Secrets of all documents."""
        return (config_object for document in self._documents for config_object in document.config_objects)

    def read_pods(self, objects: tuple[ConfigObject, ...]) -> tuple[PodSpec, ...]:
        """The pods of all documents; problems of pods are added to those of their documents."""
        source = self.where.removeprefix("file ")
        return tuple(pod for document in self._documents for pod in document.read_pods(objects, source))


class _Document:
    """A document: its ConfigMaps and Secrets are read at once, its pods when those of all texts are known."""

    def __init__(self, title: str, text: str, *, resources_only: bool) -> None:
        self.problems: list[str] = []
        self.config_objects: list[ConfigObject] = []
        self._title = title
        self._resources_only = resources_only
        self._pods: list[Found] = []
        report = Report(title)
        try:
            kinds = ("Pod",) if resources_only else _KINDS
            for found in find_objects(parse_document(text, title), "", report, kinds):
                if found.kind == "Pod":
                    self._pods.append(found)
                elif (config_object := read_config_object(found, report, title)) is not None:
                    self.config_objects.append(config_object)
            report.settle()
        except ConfigError as error:
            self.problems += error.problems

    @property
    def has_objects(self) -> bool:
        return bool(self.config_objects or self._pods)

    def read_pods(self, objects: tuple[ConfigObject, ...], source: str) -> Iterator[PodSpec]:
        """The pods without problems; the problems of the others are noted."""
        for found in self._pods:
            report = Report(self._title)
            if self._resources_only:
                pod = read_resource_pod(found, report, source)
            else:
                pod = read_pod(found, objects, report, source)
            try:
                report.settle()
            except ConfigError as error:
                self.problems += error.problems
            if pod is not None:
                yield pod
