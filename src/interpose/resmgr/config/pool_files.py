"""Find the pools of static-pools: in the configuration itself, else in a file, else in CMK's tree of directories.

The first that is there counts, and the others are not looked at. Trouble is a ConfigError that names the file or
directory. What is read is bounded, so that a wrong path costs a message and nothing else. A user who may
write there decides about CPUs, so file and tree count only if no untrusted user can.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from interpose.config.documents.policy_options import read_pools
from interpose.config.documents.yaml import parse_document, read_text
from interpose.core.policy.static_pools.config import FLAG, ROOT, pools_of_tree
from interpose.core.policy.static_pools.options import Pool, PoolsOptions
from interpose.errors import ConfigError
from interpose.host.file_trust import Trust, examine, examine_directory

# 8192 CPUs in one list each are less; so is a file with all of them.
MAX_ENTRIES: Final = 20_000
MAX_FILE_BYTES: Final = 1 << 20
_USUAL: Final = PoolsOptions().conf_dir
_MAX_FLAG_BYTES: Final = 16
_DEPTH: Final = 3  # pool, socket, list


def load_pools(options: PoolsOptions, trust: Trust | None = None) -> PoolsOptions:
    """The same options with their pools."""
    if options.pools:
        return options
    trust = Trust() if trust is None else trust
    if options.conf_file:
        return replace(options, pools=_read_file(options.conf_file, trust))
    where = f"directory {options.conf_dir}"
    tree = _Tree(where, trust)
    try:
        if not tree.is_doubted(options.conf_dir) and not tree.is_doubted(f"{options.conf_dir}/{ROOT}", ROOT):
            entries = dict(tree.walk(Path(options.conf_dir) / ROOT, ROOT, _DEPTH))
    except OSError as error:
        raise ConfigError(
            f"{where}: its pools cannot be read: {error.filename}: {error.strerror}; static-pools needs pools in its "
            "configuration, in a file (ConfFilePath) or in such a directory (ConfDirPath)"
        ) from None
    if tree.problems:
        raise ConfigError(tree.problems)
    return replace(options, pools=pools_of_tree(entries, where))


def _read_file(path: str, trust: Trust) -> Mapping[str, Pool]:
    where = f"file {path}"
    try:
        doubts = examine(path, trust).doubts
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror}") from None
    if doubts:
        raise ConfigError([f"{where}: {doubt}" for doubt in doubts])
    return read_pools(parse_document(read_text(path, MAX_FILE_BYTES), where), where)


def pools_are_missing(options: PoolsOptions, usual: str = _USUAL) -> bool:
    """Whether no pools are configured, and none are where CMK has them."""
    configured = options.pools or options.conf_file or options.conf_dir != usual
    return not configured and not Path(options.conf_dir, ROOT).exists()


def watched_paths(options: PoolsOptions) -> tuple[str, ...]:
    """The file or directory whose change may change the pools."""
    if options.pools:
        return ()
    return (options.conf_file or options.conf_dir,)


class _Tree:
    """Reads a tree of pools, and collects what in it is not to be trusted."""

    def __init__(self, where: str, trust: Trust) -> None:
        self.problems: list[str] = []
        self._where = where
        self._trust = trust
        self._left = MAX_ENTRIES

    def is_doubted(self, path: str, below: str = "") -> bool:
        """Whether a directory does not count; then nothing in it is looked at."""
        doubts = examine_directory(path, self._trust)
        self._note(below, doubts)
        return bool(doubts)

    def walk(self, folder: Path, path: str, depth: int) -> Iterator[tuple[str, str | None]]:
        """Directories, and the files that matter with their content, by path below the root of the tree."""
        with os.scandir(folder) as found:
            for entry in found:
                self._left -= 1
                if self._left < 0:
                    raise ConfigError(
                        f"{self._where}: has more than {MAX_ENTRIES} entries, no tree of pools has so many"
                    )
                below = f"{path}/{entry.name}"
                if entry.is_dir():
                    yield below, None
                    if depth > 1 and not self.is_doubted(entry.path, below):
                        yield from self.walk(folder / entry.name, below, depth - 1)
                elif entry.name == FLAG:
                    doubts = examine(entry.path, self._trust).doubts
                    self._note(below, doubts)
                    if not doubts:
                        yield below, read_text(entry.path, _MAX_FLAG_BYTES)

    def _note(self, below: str, doubts: Iterable[str]) -> None:
        self.problems += [f"{self._where}: {below + ': ' if below else ''}{doubt}" for doubt in doubts]
