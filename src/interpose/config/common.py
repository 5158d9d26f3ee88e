"""Rows that several programs have, written once: the admin socket and the log. Pure.

Invariant: what differs between programs is an argument, so that the same setting reads the same everywhere.
"""

from typing import Final

from interpose.config.schema import ENV_PREFIX, Setting
from interpose.config.values import SettingKind, address, choice, listen_or_none, words

LEVEL: Final = "Lowest level that is logged."
BESIDE_THE_KUBELET: Final = "The same form as the kubelet's log beside it."


def row(
    prefix: str, key: str, flag: str, kind: SettingKind, *, about: str, why: str, aliases: tuple[str, ...] = ()
) -> Setting:
    """A row of a program whose variables begin with `prefix`."""
    return Setting(key=key, flag=flag, kind=kind, help=about, why=why, prefix=prefix, aliases=aliases)


def admin_rows(port: int, prefix: str = ENV_PREFIX) -> tuple[Setting, ...]:
    """The admin socket, and metrics for others; `port` is the one that examples have."""
    return (
        row(
            prefix,
            "admin.listen",
            "--admin-listen",
            listen_or_none(),
            about=f'Admin socket: a path or a loopback address such as 127.0.0.1:{port}. "none" turns it off.',
            why="A unix socket needs no port and is closed to other users.",
        ),
        row(
            prefix,
            "admin.metrics_listen",
            "--metrics-listen",
            address(optional=True),
            about=(
                "Address on which metrics and health can be read without being on this machine, such as "
                f'0.0.0.0:{port}; ":{port}" is every address. "none" turns it off.'
            ),
            why="Nothing of a node is open to the network unless somebody wants it.",
        ),
    )


def logging_rows(
    prefix: str = ENV_PREFIX, *, why_level: str, about_level: str = LEVEL, why_format: str = BESIDE_THE_KUBELET
) -> tuple[Setting, ...]:
    """The log; `why_level` says what the default level reports."""
    return (
        row(
            prefix,
            "logging.level",
            "--log-level",
            choice("debug", "info", "warning", "error"),
            about=about_level,
            why=why_level,
        ),
        row(
            prefix,
            "logging.debug",
            "--log-debug",
            words(),
            about=(
                "Parts of the program whose debug messages are logged whatever the level: packages or modules, such as "
                "resmgr or dispatcher.client; * is all of it, and -resmgr behind that all but this part."
            ),
            why="None: they are for looking into one thing.",
        ),
        row(
            prefix,
            "logging.format",
            "--log-format",
            choice("text", "json"),
            about="Form of the log: text as klog writes it, or one JSON object per line.",
            why=why_format,
        ),
    )
