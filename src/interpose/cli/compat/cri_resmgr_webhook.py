"""`cri-resmgr-webhook`: the webhook under the name, flags and defaults of CRI Resource Manager."""

import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from interpose.cli.common.stdio import standard_streams
from interpose.cli.compat.cri_resmgr_common import COMMON, ResmgrProgram, run_program
from interpose.cli.compat.cri_resmgr_flags import ResmgrFlag
from interpose.config.load import LoadedSettings
from interpose.config.webhook.table import WEBHOOK

PROGRAM: Final = "cri-resmgr-webhook"


def _all_addresses(port: str) -> str:
    return f":{port}"


FLAGS: Final[Mapping[str, ResmgrFlag]] = MappingProxyType(
    {
        # Without a default of its own: ours is the same, and a whole address.
        "port": ResmgrFlag(
            "port on which API servers ask, on all addresses (default '443')", key="listen", read=_all_addresses
        ),
        "cert-file": ResmgrFlag("file with the certificate, PEM", key="tls.cert"),
        "key-file": ResmgrFlag("file with its key, PEM", key="tls.key"),
        **COMMON,
    }
)
ABOUT: Final = """\
Annotates pods with what their containers ask for. This is `interpose webhook` with other flags. Flags are written
-flag value, -flag=value, --flag value or --flag=value. Everything else can be set by INTERPOSE_WEBHOOK_* environment
variables, which `interpose webhook --help` lists."""


def run(loaded: LoadedSettings) -> int:
    """Run a webhook until a signal ends it; the exit code."""
    from interpose.cli.webhook.command import run_webhook

    return run_webhook(loaded)


WEBHOOK_PROGRAM: Final = ResmgrProgram(name=PROGRAM, about=ABOUT, flags=FLAGS, schema=WEBHOOK, run=run)


def run_command(arguments: Sequence[str], env: Mapping[str, str]) -> int:
    """The whole program but for the process exit."""
    return run_program(WEBHOOK_PROGRAM, arguments, env)


def main() -> None:
    """Entry point of the `cri-resmgr-webhook` program."""
    with standard_streams():
        sys.exit(run_command(sys.argv[1:], os.environ))
