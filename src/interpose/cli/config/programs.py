"""Programs as `interpose config` sees them: what each makes of a command line, and what it insists on besides.

All of it is done by the program's own code, so that what is shown here is what happens there. A program is one row in
`config.programs`; one that checks its settings further, or goes by another name too, has a row here as well.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from interpose.config.load import LoadedSettings, SettingText, load
from interpose.config.programs import PROGRAMS
from interpose.errors import ConfigError

if TYPE_CHECKING:
    from interpose.cli.compat.cri_resmgr_common import ResmgrProgram

Env = Mapping[str, str]


class DropIn(NamedTuple):
    """Another name and other flags of one of our programs."""

    program: str
    load: Callable[[Sequence[str], Env], LoadedSettings]


def load_program(
    name: str, arguments: Sequence[str], env: Env, *, config: str | None, given: Mapping[str, SettingText]
) -> LoadedSettings:
    """The settings a program of ours has with these flags, and `given` by key over them. ConfigError, UsageError."""
    from interpose.cli.common.options import SettingsCommand, collect_flags

    schema = PROGRAMS[name].schema()
    command = SettingsCommand(schema.program, schema, params=[])
    with command.make_context(schema.program, list(arguments)) as context:
        parameters = context.params
    flags = collect_flags(parameters, schema)
    return load(schema, flags={**flags, **given}, env=env, path=parameters["config"] or config)


def check(name: str, loaded: LoadedSettings, env: Env) -> list[str]:
    """Refuse what the program refuses beyond its table. What only does not fit this machine is returned."""
    found = _CHECKS.get(name)
    return [] if found is None else found(loaded, env)


# -- what else programs check


def _check_relay(loaded: LoadedSettings, _env: Env) -> list[str]:
    dump = loaded.settings.dump
    if not (dump.rules or dump.file or dump.record):
        return []
    from interpose.cli.relay.dump import file_problems, rule_problems

    if problems := list(rule_problems(dump)):
        raise ConfigError(problems)
    return [f"{problem} (on this machine)" for problem in file_problems(dump)]


def _check_hookserver(loaded: LoadedSettings, _env: Env) -> list[str]:
    from interpose.cli.hookserver import checks

    checks.check(loaded)
    return []


def _check_agent(loaded: LoadedSettings, env: Env) -> list[str]:
    from interpose.cli.agent import checks

    checks.check(loaded, env)
    return []


_CHECKS: Final[Mapping[str, Callable[[LoadedSettings, Env], list[str]]]] = MappingProxyType(
    {"relay": _check_relay, "hookserver": _check_hookserver, "agent": _check_agent}
)


# -- programs of others that we stand in for


def _cri_resmgr(arguments: Sequence[str], env: Env) -> LoadedSettings:
    from interpose.cli.compat.cri_resmgr import load_line
    from interpose.cli.compat.cri_resmgr_flags import read_line
    from interpose.cli.compat.go_flags import read_option_file

    line = read_line(arguments, read_option_file)
    _refuse([*line.problems, *(f"unexpected argument {word!r}" for word in line.rest)])
    return load_line(line, env)


def _koord_runtime_proxy(arguments: Sequence[str], env: Env) -> LoadedSettings:
    from interpose.cli.compat.koord_runtime_proxy import load_flags, parse_flags

    parsed = parse_flags(arguments)
    _refuse(parsed.problems)
    return load_flags(parsed.values, env)


def _cri_resmgr_agent(arguments: Sequence[str], env: Env) -> LoadedSettings:
    from interpose.cli.compat.cri_resmgr_agent import AGENT_PROGRAM

    return _small_program(AGENT_PROGRAM, arguments, env)


def _cri_resmgr_webhook(arguments: Sequence[str], env: Env) -> LoadedSettings:
    from interpose.cli.compat.cri_resmgr_webhook import WEBHOOK_PROGRAM

    return _small_program(WEBHOOK_PROGRAM, arguments, env)


def _small_program(program: "ResmgrProgram", arguments: Sequence[str], env: Env) -> LoadedSettings:
    from interpose.cli.compat.cri_resmgr_common import load_line
    from interpose.cli.compat.cri_resmgr_flags import read_line

    line = read_line(arguments, flags=program.flags)
    _refuse([*line.problems, *(f"unexpected argument {word!r}" for word in line.rest)])
    return load_line(program, line, env)


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise click.UsageError("; ".join(problems))


DROP_INS: Final[Mapping[str, DropIn]] = MappingProxyType(
    {
        "cri-resmgr": DropIn("relay", _cri_resmgr),
        "koord-runtime-proxy": DropIn("relay", _koord_runtime_proxy),
        "cri-resmgr-agent": DropIn("agent", _cri_resmgr_agent),
        "cri-resmgr-webhook": DropIn("webhook", _cri_resmgr_webhook),
    }
)
