"""Command lines of all programs of CRI Resource Manager as settings: debug sources, notes, switches, mistakes."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Final

from interpose import __version__
from interpose.cli.compat.cri_resmgr_flags import FlagValue, ResmgrFlag, ResmgrLine
from interpose.config.load import LoadedSettings, SettingText, load
from interpose.config.schema import Schema
from interpose.core.model.text import did_you_mean
from interpose.errors import ConfigError

EXIT_LEFTOVER: Final = 1
EXIT_FLAGS: Final = 2  # what Go programs end with
_LEVEL: Final = "logging.level"
_DEBUG: Final = "logging.debug"
_FLAG: Final = "logger-debug"
_EVERYTHING: Final = "*"
_ALL: Final = (_EVERYTHING, "all")
_STATES: Final[Mapping[str, bool]] = {"on": True, "true": True, "off": False, "false": False}


# Sources of the log by their names in CRI Resource Manager, and our packages that log about the same things.
SOURCES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "agent": ("kube.agent", "resmgr.publish.agent_client", "resmgr.publish.publisher"),
        "balloons": ("resmgr",),
        "cache": ("cri.store", "resmgr.state.checkpoint"),
        "config": ("resmgr.config",),
        "cri/client": ("net.grpc", "cri.store"),
        "cri/server": ("relay", "net.grpc"),
        "dynamic-pools": ("resmgr",),
        "message-dump": ("dump", "cli.relay.dump"),
        "podpools": ("resmgr",),
        "policy": ("resmgr",),
        "relay": ("relay", "net.grpc", "cli"),
        "resource-manager": ("resmgr", "hooks.dispatch"),
        "static": ("resmgr",),
        "static-plus": ("resmgr",),
        "static-pools": ("resmgr",),
        "webhook": ("kube.webhook", "net.httpd"),
    }
)


def load_flag_values(
    schema: Schema,
    line: ResmgrLine,
    flags: Mapping[str, ResmgrFlag],
    presets: Mapping[str, SettingText],
    env: Mapping[str, str],
) -> LoadedSettings:
    """Settings for a command line: flag over environment over file over the old program's defaults."""
    settings, problems = _collect_settings(line.flags, flags, schema)
    try:
        loaded = load(schema, flags=settings | debug_flag(line), env=env, presets={**presets, **debug_preset(env)})
    except ConfigError as error:
        raise ConfigError(problems + error.problems) from None
    if problems:
        raise ConfigError(problems)
    return replace(loaded, warnings=(*loaded.warnings, *collect_notes(line.flags, flags), *debug_notes(line)))


def _collect_settings(
    values: Iterable[FlagValue], flags: Mapping[str, ResmgrFlag], schema: Schema
) -> tuple[dict[str, SettingText], list[str]]:
    """Settings by key: of flags that add up all values, of others the last. And what is wrong with single values.

    Values that add up are checked one by one, each with its origin: together they have only that of the last.
    """
    settings: dict[str, SettingText] = {}
    problems: list[str] = []
    for given in values:
        flag = flags[given.name]
        value = flag.read(given.value) if flag.key else None
        if not flag.key or (flag.adds and value is None):
            continue
        before = settings.pop(flag.key, None)
        if value is None:
            continue
        if flag.adds:
            kind = next(setting.kind for setting in schema.table if setting.key == flag.key)
            try:
                kind.parse(value, given.origin)
            except ConfigError as error:
                problems += error.problems
                value = ""
            value = kind.separator.join(filter(None, (before.text if before else "", value)))
        settings[flag.key] = SettingText(value, given.origin)
    return settings, problems


def debug_preset(env: Mapping[str, str]) -> dict[str, SettingText]:
    """What $LOGGER_DEBUG makes of our settings, by key."""
    return _debug_settings(parse_debug_sources((env.get("LOGGER_DEBUG", ""),)), "environment LOGGER_DEBUG")


def debug_flag(line: ResmgrLine) -> dict[str, SettingText]:
    """What --logger-debug makes of our settings, by key; it counts more than a level."""
    last = line.last(_FLAG)
    return {} if last is None else _debug_settings(_debug_sources(line), last.origin)


def debug_notes(line: ResmgrLine) -> list[str]:
    """A line for each source of the log that is not known."""
    return [
        f"--{_FLAG}: {name!r} is not a source of the log{did_you_mean(name, SOURCES)}"
        for name in _debug_sources(line)
        if name not in SOURCES and name != _EVERYTHING
    ]


def _debug_sources(line: ResmgrLine) -> dict[str, bool]:
    return parse_debug_sources(flag.value for flag in line.flags if flag.name == _FLAG)


def _debug_settings(sources: Mapping[str, bool], origin: str) -> dict[str, SettingText]:
    parts = {state: dict.fromkeys(chain(*map(_loggers_of, _names(sources, state)))) for state in (True, False)}
    if not sources.get(_EVERYTHING):
        return {_DEBUG: SettingText(",".join(parts[True]), origin)} if parts[True] else {}
    quiet = [f"-{part}" for part in parts[False] if part not in parts[True]]
    if not quiet:
        return {_LEVEL: SettingText("debug", origin)}
    return {_DEBUG: SettingText(",".join([_EVERYTHING, *quiet, *parts[True]]), origin)}


def _names(sources: Mapping[str, bool], state: bool) -> Iterator[str]:
    return (name for name, debugged in sources.items() if debugged is state)


def _loggers_of(source: str) -> tuple[str, ...]:
    return SOURCES.get(source, ())


def parse_debug_sources(values: Iterable[str]) -> dict[str, bool]:
    """Whether sources are debugged after `a,b`, `a:true`, `b:false`, `on:a,off:b`, `*`, `all` and `none`, in order.

    A word for all sources replaces what came before it; a word for a single source counts more than that.
    """
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
            if name in (*_ALL, "none"):
                sources = dict.fromkeys((_EVERYTHING, *sources), state and name in _ALL)
            elif name:
                sources[name] = state
    return sources


def collect_notes(values: Iterable[FlagValue], flags: Mapping[str, ResmgrFlag]) -> list[str]:
    """Notes about flags of a command line; flags with the same note share a line."""
    names: dict[str, dict[str, None]] = {}
    for given in values:
        flag = flags[given.name]
        if flag.note and flag.noted(given.value) and not (flag.switch and given.value == "false"):
            names.setdefault(flag.note, {})[f"--{given.name}"] = None
    return [f"{', '.join(same)}: {note}" for note, same in names.items()]


def find_switch(line: ResmgrLine, name: str) -> FlagValue | None:
    """The switch of that name if it is on, else None."""
    switch = line.last(name)
    return switch if switch is not None and switch.value == "true" else None


def answer_print_flags(program: str, line: ResmgrLine, help_text: Callable[[], str]) -> int | None:
    """The exit code after help, version, or what is wrong with the flags was printed; None if there is more to do."""
    if find_switch(line, "h") or find_switch(line, "help"):
        print(help_text())
    elif find_switch(line, "version"):
        print(f"{program} (interpose {__version__})")
    else:
        return print_usage(program, line.problems, EXIT_FLAGS) if line.problems else None
    return 0


def print_usage(program: str, problems: Iterable[str], code: int) -> int:
    """Print what is wrong with a command line; returns `code`, the exit code."""
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    print(f"Usage: {program} [flags]\nRun {program} --help for the flags.", file=sys.stderr)
    return code
