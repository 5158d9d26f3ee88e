"""Entry points of installed packages: found by their metadata, and loaded without trust in what they run."""

import re
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib import metadata
from typing import Any, Final, NamedTuple

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")
LOADING_LIMIT: Final = 10.0  # seconds; packages that import half of PyPI take two


class InstalledEntryPoint(NamedTuple):
    """An entry point of an installed distribution."""

    name: str
    reference: str  # module:attribute
    distribution: str  # name and version
    load: Callable[[], Any]

    def __str__(self) -> str:
        return f"distribution {self.distribution}, entry point {self.name} = {self.reference}"


class EntryPointError(Exception):
    """What an entry point refers to cannot be had. The message says why, in one line."""


def find_entry_points(
    group: str, distributions: Callable[[], Iterable[metadata.Distribution]] = metadata.distributions
) -> tuple[InstalledEntryPoint, ...]:
    """All entry points of a group, by name. Nothing is imported.

    A distribution that is installed twice counts once, as for the import system: the first on the path. One whose
    metadata cannot be read has no entry points.
    """
    by_distribution: dict[str, list[InstalledEntryPoint]] = {}
    for distribution in distributions():
        with suppress(Exception):  # metadata of other packages can be broken in any way
            key = re.sub(r"[-_.]+", "-", distribution.name).lower()
            if key not in by_distribution:
                title = f"{distribution.name} {distribution.version}"
                by_distribution[key] = [
                    InstalledEntryPoint(point.name, point.value, title, point.load)
                    for point in distribution.entry_points
                    if point.group == group
                ]
    return tuple(sorted(point for points in by_distribution.values() for point in points))


def choose_entry_point(name: str, points: Sequence[InstalledEntryPoint], group: str) -> InstalledEntryPoint:
    """The one of that name; EntryPointError if there is none, or more than one."""
    matching = [point for point in points if point.name == name]
    if not matching:
        names = ", ".join(sorted({point.name for point in points})) or "none"
        raise EntryPointError(f"no installed package has an entry point {name!r} in {group}; there are: {names}")
    if len(matching) > 1:
        raise EntryPointError(f"more than one package has an entry point {name!r}: {'; '.join(map(str, matching))}")
    if not _NAME.fullmatch(name):
        raise EntryPointError(f"{matching[0]}: a name is letters, digits, '_', '.' and '-', at most 63")
    return matching[0]


def load_entry_point(point: InstalledEntryPoint, use: Callable[[Any], Any], *, timeout: float = LOADING_LIMIT) -> Any:
    """What `use` makes of the object that the entry point refers to; EntryPointError if it raises or takes too long.

    Both run in a thread: a module that hangs blocks this one only.
    """
    results: list[Any] = []
    errors: list[BaseException] = []

    def load() -> None:
        try:
            results.append(use(point.load()))
        except BaseException as error:  # SystemExit, too: it is theirs, not ours
            errors.append(error)

    thread = threading.Thread(target=load, name=f"load {point.name}", daemon=True)
    thread.start()
    thread.join(timeout)
    if errors:
        raise EntryPointError(f"{point}: {_reason(errors[0])}") from None
    if not results:
        raise EntryPointError(f"{point}: did not return within {timeout:g} s")
    return results[0]


def _reason(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
