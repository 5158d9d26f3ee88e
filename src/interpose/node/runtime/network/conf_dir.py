"""The folder with CNI configurations: the first valid file is the network.

It is scanned at each call, and read again when it changed.
"""

import logging
import os
from typing import Final

from interpose.node.runtime.network import conf
from interpose.node.runtime.network.types import NetworkList

_log = logging.getLogger(__name__)
_LARGEST: Final = 1 << 20


class CniConfDir:
    """The CNI configuration folder. The last good content of a file that became invalid stays in force."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._scanned: tuple[tuple[str, int, int, int], ...] | None = None
        self._good: dict[str, NetworkList] = {}
        self._chosen: NetworkList | None = None
        self._problems: tuple[str, ...] = ()

    def current(self) -> tuple[NetworkList | None, tuple[str, ...]]:
        """The network, if there is one, and the problems of files that sort before it."""
        scanned = self._scan()
        if scanned != self._scanned:
            self._scanned = scanned
            self._read([name for name, *_ in scanned])
        return self._chosen, self._problems

    def _scan(self) -> tuple[tuple[str, int, int, int], ...]:
        found = []
        try:
            names = conf.candidates(os.listdir(self.folder))  # noqa: PTH208
        except OSError:
            return ()
        for name in names:
            try:
                stat = os.stat(f"{self.folder}/{name}")  # noqa: PTH116
            except OSError:
                continue
            found.append((name, stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return tuple(found)

    def _read(self, names: list[str]) -> None:
        problems: list[str] = []
        chosen: NetworkList | None = None
        for name in names:
            try:
                chosen = self._good[name] = self._parse(name)
            except (OSError, ValueError) as error:
                problems.append(str(error))
                chosen = self._good.get(name)
            if chosen is not None:
                break
        self._good = {name: good for name, good in self._good.items() if name in names}
        for problem in problems:
            _log.warning("Invalid CNI configuration", extra={"kv": {"problem": problem}})
        if chosen is not None and chosen is not self._chosen:
            _log.info("Network of pods", extra={"kv": {"network": chosen.name, "file": chosen.file}})
        self._chosen, self._problems = chosen, tuple(problems)

    def _parse(self, name: str) -> NetworkList:
        path = f"{self.folder}/{name}"
        with open(path, "rb") as file:  # noqa: PTH123
            return conf.parse(file.read(_LARGEST).decode("utf-8", "replace"), path)
