"""Find the pools of static-pools: in the configuration itself, else in a file, else in CMK's tree of directories.

The first that is there counts, and the others are not looked at. Trouble is a ConfigError that names the file or
directory. What is read is bounded, so that a wrong path costs a message and nothing else.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from interpose.config.document import parse_document, read_text
from interpose.config.policy_options import read_pools
from interpose.errors import ConfigError
from interpose.policy.static_pools.config import FLAG, ROOT, pools_of_tree
from interpose.policy.static_pools.options import PoolsOptions

# 8192 CPUs in one list each are less; so is a file with all of them.
MAX_ENTRIES: Final = 20_000
MAX_FILE_BYTES: Final = 1 << 20
_MAX_FLAG_BYTES: Final = 16
_DEPTH: Final = 3  # pool, socket, list


def load_pools(options: PoolsOptions) -> PoolsOptions:
    """The same options with their pools."""
    if options.pools:
        return options
    if options.conf_file:
        where = f"file {options.conf_file}"
        text = read_text(options.conf_file, MAX_FILE_BYTES)
        return replace(options, pools=read_pools(parse_document(text, where), where))
    where = f"directory {options.conf_dir}"
    try:
        entries = dict(_walk(Path(options.conf_dir) / ROOT, ROOT, _DEPTH, [MAX_ENTRIES], where))
    except OSError as error:
        raise ConfigError(
            f"{where}: its pools cannot be read: {error.filename}: {error.strerror}; static-pools needs pools in its "
            "configuration, in a file (ConfFilePath) or in such a directory (ConfDirPath)"
        ) from None
    return replace(options, pools=pools_of_tree(entries, where))


def pools_are_missing(options: PoolsOptions) -> bool:
    """Whether nobody has said where pools are, and they are not where CMK has them."""
    said = options.pools or options.conf_file or options.conf_dir != PoolsOptions().conf_dir
    return not said and not Path(options.conf_dir, ROOT).exists()


def watched_paths(options: PoolsOptions) -> tuple[str, ...]:
    """The file or directory whose change may change the pools."""
    if options.pools:
        return ()
    return (options.conf_file or options.conf_dir,)


def _walk(folder: Path, path: str, depth: int, left: list[int], where: str) -> Iterator[tuple[str, str | None]]:
    """Directories, and the files that matter with their content, by path below the root of the tree."""
    with os.scandir(folder) as found:
        for entry in found:
            left[0] -= 1
            if left[0] < 0:
                raise ConfigError(f"{where}: has more than {MAX_ENTRIES} entries, no tree of pools has so many")
            below = f"{path}/{entry.name}"
            if entry.is_dir():
                yield below, None
                if depth > 1:
                    yield from _walk(folder / entry.name, below, depth - 1, left, where)
            elif entry.name == FLAG:
                yield below, read_text(entry.path, _MAX_FLAG_BYTES)
