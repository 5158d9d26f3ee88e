"""A machine by what people have at hand: a folder like /sys, a document, or a few words."""

from collections.abc import Callable
from pathlib import Path

from interpose.config.documents.topology import read_topology_document
from interpose.config.documents.yaml import read_document
from interpose.core.model.text import quoted
from interpose.core.topology.text import parse_text
from interpose.core.topology.topology import Topology
from interpose.errors import ConfigError
from interpose.host.sysfs import read_topology

# 8192 CPUs with a line for each of their fields.
_MAX_BYTES = 8 << 20
_SUFFIXES = (".json", ".yaml", ".yml")


def load_topology(source: str) -> Topology:
    """The machine in a folder (/sys or a copy of one), in a .json or .yaml file, or described in words.

    ConfigError that says what was tried.
    """
    path = Path(source)
    there = bool(source) and _true(path.exists)  # no name at all would be the folder we are in
    if there and path.is_dir():
        return _from_folder(source)
    if there or path.suffix.lower() in _SUFFIXES:
        return read_topology_document(read_document(source, _MAX_BYTES), f"file {source}")
    try:
        return parse_text(source)
    except ValueError as error:
        raise ConfigError(
            f"machine {quoted(source)}: there is no such folder and no such file, and as a description such as "
            f'"2 sockets x 8 cores x 2 threads" it has a mistake: {error}'
        ) from None


def _from_folder(source: str) -> Topology:
    try:
        return read_topology(source, name=source)
    except OSError as error:
        raise ConfigError(f"machine {source}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"machine {error}") from None


def _true(question: Callable[[], bool]) -> bool:
    """Whether it is so; what is too long or too odd for the name of a file is none."""
    try:
        return question()
    except (OSError, ValueError):
        return False
