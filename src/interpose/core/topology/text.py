"""Machines in words: "2 sockets x 2 numa x 8 cores x 2 threads", or shorter "2p2n8c2t".

Every count is per part of the next larger kind (packages, dies, nodes, cores, threads); one that is left out is 1.
Behind it, each after a semicolon, what else is known: "; isolated 3,7; memory 64Gi".
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from interpose.core.model.cpuset import CpuSet
from interpose.core.model.quantity import parse_quantity, whole
from interpose.core.model.text import quoted
from interpose.core.topology.synthetic import Block, Layout, build
from interpose.core.topology.topology import Topology

_MAX_TEXT: Final = 1024
_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("p", "package", "packages", "socket", "sockets"), "packages"),
        **dict.fromkeys(("d", "die", "dies"), "dies"),
        **dict.fromkeys(("n", "numa", "node", "nodes", "numa node", "numa nodes"), "nodes"),
        **dict.fromkeys(("c", "core", "cores"), "cores"),
        **dict.fromkeys(("t", "thread", "threads"), "threads"),
    }
)
_SHORT: Final = re.compile(r"(?:[0-9]+[pdnct])+", re.ASCII)
_SHORT_PART: Final = re.compile(r"[0-9]+[a-z]", re.ASCII)
_TIMES: Final = re.compile(r"[×*,]|(?<![a-z])x(?![a-z])")
_COUNT: Final = re.compile(r"([0-9]{1,4})\s*([a-z][a-z\s]*)", re.ASCII)
_CORES: Final = re.compile(r"([0-9]{1,4})\s*cores?", re.ASCII)


def parse_text(text: str) -> Topology:
    """The machine these words describe, named by them; ValueError that names the word."""
    if len(text) > _MAX_TEXT:
        raise ValueError(f"{quoted(text)} has more than {_MAX_TEXT} characters")
    counts, *additions = text.strip().split(";")
    values: dict[str, dict[str, Any]] = {"block": _counts(counts), "layout": {"name": text.strip()}}
    seen: set[str] = set()
    for addition in additions:
        word, _, rest = " ".join(addition.split()).partition(" ")
        if word.lower() not in _ADDITIONS:
            raise ValueError(f"{quoted(addition.strip())}: expected one of {', '.join(_ADDITIONS)} after a semicolon")
        where, field, read = _ADDITIONS[word.lower()]
        if field in seen:
            raise ValueError(f"{quoted(addition.strip())}: {field} was given before")
        seen.add(field)
        try:
            values[where][field] = read(rest)
        except ValueError as error:
            raise ValueError(f"{quoted(addition.strip())}: {error}") from None
    return build([Block(**values["block"])], Layout(**values["layout"]))


def _counts(text: str) -> dict[str, int]:
    plain = text.strip().lower()
    parts = _SHORT_PART.findall(plain) if _SHORT.fullmatch(plain) else _TIMES.split(plain)
    found: dict[str, int] = {}
    for part in parts:
        match = _COUNT.fullmatch(part.strip())
        word = " ".join(match[2].split()) if match else ""
        if match is None or word not in _WORDS or int(match[1]) == 0:
            raise ValueError(
                f"{quoted(part.strip())} is not a part of a machine: expected a number from 1 to 9999 and one of "
                "sockets, dies, numa, cores, threads"
            )
        kind = _WORDS[word]
        if kind in found:
            raise ValueError(f"{quoted(part.strip())}: {kind} were given before")
        found[kind] = int(match[1])
    return found


def _nothing(text: str) -> None:
    if text:
        raise ValueError(f"expected nothing after the word, found {quoted(text)}")


def _interleaved(text: str) -> bool:
    _nothing(text)
    return True


def _sequential(text: str) -> bool:
    _nothing(text)
    return False


def _some_cpus(text: str) -> CpuSet:
    found = CpuSet.parse(text)
    if not found:
        raise ValueError("expected a list of CPUs such as 3,7-9")
    return found


def _memory(text: str) -> int:
    return whole(parse_quantity(text, negative=False))


def _shared_by(text: str) -> int:
    match = _CORES.fullmatch(text.lower())
    if match is None or int(match[1]) == 0:
        raise ValueError('expected how many cores share a cache, such as "4 cores"')
    return int(match[1])


# Word -> which value it goes into, the field there, and how its text is read.
_ADDITIONS: Final[Mapping[str, tuple[str, str, Callable[[str], Any]]]] = MappingProxyType(
    {
        "isolated": ("layout", "isolated", _some_cpus),
        "offline": ("layout", "offline", _some_cpus),
        "efficiency": ("layout", "efficiency", _some_cpus),
        "memory": ("block", "memory_bytes", _memory),
        "l3": ("layout", "l3_cores", _shared_by),
        "interleaved": ("layout", "interleaved", _interleaved),
        "sequential": ("layout", "interleaved", _sequential),
    }
)
