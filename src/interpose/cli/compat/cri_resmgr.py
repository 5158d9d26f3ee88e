"""`cri-resmgr`: the relay under the name, flags and defaults of CRI Resource Manager.

Only translates the command line into relay settings. Flags are those of all releases; where defaults differ between
them, those of the first count, which are the ones its documentation prints. Hook servers are not asked.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from interpose.cli.common.stdio import standard_streams
from interpose.cli.compat.cri_resmgr_flags import FLAGS, ResmgrLine, read_line
from interpose.cli.compat.cri_resmgr_help import PROGRAM, help_text, loggers_text, modules_text, policies_text
from interpose.cli.compat.cri_resmgr_line import (
    EXIT_LEFTOVER,
    answer_print_flags,
    find_switch,
    load_flag_values,
    print_usage,
)
from interpose.cli.compat.go_flags import read_option_file
from interpose.config.load import LoadedSettings, SettingText
from interpose.config.relay.table import RELAY
from interpose.errors import ConfigError, SocketInUseError

_PRESET: Final = ("relay-socket", "relay-dir", "config-socket", "agent-socket", "dump")
_DEFAULT: Final = f"default of {PROGRAM}"
_MODULE_HELP: Final = ("help", "config-help")
_RESETS: Final = ("reset-policy", "reset-config")


def load_line(line: ResmgrLine, env: Mapping[str, str]) -> LoadedSettings:
    """Relay settings for a command line: flag over environment over file over the old program's defaults."""
    presets = {FLAGS[name].key: SettingText(FLAGS[name].default, _DEFAULT) for name in _PRESET}
    presets["hooks.enabled"] = SettingText("false", _DEFAULT)
    runtime = FLAGS["runtime-socket"]
    if Path(runtime.default).exists():  # else the first well-known one: dockershim is long gone
        presets[runtime.key] = SettingText(runtime.default, _DEFAULT)
    return load_flag_values(RELAY, line, FLAGS, presets, env)


def run_command(arguments: Sequence[str], env: Mapping[str, str]) -> int:
    """The whole program but for the process exit."""
    from interpose.cli.main import report

    try:
        return _run(read_line(arguments, read_option_file), env)
    except (ConfigError, SocketInUseError, OSError) as error:
        return report(error)


def _run(line: ResmgrLine, env: Mapping[str, str]) -> int:
    if (code := answer_print_flags(PROGRAM, line, help_text)) is not None:
        return code
    if line.rest:
        return _print_modules(line.rest)
    if policies := find_switch(line, "list-policies"):
        return _print(policies_text(policies.dashes))
    if find_switch(line, "list-loggers"):
        return _print(loggers_text())
    loaded = load_line(line, env)
    if resets := [name for name in _RESETS if find_switch(line, name)]:
        return _reset(resets, loaded)
    from interpose.cli.common.options import run_loaded
    from interpose.cli.relay.command import run_relay

    return run_loaded(loaded, run_relay, print_config=find_switch(line, "print-config") is not None)


def _print_modules(words: Sequence[str]) -> int:
    if words[0] not in _MODULE_HELP:
        return print_usage(PROGRAM, [f"unexpected argument {word!r}" for word in words], EXIT_LEFTOVER)
    try:
        return _print(modules_text(words[1:]))
    except ValueError as error:
        return print_usage(PROGRAM, [str(error)], EXIT_LEFTOVER)


def _reset(resets: Sequence[str], loaded: LoadedSettings) -> int:
    """Forget parts of the state; SocketInUseError while a relay runs."""
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
