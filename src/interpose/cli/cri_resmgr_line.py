"""What all programs of CRI Resource Manager make of a command line: debugging, remarks, switches, mistakes."""

import sys
from collections.abc import Iterable, Mapping
from typing import Final

from interpose.cli.cri_resmgr_flags import Flag, Line, Said
from interpose.config.load import Given

EXIT_LEFTOVER: Final = 1
EXIT_FLAGS: Final = 2  # what Go programs end with
_LEVEL: Final = "logging.level"
_STATES: Final[Mapping[str, bool]] = {"on": True, "true": True, "off": False, "false": False}


def debug_preset(env: Mapping[str, str]) -> dict[str, Given]:
    """What $LOGGER_DEBUG makes of our settings, by key."""
    return {_LEVEL: Given("debug", "environment LOGGER_DEBUG")} if debugs((env.get("LOGGER_DEBUG", ""),)) else {}


def debug_flag(line: Line) -> dict[str, Given]:
    """What --logger-debug makes of our settings, by key; it counts more than a level."""
    last = line.last("logger-debug")
    if last is not None and debugs(one.value for one in line.said if one.name == last.name):
        return {_LEVEL: Given("debug", last.origin)}
    return {}


def debugs(values: Iterable[str]) -> bool:
    """Whether anything is debugged after `a,b`, `a:true`, `b:false`, `on:a,off:b`, `*`, `all` and `none`, in order."""
    sources: dict[str, bool] = {}
    for value in values:
        on = True
        for word in filter(None, (part.strip() for part in value.split(","))):
            before, _, after = word.partition(":")
            name = word
            if before in _STATES:
                on, name = _STATES[before], after
            state = on
            if after in _STATES:
                name, state = before, _STATES[after]
            if name == "none" or (name in ("*", "all") and not state):
                sources.clear()
            elif name:
                sources[name] = state
    return any(sources.values())


def notes(said: Iterable[Said], flags: Mapping[str, Flag]) -> list[str]:
    """What there is to say about flags that were given, once for those of which it is the same."""
    names: dict[str, dict[str, None]] = {}
    for one in said:
        flag = flags[one.name]
        if flag.note and flag.noted(one.value) and not (flag.switch and one.value == "false"):
            names.setdefault(flag.note, {})[f"--{one.name}"] = None
    return [f"{', '.join(same)}: {note}" for note, same in names.items()]


def wants(line: Line, name: str) -> Said | None:
    """A switch that is on."""
    said = line.last(name)
    return said if said is not None and said.value == "true" else None


def usage(program: str, problems: Iterable[str], code: int) -> int:
    """Tell what is wrong with a command line; the exit code."""
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    print(f"Usage: {program} [flags]\nRun {program} --help for the flags.", file=sys.stderr)
    return code
