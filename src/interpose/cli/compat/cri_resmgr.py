"""`cri-resmgr`: the relay under the name, flags and defaults of CRI Resource Manager.

Only translates the command line into relay settings. Flags are those of all releases; where defaults differ between
them, those of the first count, which are the ones its documentation prints. Hook servers are not asked.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from interpose import __version__
from interpose.cli.common.stdio import standard_streams
from interpose.cli.compat.cri_resmgr_flags import FLAGS, Line, Said, read_line
from interpose.cli.compat.cri_resmgr_help import PROGRAM, help_text, loggers_text, modules_text, policies_text
from interpose.cli.compat.cri_resmgr_line import (
    EXIT_FLAGS,
    EXIT_LEFTOVER,
    debug_flag,
    debug_notes,
    debug_preset,
    notes,
    usage,
    wants,
)
from interpose.cli.compat.option_file import read_option_file
from interpose.config.load import Given, Loaded, load
from interpose.config.relay.table import RELAY
from interpose.errors import ConfigError, SocketInUseError

_PRESET: Final = ("relay-socket", "relay-dir", "config-socket", "agent-socket", "dump")
_DEFAULT: Final = f"default of {PROGRAM}"
_MODULE_HELP: Final = ("help", "config-help")
_RESETS: Final = ("reset-policy", "reset-config")


def load_line(line: Line, env: Mapping[str, str]) -> Loaded:
    """Relay settings for a command line: flag over environment over file over the old program's defaults."""
    presets = {FLAGS[name].key: Given(FLAGS[name].default, _DEFAULT) for name in _PRESET}
    presets["hooks.enabled"] = Given("false", _DEFAULT)
    runtime = FLAGS["runtime-socket"]
    if Path(runtime.default).exists():  # else the first well-known one: dockershim is long gone
        presets[runtime.key] = Given(runtime.default, _DEFAULT)
    flags, problems = _given(line.said)
    try:
        loaded = load(RELAY, flags=flags | debug_flag(line), env=env, presets=presets | debug_preset(env))
    except ConfigError as error:
        raise ConfigError(problems + error.problems) from None
    if problems:
        raise ConfigError(problems)
    return replace(loaded, warnings=(*loaded.warnings, *notes(line.said, FLAGS), *debug_notes(line)))


def _given(said: Sequence[Said]) -> tuple[dict[str, Given], list[str]]:
    """Settings by key: of flags that add up all, of others the last. And what is wrong with single ones of the former.

    These are told one by one, each with its place: together they have only that of the last.
    """
    given: dict[str, Given] = {}
    problems: list[str] = []
    for one in said:
        flag = FLAGS[one.name]
        value = flag.read(one.value)
        if not flag.key or (flag.adds and value is None):
            continue
        before = given.pop(flag.key, None)
        if value is None:
            continue
        if flag.adds:
            kind = next(setting.kind for setting in RELAY.table if setting.key == flag.key)
            try:
                kind.parse(value, one.origin)
            except ConfigError as error:
                problems += error.problems
                value = ""
            value = kind.separator.join(filter(None, (before.text if before else "", value)))
        given[flag.key] = Given(value, one.origin)
    return given, problems


def run_command(arguments: Sequence[str], env: Mapping[str, str]) -> int:
    """The whole program but for the process exit."""
    from interpose.cli.main import report

    try:
        return _run(read_line(arguments, read_option_file), env)
    except (ConfigError, SocketInUseError, OSError) as error:
        return report(error)


def _run(line: Line, env: Mapping[str, str]) -> int:
    if wants(line, "h") or wants(line, "help"):
        return _print(help_text())
    if wants(line, "version"):
        return _print(f"{PROGRAM} (interpose {__version__})")
    if line.problems:
        return usage(PROGRAM, line.problems, EXIT_FLAGS)
    if line.rest:
        return _words(line.rest)
    if policies := wants(line, "list-policies"):
        return _print(policies_text(policies.dashes))
    if wants(line, "list-loggers"):
        return _print(loggers_text())
    loaded = load_line(line, env)
    if resets := [name for name in _RESETS if wants(line, name)]:
        return _reset(resets, loaded)
    from interpose.cli.relay.command import run_loaded

    return run_loaded(loaded, print_config=wants(line, "print-config") is not None)


def _words(words: Sequence[str]) -> int:
    if words[0] not in _MODULE_HELP:
        return usage(PROGRAM, [f"unexpected argument {word!r}" for word in words], EXIT_LEFTOVER)
    try:
        return _print(modules_text(words[1:]))
    except ValueError as error:
        return usage(PROGRAM, [str(error)], EXIT_LEFTOVER)


def _reset(resets: Sequence[str], loaded: Loaded) -> int:
    """Forget parts of the state; not while somebody relies on it."""
    from interpose.cli.relay.policy_wanted import state_path
    from interpose.cli.relay.state_lock import StateLock
    from interpose.host.peer_credentials import check_unowned
    from interpose.resmgr.state import checkpoint

    check_unowned(loaded.settings.listen)
    policy = loaded.settings.policy
    actions = {"reset-policy": checkpoint.reset_policy, "reset-config": checkpoint.reset_config}
    lock = StateLock(policy)
    lock.claim()
    try:
        for name in resets:
            print(f"--{name}: {actions[name](str(state_path(policy)))}")
    finally:
        lock.release()
    return 0


def _print(text: str) -> int:
    print(text)
    return 0


def main() -> None:
    """Entry point of the `cri-resmgr` program."""
    with standard_streams():
        sys.exit(run_command(sys.argv[1:], os.environ))
