"""`interpose runtime`: gather settings, then run containers for whoever calls over CRI."""

import os
from typing import Any

from interpose.cli.options import SettingsCommand, given_flags, told
from interpose.config.load import Loaded, load
from interpose.config.runtime_table import RUNTIME


def run_loaded(loaded: Loaded, *, print_config: bool = False) -> int:
    """Show the settings, or run the runtime with them; the exit code."""
    if told(loaded, print_config=print_config):
        return 0
    from interpose.cli.runtime_process import run

    return run(loaded.settings, loaded.origins)


def _runtime(config: str | None, print_config: bool, **parameters: Any) -> int:
    loaded = load(RUNTIME, flags=given_flags(parameters, RUNTIME), env=os.environ, path=config)
    return run_loaded(loaded, print_config=print_config)


runtime = SettingsCommand(
    "runtime",
    RUNTIME,
    callback=_runtime,
    help=(
        "Run containers: a runtime of our own, for kubelets, for a relay, for crictl and for `interpose pod`. "
        "Containers go on when it is stopped or killed, and are found again when it starts. Images are brought in with "
        "`interpose image`, or pulled."
    ),
    params=[],
)
