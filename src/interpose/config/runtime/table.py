"""The one table of the runtime's settings, and what no single row of it can say. Pure."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from interpose.config.common import admin_rows, logging_rows, row
from interpose.config.runtime.settings import RuntimeSettings
from interpose.config.schema import Schema, Setting
from interpose.config.values import (
    SettingKind,
    choice,
    directory,
    duration,
    endpoint,
    file_or_none,
    integer,
    listen_or_none,
    mode,
    refuse,
    uids,
    words,
)

PREFIX: Final = "INTERPOSE_RUNTIME_"
EXECUTORS: Final = ("auto", "runc", "crun", "plain")

_row: Final = partial(row, PREFIX)


def _executor() -> SettingKind:
    def parse(text: str, where: str) -> str:
        if text not in EXECUTORS and not text.startswith("/"):
            raise refuse(where, text, f"is neither one of {', '.join(EXECUTORS)} nor an absolute path")
        return text

    return SettingKind(name=f"{', '.join(EXECUTORS)}, or an absolute path", accepts=frozenset({"str"}), parse=parse)


def _folders() -> SettingKind:
    plain = words()

    def parse(text: str, where: str) -> tuple[str, ...]:
        found: tuple[str, ...] = plain.parse(text, where)
        if strange := [word for word in found if not word.startswith("/")]:
            raise refuse(where, strange[0], "is not an absolute path")
        return found

    return SettingKind(
        name="absolute paths with commas between", accepts=frozenset({"str", "list"}), parse=parse, show=",".join
    )


RUNTIME_SETTINGS: Final[tuple[Setting, ...]] = (
    _row(
        "listen",
        "--listen",
        endpoint(optional=False),
        aliases=("--container-runtime-endpoint",),
        about="Socket on which a kubelet, a relay or crictl calls; CRI v1 and v1alpha2.",
        why="A directory of our own: nobody else creates or cleans files in it.",
    ),
    _row(
        "root",
        "--root",
        directory(),
        about="Folder for what outlives a reboot: images, records, files of containers.",
        why="Where packages keep their data; it needs room for images.",
    ),
    _row(
        "state",
        "--state",
        directory(),
        about="Folder for what does not: sockets of shims, process ids, bundles. Its path must be short.",
        why="A tmpfs on most systems, so a reboot empties it.",
    ),
    _row(
        "executor",
        "--executor",
        _executor(),
        about=(
            "What starts processes: runc, crun, plain (ordinary processes, hardly isolated), a path to a program with "
            "the command line of runc, or auto: runc or crun if it is installed and we are root, else plain."
        ),
        why="A machine without runc can still run pods, and is told what that does not isolate.",
    ),
    _row(
        "grace",
        "--grace",
        duration(0.0, 3600.0),
        about="Time for calls in flight when told to stop. Containers go on in any case.",
        why="Most calls take milliseconds, stopping a container up to its own 30 s.",
    ),
    _row(
        "socket.mode",
        "--socket-mode",
        mode(),
        about="Mode of the socket we listen on, octal.",
        why="Whoever can write to a runtime's socket is root on the node.",
    ),
    _row(
        "socket.allow_uids",
        "--allow-uids",
        uids(),
        about="User ids that may connect to the socket we listen on. Empty: root and our own.",
        why="The kernel tells us who connects; file modes alone can be changed by anyone who owns the directory.",
    ),
    _row(
        "socket.max_connections",
        "--max-connections",
        integer(1, 65536),
        about="Clients connected to the socket we listen on at the same time.",
        why="A node has a kubelet, a relay and people with crictl; critest opens 280.",
    ),
    _row(
        "cgroups.driver",
        "--cgroup-driver",
        choice("cgroupfs", "systemd"),
        about="Who makes cgroups: the executor itself (cgroupfs), or systemd for it. The kubelet asks us for it.",
        why="Works on every node; one whose kubelet says systemd needs systemd here, too.",
    ),
    _row(
        "cgroups.root",
        "--cgroup-root",
        directory(),
        about="Where cgroups are mounted. With the plain executor it may be any folder: files are written, not obeyed.",
        why="Where every distribution mounts them.",
    ),
    _row(
        "network.conf_dir",
        "--cni-conf-dir",
        directory(),
        about="Folder with CNI configurations; the first in the order of names counts. None there: the node's network.",
        why="Where network add-ons write theirs.",
    ),
    _row(
        "network.bin_dirs",
        "--cni-bin-dirs",
        _folders(),
        about="Folders with CNI plugins, with commas between.",
        why="Where network add-ons and distributions put them.",
    ),
    _row(
        "streams.listen",
        "--stream-listen",
        listen_or_none(),
        about="Loopback address of the server for exec, attach and port forwarding; port 0 is any free one.",
        why="The kubelet on the same node connects to it; the address must not be reachable from elsewhere.",
    ),
    _row(
        "streams.idle_timeout",
        "--stream-idle-timeout",
        duration(1.0, 604800.0),
        about="Time after which a session without traffic ends.",
        why="As long as containerd has it.",
    ),
    _row(
        "images.registries",
        "--registries",
        file_or_none(),
        about='File that says how registries are reached: endpoints, certificates. "none": HTTPS, trust of the system.',
        why="Public registries need nothing else.",
    ),
    *admin_rows(9099, PREFIX),
    *logging_rows(PREFIX, why_level="Info reports pods and containers that come and go, not calls."),
)


def contradictions(settings: RuntimeSettings, origins: Mapping[str, str]) -> list[str]:
    """What no single value shows."""
    problems = []
    if settings.listen == settings.admin.listen:
        problems.append(f"{origins['admin.listen']}: admin.listen is the socket we listen on: {settings.listen!r}")
    if settings.root == settings.state:
        problems.append(f"{origins['state']}: state is the same folder as root: {settings.state!r}")
    if settings.cgroups.driver == "systemd" and settings.executor == "plain":
        problems.append(
            f"{origins['cgroups.driver']}: cgroups.driver systemd cannot be used with the executor plain "
            f"({origins['executor']}), which does not know systemd"
        )
    if settings.streams.listen.startswith("/"):
        problems.append(
            f"{origins['streams.listen']}: streams.listen is a path, {settings.streams.listen!r}; kubelets want a "
            "loopback address such as 127.0.0.1:0"
        )
    return problems


RUNTIME: Final = Schema(
    program="interpose runtime",
    file_kind="RuntimeConfig",
    settings=RuntimeSettings,
    table=RUNTIME_SETTINGS,
    titles=MappingProxyType(
        {
            "": "General",
            "socket": "Listening socket",
            "cgroups": "Cgroups",
            "network": "Network",
            "streams": "Streaming server",
            "images": "Images",
            "admin": "Admin socket",
            "logging": "Logging",
        }
    ),
    contradictions=contradictions,
    prefix=PREFIX,
    foreign=("INTERPOSE_RUNTIME_ENDPOINT",),  # where the relay looks for a runtime
)
