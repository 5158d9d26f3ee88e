"""What the smaller programs of CRI Resource Manager have in common: a table of Go flags over settings of ours.

Each of them translates its command line, and nothing else; `cri-resmgr` itself has more to do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from interpose.cli.common.options import run_loaded
from interpose.cli.compat.cri_resmgr_flags import LOG_FLAGS, ResmgrFlag, ResmgrLine, flag_lines, read_line
from interpose.cli.compat.cri_resmgr_line import (
    EXIT_LEFTOVER,
    answer_print_flags,
    find_switch,
    load_flag_values,
    print_usage,
)
from interpose.config.load import LoadedSettings, SettingText
from interpose.config.schema import Schema
from interpose.errors import ConfigError, SocketInUseError

PRINTED: Final[Mapping[str, ResmgrFlag]] = {
    "help": ResmgrFlag("print this text and exit", switch=True),
    "h": ResmgrFlag("the same", switch=True),
    "version": ResmgrFlag("print the version and exit", switch=True),
}
# What every daemon among them takes beside its own.
COMMON: Final[Mapping[str, ResmgrFlag]] = {
    **LOG_FLAGS,
    "print-config": ResmgrFlag("print every setting with its value and origin and exit", switch=True),
    **PRINTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResmgrProgram:
    """A small program of CRI Resource Manager. A flag with a default is a setting that differs from ours."""

    name: str
    about: str
    flags: Mapping[str, ResmgrFlag]
    schema: Schema
    run: Callable[[LoadedSettings], int]
    presets: Mapping[str, str] | None = None  # settings that have no flag there
    check: Callable[[LoadedSettings, Mapping[str, str]], LoadedSettings] = lambda loaded, _env: (
        loaded
    )  # what the old program insists on


def help_text(name: str, about: str, flags: Mapping[str, ResmgrFlag]) -> str:
    return "\n".join([f"Usage: {name} [flags]", "", *about.splitlines(), "", "Flags:", *flag_lines(flags)])


def load_line(program: ResmgrProgram, line: ResmgrLine, env: Mapping[str, str]) -> LoadedSettings:
    """Settings for a command line: flag over environment over the old program's defaults."""
    origin = f"default of {program.name}"
    presets = {key: SettingText(text, origin) for key, text in (program.presets or {}).items()}
    presets |= {
        flag.key: SettingText(flag.default, origin) for flag in program.flags.values() if flag.key and flag.default
    }
    return program.check(load_flag_values(program.schema, line, program.flags, presets, env), env)


def run_program(program: ResmgrProgram, arguments: Sequence[str], env: Mapping[str, str]) -> int:
    """The whole program but for the process exit."""
    from interpose.cli.main import report

    line = read_line(arguments, flags=program.flags)
    code = answer_line(program.name, program.about, program.flags, line)
    if code is not None:
        return code
    try:
        loaded = load_line(program, line, env)
        return run_loaded(loaded, program.run, print_config=find_switch(line, "print-config") is not None)
    except (ConfigError, SocketInUseError, OSError) as error:
        return report(error)


def answer_line(name: str, about: str, flags: Mapping[str, ResmgrFlag], line: ResmgrLine) -> int | None:
    """Help, version, or what is wrong with the command line; None if it is to be run."""
    if (code := answer_print_flags(name, line, lambda: help_text(name, about, flags))) is not None:
        return code
    if line.rest:
        return print_usage(name, [f"unexpected argument {word!r}" for word in line.rest], EXIT_LEFTOVER)
    return None
