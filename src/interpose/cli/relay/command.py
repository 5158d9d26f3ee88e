"""`interpose relay`: gather settings, then run the relay. Imports nothing of it before the settings are right."""

import os
from typing import Any

from interpose.cli.common.options import SettingsCommand, given_flags, told
from interpose.config.load import LoadedSettings, load
from interpose.config.relay.table import RELAY


def run_loaded(loaded: LoadedSettings, *, print_config: bool = False) -> int:
    """Show the settings, or run the relay with them; the exit code."""
    if told(loaded, print_config=print_config):
        return 0
    from interpose.cli.relay.process import run

    return run(loaded.settings, loaded.origins)


def _relay(config: str | None, print_config: bool, **parameters: Any) -> int:
    loaded = load(RELAY, flags=given_flags(parameters, RELAY), env=os.environ, path=config)
    return run_loaded(loaded, print_config=print_config)


relay = SettingsCommand(
    "relay",
    RELAY,
    callback=_relay,
    help="Stand between the kubelet and the container runtime: pass every CRI call on, see it, shape it.",
    params=[],
)
