"""What the smaller programs of CRI Resource Manager have in common: a table of Go flags over settings of ours.

Each of them translates its command line, and nothing else; `cri-resmgr` itself has more to do.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from interpose import __version__
from interpose.cli.cri_resmgr import EXIT_FLAGS, EXIT_LEFTOVER, debugs, notes
from interpose.cli.cri_resmgr_flags import LOG_FLAGS, Flag, Line, read_line
from interpose.cli.options import told
from interpose.config.load import Given, Loaded, load
from interpose.config.schema import Schema
from interpose.errors import ConfigError, SocketInUseError

PRINTED: Final[Mapping[str, Flag]] = {
    "help": Flag("print this text and exit", switch=True),
    "h": Flag("the same", switch=True),
    "version": Flag("print the version and exit", switch=True),
}
# What every daemon among them takes beside its own.
COMMON: Final[Mapping[str, Flag]] = {
    **LOG_FLAGS,
    "print-config": Flag("print every setting with its value and origin and exit", switch=True),
    **PRINTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One of them. Flags with a default of their own are settings that differ from ours."""

    name: str
    about: str
    flags: Mapping[str, Flag]
    schema: Schema
    run: Callable[[Loaded], int]
    presets: Mapping[str, str] | None = None  # settings that have no flag there
    check: Callable[[Loaded, Mapping[str, str]], Loaded] = lambda loaded, _env: (
        loaded
    )  # what the old program insists on


def help_text(name: str, about: str, flags: Mapping[str, Flag]) -> str:
    """What --help prints."""
    lines = [f"Usage: {name} [flags]", "", *about.splitlines(), "", "Flags:"]
    for flag, row in flags.items():
        text = row.note if row.help == "accepted" else row.help
        default = f" (default {row.default!r})" if row.default else ""
        lines += [f"  --{flag}" + ("" if row.switch else " string"), f"        {text}{default}"]
    return "\n".join(lines)


def load_line(program: Program, line: Line, env: Mapping[str, str]) -> Loaded:
    """Settings for a command line: flag over environment over the old program's defaults."""
    origin = f"default of {program.name}"
    presets = {key: Given(text, origin) for key, text in (program.presets or {}).items()}
    presets |= {flag.key: Given(flag.default, origin) for flag in program.flags.values() if flag.key and flag.default}
    if debugs((env.get("LOGGER_DEBUG", ""),)):
        presets["logging.level"] = Given("debug", "environment LOGGER_DEBUG")
    given: dict[str, Given] = {}
    for one in line.said:
        flag = program.flags[one.name]
        if flag.key:
            value = flag.read(one.value)
            given.pop(flag.key, None)
            if value is not None:
                given[flag.key] = Given(value, one.origin)
    last = line.last("logger-debug")
    if last is not None and debugs(one.value for one in line.said if one.name == last.name):
        given["logging.level"] = Given("debug", last.origin)
    loaded = program.check(load(program.schema, flags=given, env=env, presets=presets), env)
    return replace(loaded, warnings=(*loaded.warnings, *notes(line.said, program.flags)))


def run_program(program: Program, arguments: Sequence[str], env: Mapping[str, str]) -> int:
    """The whole program but for the process exit."""
    from interpose.cli.main import report

    line = read_line(arguments, flags=program.flags)
    code = printed(program.name, program.about, program.flags, line)
    if code is not None:
        return code
    try:
        loaded = load_line(program, line, env)
        if told(loaded, print_config=wants(line, "print-config")):
            return 0
        return program.run(loaded)
    except (ConfigError, SocketInUseError, OSError) as error:
        return report(error)


def printed(name: str, about: str, flags: Mapping[str, Flag], line: Line) -> int | None:
    """Help, version, or what is wrong with the command line; None if it is to be run."""
    if wants(line, "h") or wants(line, "help"):
        print(help_text(name, about, flags))
        return 0
    if wants(line, "version"):
        print(f"{name} (interpose {__version__})")
        return 0
    if line.problems:
        return _usage(name, line.problems, EXIT_FLAGS)
    if line.rest:
        return _usage(name, [f"unexpected argument {word!r}" for word in line.rest], EXIT_LEFTOVER)
    return None


def wants(line: Line, name: str) -> bool:
    """Whether a switch is on."""
    said = line.last(name)
    return said is not None and said.value == "true"


def _usage(name: str, problems: Iterable[str], code: int) -> int:
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    print(f"Usage: {name} [flags]\nRun {name} --help for the flags.", file=sys.stderr)
    return code
