"""Sources that `interpose config` reads: files, directories, standard input. Each is read once.

A directory stands for its files that may be ours by their names. Files named after keys of a ConfigMap, as
`kubectl create configmap --from-file` takes them, belong together: they are one source.
"""

import errno
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Final

from interpose.config.documents.yaml import DocumentNode, decoded, parse_document, parse_file
from interpose.core.policy.names import NAMES
from interpose.errors import ConfigError

STDIN: Final = "-"
# The largest that any program of ours reads.
MAX_BYTES: Final = 4 << 20
_NOT_THERE: Final = (errno.ENOENT, errno.ELOOP)  # a link to nothing is no file
_SUFFIXES: Final = (".yaml", ".yml", ".json", ".cfg")
_KEY: Final = re.compile(r"policy(?:\.([^.]+)(?:\..+)?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSource:
    """One file, or the files of a directory that are keys of a ConfigMap."""

    name: str  # as it was given
    data: bytes = b""
    is_file: bool = True  # whether it stands in the file system, with an owner and a name that means something
    is_found: bool = False  # in a directory, which may hold anything
    keys: Mapping[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The file as the beginning of a message."""
        return f"file {self.name}"

    def text(self, limit: int = MAX_BYTES) -> str:
        """The whole text; ConfigError if it is larger than `limit` or not UTF-8."""
        return decoded(self.data, self.name, limit)

    def document(self, limit: int = MAX_BYTES) -> DocumentNode:
        """As the programs read documents that are named by a setting: the name says which format it is."""
        if not self.is_file:
            return parse_document(self.text(limit), self.where)
        return parse_file(lambda: self.text(limit), self.name)

    @property
    def json_only(self) -> bool:
        """Whether its name promises JSON."""
        return self.is_file and self.name.endswith(".json")


def read_sources(path: str) -> Iterator[DocumentSource | ConfigError]:
    """Everything at a path; what cannot be read is an error among the others."""
    if path == STDIN:
        yield DocumentSource(name="<stdin>", data=sys.stdin.buffer.read(MAX_BYTES + 1), is_file=False)
        return
    try:
        found = sorted(Path(path).iterdir())
    except NotADirectoryError:
        yield read_source(path)
        return
    except OSError as error:
        yield _unreadable(path, error)
        return
    modes: dict[Path, int] = {}
    for entry in found:
        if entry.name.startswith("."):
            continue
        try:
            modes[entry] = entry.stat().st_mode
        except OSError as error:
            if error.errno not in _NOT_THERE:
                yield _unreadable(str(entry), error)
    files = [entry for entry, mode in modes.items() if S_ISREG(mode)]
    keys = {file.name: file for file in files if is_key(file.name)}
    if keys:
        yield _keys(path, keys)
    for file in files:
        if file.suffix.lower() in _SUFFIXES:
            source = read_source(str(file))
            yield replace(source, is_found=True) if isinstance(source, DocumentSource) else source
    for folder, mode in modes.items():
        if S_ISDIR(mode) and not folder.is_symlink():
            yield from read_sources(str(folder))


def read_source(path: str) -> DocumentSource | ConfigError:
    """One file as a source; a ConfigError is returned, not raised."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        return _unreadable(path, error)
    name = Path(path).name
    if not is_key(name):
        return DocumentSource(name=path, data=data)
    try:
        return DocumentSource(name=path, data=data, keys={name: decoded(data, path, MAX_BYTES)})
    except ConfigError as error:
        return error


def is_key(name: str) -> bool:
    """Whether a file has the name of a key for policies: `policy`, `policy.static`, `policy.static.node-1`."""
    match = _KEY.fullmatch(name)
    return match is not None and Path(name).suffix not in _SUFFIXES and (match[1] is None or match[1].lower() in NAMES)


def _unreadable(path: str, error: OSError) -> ConfigError:
    return ConfigError(f"file {path}: cannot be read: {error.strerror}")


def _keys(folder: str, files: Mapping[str, Path]) -> DocumentSource | ConfigError:
    texts: dict[str, str] = {}
    problems: list[str] = []
    for path in files.values():
        found = read_source(str(path))
        if isinstance(found, DocumentSource):
            texts |= found.keys
        else:
            problems += found.problems
    return ConfigError(problems) if problems else DocumentSource(name=folder, keys=texts)
