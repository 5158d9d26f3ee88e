"""`koord-runtime-proxy`: the relay under the name, flags and defaults of Koordinator's runtime proxy.

Only translates the command line into relay settings. Flags are those of all releases: the image endpoint was removed
after 1.3, but documentation and unit files still have it. In Docker mode it never had a meaning and has none here; the
runtime endpoint is then dockerd's socket, by default where dockerd has it.
"""

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from interpose import __version__
from interpose.cli.common.stdio import standard_streams
from interpose.cli.compat.go_flags import GoFlags, parse_go_flags
from interpose.config.endpoint import WELL_KNOWN_DOCKER
from interpose.config.load import LoadedSettings, SettingText, load
from interpose.config.relay.table import RELAY
from interpose.config.schema import Instead
from interpose.core.model.text import closest_flag
from interpose.errors import ConfigError, SocketInUseError

PROGRAM = "koord-runtime-proxy"
EXIT_USAGE = 2

_DOCKER: Final = "docker"
_MODES = {"Containerd": "cri", "Docker": _DOCKER}
_DEFAULT: Final = f"default of {PROGRAM}"
_INSTEAD: Final = {
    "runtime_endpoint": Instead("backend", _DOCKER, WELL_KNOWN_DOCKER[0], f"{_DEFAULT} in Docker mode"),
}


class KoordFlag(NamedTuple):
    """One flag of the old program: the setting it stands for and its default there."""

    key: str
    default: str
    help: str


FLAGS = {
    "koord-runtimeproxy-endpoint": KoordFlag(
        "listen", "/var/run/koord-runtimeproxy/runtimeproxy.sock", "socket the kubelet connects to"
    ),
    "remote-runtime-service-endpoint": KoordFlag(
        "runtime_endpoint",
        "/var/run/containerd/containerd.sock",
        f"socket of the container runtime, in Docker mode of dockerd and then by default {WELL_KNOWN_DOCKER[0]}",
    ),
    "remote-image-service-endpoint": KoordFlag(
        "image_endpoint", "", "socket of the image service; empty: the same as the runtime; ignored in Docker mode"
    ),
    "backend-runtime-mode": KoordFlag(
        "backend", "Containerd", "what the runtime endpoint is: Containerd (any CRI runtime), or Docker (dockerd)"
    ),
    "runtime-hook-server-key": KoordFlag(
        "hooks.skip_key",
        "runtimeproxy.koordinator.sh/skip-hookserver",
        "label or annotation of pods that get no hooks",
    ),
    "runtime-hook-server-val": KoordFlag("hooks.skip_value", "true", "value of that label or annotation"),
}


def help_text() -> str:
    lines = [
        f"Usage: {PROGRAM} [flags]",
        "",
        "Stands between the kubelet and the container runtime or dockerd. This is `interpose relay` with other flags.",
        "Flags are written -flag value, -flag=value, --flag value or --flag=value. Everything else can be set by",
        "INTERPOSE_* environment variables, which `interpose relay --help` lists.",
        "",
        "Flags:",
    ]
    for name, flag in FLAGS.items():
        lines += [
            f"  --{name} string",
            f"        {flag.help}" + (f" (default {flag.default!r})" if flag.default else ""),
        ]
    lines += ["  --help", "        print this text", "  --version", "        print the version"]
    return "\n".join(lines)


def parse_flags(arguments: Sequence[str], words: Collection[str] = ()) -> GoFlags:
    """Split a command line; for a flag of the relay that is none here the problem names its variable."""
    return parse_go_flags(arguments, flags=FLAGS, words=words, elsewhere=_variable)


def _variable(flag: str) -> str:
    settings = {setting.flag.removeprefix("--"): setting for setting in RELAY.table}
    close = closest_flag(flag, settings)
    return f"; for --{close} of `interpose relay` set {settings[close].env}" if close else ""


def load_flags(values: Mapping[str, str], env: Mapping[str, str]) -> LoadedSettings:
    """Relay settings for the given flags: flag over environment over file over the old program's defaults."""
    flags: dict[str, SettingText] = {}
    presets: dict[str, SettingText] = {}
    ignored: list[str] = []
    for name, flag in FLAGS.items():
        if flag.default:
            presets[flag.key] = SettingText(_MODES.get(flag.default, flag.default), _DEFAULT)
        if name in values:
            flags[flag.key] = SettingText(values[name], f"flag --{name}")
    if mode := flags.get("backend"):
        if mode.text not in _MODES:
            raise ConfigError(f"{mode.origin}: {mode.text!r} is not one of {', '.join(_MODES)}")
        flags["backend"] = SettingText(_MODES[mode.text], mode.origin)
        if _MODES[mode.text] == _DOCKER and (image := flags.pop("image_endpoint", None)):
            ignored.append(f"{image.origin}: has no effect in Docker mode, where dockerd serves images too")
    loaded = load(RELAY, flags=flags, env=env, presets=presets, instead=_INSTEAD)
    return replace(loaded, warnings=(*ignored, *loaded.warnings))


def run_command(arguments: Sequence[str], env: Mapping[str, str]) -> int:
    """The whole program but for the process exit."""
    parsed = parse_flags(arguments, words={"h", "help", "version"})
    if parsed.words & {"h", "help"}:
        print(help_text())
        return 0
    if "version" in parsed.words:
        print(f"{PROGRAM} (interpose {__version__})")
        return 0
    if parsed.problems:
        for problem in parsed.problems:
            print(f"error: {problem}", file=sys.stderr)
        print(f"Run {PROGRAM} --help for the flags.", file=sys.stderr)
        return EXIT_USAGE
    from interpose.cli.common.options import run_loaded
    from interpose.cli.main import report
    from interpose.cli.relay.command import run_relay

    try:
        return run_loaded(load_flags(parsed.values, env), run_relay)
    except (ConfigError, SocketInUseError, OSError) as error:
        return report(error)


def main() -> None:
    """Entry point of the `koord-runtime-proxy` program."""
    with standard_streams():
        sys.exit(run_command(sys.argv[1:], os.environ))
