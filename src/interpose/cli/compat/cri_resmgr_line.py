"""What all programs of CRI Resource Manager make of a command line: debugging, remarks, switches, mistakes."""

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


# Sources of the log by the names they have there, and what of ours logs about the same things.
SOURCES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "agent": ("kube.agent", "resmgr.publish.agent_client", "resmgr.publish.publisher"),
        "cache": ("cri.store", "resmgr.state.checkpoint"),
        "config": ("resmgr.config",),
        "cri/client": ("net.grpc", "cri.store"),
        "cri/server": ("relay", "net.grpc"),
        "message-dump": ("dump", "cli.relay.dump"),
        "policy": ("resmgr",),
        "relay": ("relay", "net.grpc", "cli"),
        "resource-manager": ("resmgr", "hooks.dispatch"),
        "static": ("resmgr",),
        "static-plus": ("resmgr",),
        "static-pools": ("resmgr",),
        "webhook": ("kube.webhook", "net.httpd"),
    }
)


def load_said(
    schema: Schema,
    line: ResmgrLine,
    flags: Mapping[str, ResmgrFlag],
    presets: Mapping[str, SettingText],
    env: Mapping[str, str],
) -> LoadedSettings:
    """Settings for a command line: flag over environment over file over the old program's defaults."""
    given, problems = _given(line.said, flags, schema)
    try:
        loaded = load(schema, flags=given | debug_flag(line), env=env, presets={**presets, **debug_preset(env)})
    except ConfigError as error:
        raise ConfigError(problems + error.problems) from None
    if problems:
        raise ConfigError(problems)
    return replace(loaded, warnings=(*loaded.warnings, *notes(line.said, flags), *debug_notes(line)))


def _given(
    said: Iterable[FlagValue], flags: Mapping[str, ResmgrFlag], schema: Schema
) -> tuple[dict[str, SettingText], list[str]]:
    """Settings by key: of flags that add up all, of others the last. And what is wrong with single ones of the former.

    These are told one by one, each with its place: together they have only that of the last.
    """
    given: dict[str, SettingText] = {}
    problems: list[str] = []
    for one in said:
        flag = flags[one.name]
        value = flag.read(one.value) if flag.key else None
        if not flag.key or (flag.adds and value is None):
            continue
        before = given.pop(flag.key, None)
        if value is None:
            continue
        if flag.adds:
            kind = next(setting.kind for setting in schema.table if setting.key == flag.key)
            try:
                kind.parse(value, one.origin)
            except ConfigError as error:
                problems += error.problems
                value = ""
            value = kind.separator.join(filter(None, (before.text if before else "", value)))
        given[flag.key] = SettingText(value, one.origin)
    return given, problems


def debug_preset(env: Mapping[str, str]) -> dict[str, SettingText]:
    """What $LOGGER_DEBUG makes of our settings, by key."""
    return _debugging(debugged((env.get("LOGGER_DEBUG", ""),)), "environment LOGGER_DEBUG")


def debug_flag(line: ResmgrLine) -> dict[str, SettingText]:
    """What --logger-debug makes of our settings, by key; it counts more than a level."""
    last = line.last(_FLAG)
    return {} if last is None else _debugging(_wanted(line), last.origin)


def debug_notes(line: ResmgrLine) -> list[str]:
    """What there is to say about sources that nobody knows."""
    return [
        f"--{_FLAG}: {name!r} is not a source of the log{did_you_mean(name, SOURCES)}"
        for name in _wanted(line)
        if name not in SOURCES and name != _EVERYTHING
    ]


def _wanted(line: ResmgrLine) -> dict[str, bool]:
    return debugged(one.value for one in line.said if one.name == _FLAG)


def _debugging(sources: Mapping[str, bool], origin: str) -> dict[str, SettingText]:
    parts = {state: dict.fromkeys(chain(*map(_parts_of, _names(sources, state)))) for state in (True, False)}
    if not sources.get(_EVERYTHING):
        return {_DEBUG: SettingText(",".join(parts[True]), origin)} if parts[True] else {}
    quiet = [f"-{part}" for part in parts[False] if part not in parts[True]]
    if not quiet:
        return {_LEVEL: SettingText("debug", origin)}
    return {_DEBUG: SettingText(",".join([_EVERYTHING, *quiet, *parts[True]]), origin)}


def _names(sources: Mapping[str, bool], state: bool) -> Iterator[str]:
    return (name for name, one in sources.items() if one is state)


def _parts_of(source: str) -> tuple[str, ...]:
    return SOURCES.get(source, ())


def debugged(values: Iterable[str]) -> dict[str, bool]:
    """Whether sources are debugged after `a,b`, `a:true`, `b:false`, `on:a,off:b`, `*`, `all` and `none`, in order.

    What is said of all of them replaces what was said before; of single ones it counts more than that.
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


def notes(said: Iterable[FlagValue], flags: Mapping[str, ResmgrFlag]) -> list[str]:
    """What there is to say about flags that were given, once for those of which it is the same."""
    names: dict[str, dict[str, None]] = {}
    for one in said:
        flag = flags[one.name]
        if flag.note and flag.noted(one.value) and not (flag.switch and one.value == "false"):
            names.setdefault(flag.note, {})[f"--{one.name}"] = None
    return [f"{', '.join(same)}: {note}" for note, same in names.items()]


def wants(line: ResmgrLine, name: str) -> FlagValue | None:
    """A switch that is on."""
    said = line.last(name)
    return said if said is not None and said.value == "true" else None


def answered(program: str, line: ResmgrLine, help_text: Callable[[], str]) -> int | None:
    """The exit code after help, version, or what is wrong with the flags was printed; None if there is more to do."""
    if wants(line, "h") or wants(line, "help"):
        print(help_text())
    elif wants(line, "version"):
        print(f"{program} (interpose {__version__})")
    else:
        return usage(program, line.problems, EXIT_FLAGS) if line.problems else None
    return 0


def usage(program: str, problems: Iterable[str], code: int) -> int:
    """Tell what is wrong with a command line; the exit code."""
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    print(f"Usage: {program} [flags]\nRun {program} --help for the flags.", file=sys.stderr)
    return code
