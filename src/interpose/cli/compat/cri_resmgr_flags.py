"""The flags of all releases of cri-resmgr, and how its command lines are read.

Each flag stands for a setting of ours, asks for something to be printed or done, or is accepted and does nothing, with
a note that says so. Flags are Go's: one or two dashes, a switch takes its value only behind an equals sign.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from interpose.cli.compat.go_flags import FileOption
from interpose.config.dump_rules import TARGETS
from interpose.core.model.text import closest_flag, did_you_mean, quoted
from interpose.errors import ConfigError

CONFIG: Final = "config"
_BOOLEANS: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), "true")
    | dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), "false")
)
_LEVELS: Final[Mapping[str, str]] = MappingProxyType({"warn": "warning"})
_OFF: Final = ("", "disabled")
_GO_TIME: Final = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h)")
_GO_UNITS: Final[Mapping[str, float]] = MappingProxyType(
    {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
)

_NO_TRACE: Final = "tracing is not available; the admin socket has metrics"
_NO_FAKE_HINT: Final = "has no effect; hints come from the machine"
_ONE_LOG: Final = "has no effect; the log has one form for all sources"
_STDERR: Final = "has no effect; the log goes to standard error"


def _text_or_none(text: str) -> str | None:
    return text or None


def _negate(text: str) -> str | None:
    return "false" if text == "true" else "true"


def _level(text: str) -> str | None:
    return _LEVELS.get(text, text) or None


def _image_socket(text: str) -> str | None:
    return None if text in ("", "default") else "none" if text == "-" else text


def socket_or_off(text: str) -> str | None:
    """A socket that can be turned off."""
    return "none" if text in _OFF else text


def _go_time(text: str) -> str | None:
    """A time such as 1m30s in seconds; anything else is left to the setting, which names it."""
    parts = _GO_TIME.findall(text)
    if not parts or "".join(parts) != text:
        return text or None
    units = [part.lstrip("0123456789.") for part in parts]
    seconds = sum(float(part.removesuffix(unit)) * _GO_UNITS[unit] for part, unit in zip(parts, units, strict=True))
    return f"{seconds:.9f}"


def _always(_text: str) -> bool:
    return True


class ResmgrFlag(NamedTuple):
    """One flag: what it is for, the default it has there, the setting it stands for, the note about it."""

    help: str
    default: str = ""
    key: str = ""  # of our settings
    switch: bool = False
    read: Callable[[str], str | None] = _text_or_none  # the value for the setting; None: as if it was not given
    note: str = ""  # printed when the flag is used
    noted: Callable[[str], bool] = _always  # with which values
    adds: bool = False  # to what was given before


def _ignored(note: str, *names: str, switch: bool = False) -> dict[str, ResmgrFlag]:
    return {name: ResmgrFlag("accepted", switch=switch, note=note) for name in names}


# Of the log: all programs of CRI Resource Manager have them.
LOG_FLAGS: Final[Mapping[str, ResmgrFlag]] = MappingProxyType(
    {
        "logger-level": ResmgrFlag("debug, info, warn or error", "info", "logging.level", read=_level),
        "logger-debug": ResmgrFlag("sources to debug: a,b, a:false, * or all, none; --list-loggers prints them"),
        **_ignored(_ONE_LOG, "logger", "logger-prefix", "logger-source"),
        **_ignored(
            "has no effect; see --logger-level and --logger-debug",
            "v",
            "vmodule",
            "stderrthreshold",
            "log_backtrace_at",
            "log_dir",
            "log_file",
            "log_file_max_size",
        ),
        **_ignored(
            _STDERR,
            "logtostderr",
            "alsologtostderr",
            "skip_headers",
            "skip_log_headers",
            "add_dir_header",
            "one_output",
            switch=True,
        ),
    }
)

FLAGS: Final[Mapping[str, ResmgrFlag]] = MappingProxyType(
    {
        # What it stands between.
        "relay-socket": ResmgrFlag("socket the kubelet connects to", "/var/run/cri-relay.sock", "listen"),
        "runtime-socket": ResmgrFlag(
            "socket of the container runtime; without the flag, and if there is none at the default: the first "
            "well-known socket that exists",
            "/var/run/dockershim.sock",
            "runtime_endpoint",
        ),
        "image-socket": ResmgrFlag(
            'socket of the image service; "default": that of the runtime; "-": image calls are refused',
            "default",
            "image_endpoint",
            read=_image_socket,
        ),
        "allow-untested-runtimes": ResmgrFlag("accepted: every runtime is allowed", switch=True),
        # Policies.
        "policy": ResmgrFlag("policy that is active", "null", "policy.name"),
        "reserved-resources": ResmgrFlag(
            "CPUs for the system and for Kubernetes: cpu=1000m, cpu=0,2", key="policy.reserved"
        ),
        "available-resources": ResmgrFlag("CPUs that may be given out: cpu=1-7", key="policy.available"),
        "static-policy-relaxed-isolation": ResmgrFlag(
            "isolated CPUs first, whoever asks", key="policy.static_relaxed_isolation", switch=True
        ),
        "topology-aware-pin-cpu": ResmgrFlag(
            "keep containers on the CPUs of their pool", "true", "policy.topology_pin_cpu", switch=True
        ),
        "topology-aware-pin-memory": ResmgrFlag(
            "keep containers on memory nodes of their pool", "true", "policy.topology_pin_memory", switch=True
        ),
        "topology-aware-prefer-isolated-cpus": ResmgrFlag(
            "isolated CPUs for containers that get one CPU of their own",
            "true",
            "policy.topology_prefer_isolated",
            switch=True,
        ),
        "topology-aware-prefer-shared-cpus": ResmgrFlag(
            "CPUs of its own only for a container that asks for them by an annotation",
            key="policy.topology_prefer_shared",
            switch=True,
        ),
        "static-pools-conf-file": ResmgrFlag("YAML file with the pools of static-pools", key="policy.pools_file"),
        "static-pools-conf-dir": ResmgrFlag(
            "directory with the pools, as CMK makes it (there is a default: /etc/cmk)",
            key="policy.pools_dir",
        ),
        "static-pools-create-cmk-node-label": ResmgrFlag(
            "label the node for CMK", key="policy.pools_label_node", switch=True
        ),
        "static-pools-create-cmk-node-taint": ResmgrFlag(
            "taint the node for CMK", key="policy.pools_taint_node", switch=True
        ),
        "disable-policy-switch": ResmgrFlag(
            "refuse to go on with the containers of another policy", key="policy.switch", switch=True, read=_negate
        ),
        # Configuration and state.
        CONFIG: ResmgrFlag("file with options, one per line without dashes; it takes its place on the command line"),
        "force-config": ResmgrFlag(
            "policy document in YAML that is in force whatever the agent sends; it is watched",
            key="policy.config",
        ),
        "fallback-config": ResmgrFlag(
            "policy document in YAML that is in force until the agent has sent one",
            key="policy.fallback",
        ),
        "force-config-signal": ResmgrFlag(
            "accepted", "SIGHUP", note="has no effect; the file is watched, and no signal is needed"
        ),
        "relay-dir": ResmgrFlag("directory for the state", "/var/lib/cri-relay", "policy.state_dir"),
        "config-socket": ResmgrFlag(
            'socket on which the agent sends configuration; "disabled" turns it off',
            "/var/run/cri-resmgr-config.sock",
            "policy.config_socket",
            read=socket_or_off,
        ),
        "agent-socket": ResmgrFlag(
            'socket of the agent, through which static-pools publishes exclusive cores; "disabled" turns it off',
            "/var/run/cri-resmgr-agent.sock",
            "policy.agent_socket",
            read=socket_or_off,
        ),
        "host-root": ResmgrFlag("where the file system of the host is", key="policy.host_root"),
        "pid-file": ResmgrFlag(
            "accepted", note="has no effect; the lock on the relay socket keeps a second one from starting"
        ),
        # The log.
        **LOG_FLAGS,
        **_ignored(_STDERR, "cpu-allocator-debug", switch=True),
        # What is written down of the calls.
        "dump": ResmgrFlag(
            f"calls to write down, [target:]method,...; targets are {', '.join(TARGETS)}; what is not said stays as it "
            'is by default, unless there is "reset"; can be given several times',
            "on",
            "dump.rules",
            adds=True,
        ),
        "dump-file": ResmgrFlag("file to write them to, with times; it is emptied first", key="dump.file"),
        "count-period": ResmgrFlag(
            "time after which calls are reported that are only counted", "60s", "dump.count_period", read=_go_time
        ),
        # What is not there.
        **_ignored(_NO_TRACE, "trace", "trace-jaeger-collector", "trace-jaeger-agent", "trace-prometheus-metrics"),
        **_ignored(_NO_FAKE_HINT, "topology-aware-fake-hint"),
        **_ignored("has no effect; metrics are made when they are asked for", "metrics-interval"),
        "rebalance-interval": ResmgrFlag(
            "how often dynamic-pools fits its pools to the load; 0 is never",
            key="policy.rebalance_interval",
            read=_go_time,
        ),
        "disable-ui": ResmgrFlag("accepted: there is none", switch=True),
        # What is printed or done instead of running.
        "list-policies": ResmgrFlag("print the policies and exit", switch=True),
        "list-loggers": ResmgrFlag("print the sources of the log and exit", switch=True),
        "print-config": ResmgrFlag("print every setting with its value and origin and exit", switch=True),
        "reset-policy": ResmgrFlag("forget who has which CPUs and exit; not while the relay runs", switch=True),
        "reset-config": ResmgrFlag("forget what the agent has sent and exit; not while the relay runs", switch=True),
        "help": ResmgrFlag("print this text and exit", switch=True),
        "h": ResmgrFlag("the same", switch=True),
        "version": ResmgrFlag("print the version and exit", switch=True),
    }
)


def flag_lines(flags: Mapping[str, ResmgrFlag]) -> list[str]:
    """The lines of --help, two for each flag."""
    lines = []
    for name, flag in flags.items():
        about = flag.note if flag.help == "accepted" else flag.help
        default = f" (default {flag.default!r})" if flag.default else ""
        lines += [f"  --{name}" + ("" if flag.switch else " string"), f"        {about}{default}"]
    return lines


class FlagValue(NamedTuple):
    """A flag with its value, and where it stood. Two dashes are newer style, in which some output differs."""

    name: str
    value: str
    origin: str
    dashes: int = 1


@dataclass(frozen=True, slots=True)
class ResmgrLine:
    """A command line: its flags in their order, the words behind them, and what is wrong with it."""

    flags: list[FlagValue] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def last(self, name: str) -> FlagValue | None:
        """A flag as it was given last: that one counts."""
        return next((flag for flag in reversed(self.flags) if flag.name == name), None)


def read_line(
    arguments: Sequence[str],
    options_of: Callable[[str], Sequence[FileOption]] = lambda _path: (),
    flags: Mapping[str, ResmgrFlag] = FLAGS,
) -> ResmgrLine:
    """A command line, with the options of files in the place of `-config FILE`. ConfigError if a file is wrong."""
    line = ResmgrLine()
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, equals, value = argument.removeprefix("-").removeprefix("-").partition("=")
        if argument == "--" or not argument.startswith("-") or argument == "-":
            line.rest.extend(rest if argument == "--" else [argument, *rest])
            break
        flag = flags.get(name)
        dashes = 2 if argument.startswith("--") else 1
        spelling = "-" * dashes + name
        if flag is None:
            close = closest_flag(name, flags)
            line.problems.append(f"unknown flag {spelling}" + (f", did you mean --{close}?" if close else ""))
            if not equals and rest and not rest[0].startswith("-"):
                rest.pop(0)  # what was meant as its value
        elif flag.switch:
            _switch(line, name, value if equals else "true", f"flag {spelling}", dashes)
        elif not equals and not rest:
            line.problems.append(f"flag {spelling} needs a value")
        else:
            value = value if equals else rest.pop(0)
            if name == CONFIG:
                line.flags.extend(_read_file_options(value, options_of(value)))
            else:
                line.flags.append(FlagValue(name, value, f"flag {spelling}", dashes))
    return line


def _switch(line: ResmgrLine, name: str, text: str, origin: str, dashes: int) -> None:
    value = _BOOLEANS.get(text)
    if value is None:
        line.problems.append(f"{origin}: {quoted(text)} is neither true nor false")
    else:
        line.flags.append(FlagValue(name, value, origin, dashes))


def _read_file_options(path: str, options: Sequence[FileOption]) -> list[FlagValue]:
    line = ResmgrLine()
    for option in options:
        flag = FLAGS.get(option.name)
        where = f"file {path} line {option.line}"
        if option.name == CONFIG:
            line.problems.append(f"{where}: {CONFIG}: a file cannot name another one")
        elif flag is None:
            # `static-pools` with options below it is no flag of its own, only the beginning of their names.
            if not option.heading or option.value is not None:
                meant = did_you_mean(option.name, (name for name in FLAGS if name != CONFIG))
                line.problems.append(f"{where}: {quoted(option.name)} is not a known option{meant}")
        elif flag.switch:
            value = "true" if option.value is None else option.value
            _switch(line, option.name, value, f"{where}: {option.name}", 2)
        elif option.value is None:
            if not option.heading:
                line.problems.append(f"{where}: {option.name}: needs a value")
        else:
            line.flags.append(FlagValue(option.name, option.value, f"{where}: {option.name}", 2))
    if line.problems:
        raise ConfigError(line.problems)
    return line.flags
