"""`interpose relay`: gather settings, then run the relay. Imports nothing of it before the settings are right."""

from typing import Any

from interpose.cli.common.options import SettingsCommand, run_with_settings
from interpose.config.load import LoadedSettings
from interpose.config.relay.table import RELAY


def run_relay(loaded: LoadedSettings) -> int:
    """Run a relay until a signal or a successor ends it; the exit code."""
    if not loaded.settings.embedded:  # the runtime in this process pulls images
        from interpose.cli.relay.unused_libraries import leave_out_openssl

        leave_out_openssl()
    from interpose.cli.relay.process import run

    return run(loaded.settings, loaded.origins)


def _relay(**parameters: Any) -> int:
    return run_with_settings(RELAY, parameters, run_relay)


relay = SettingsCommand(
    "relay",
    RELAY,
    callback=_relay,
    help="Stand between the kubelet and the container runtime: pass every CRI call on, see it, shape it.",
    params=[],
)
