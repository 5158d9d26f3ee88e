"""`interpose runtime`: gather settings, then run containers for whoever calls over CRI."""

import os
from typing import Any, Final

import click

from interpose.cli.common.options import SettingsCommand, given_flags, told
from interpose.config.endpoint import parse_endpoint
from interpose.config.load import LoadedSettings, load
from interpose.config.runtime.table import RUNTIME
from interpose.errors import ConfigError

_IMAGES: Final = "--image-service-endpoint"


def run_loaded(loaded: LoadedSettings, *, print_config: bool = False) -> int:
    """Show the settings, or run the runtime with them; the exit code."""
    if told(loaded, print_config=print_config):
        return 0
    from interpose.cli.runtime.process import run

    return run(loaded.settings, loaded.origins)


def _runtime(config: str | None, print_config: bool, image_service_endpoint: str | None, **parameters: Any) -> int:
    loaded = load(RUNTIME, flags=given_flags(parameters, RUNTIME), env=os.environ, path=config)
    if image_service_endpoint is not None:
        images = parse_endpoint(image_service_endpoint, f"flag {_IMAGES}")
        if images != loaded.settings.listen:
            raise ConfigError(
                f"flag {_IMAGES}: {images!r} is not the socket of --listen, {loaded.settings.listen!r}: images are "
                "served on the same one"
            )
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
    params=[
        click.Option(
            [_IMAGES],
            metavar="TEXT",
            default=None,
            help="Accepted as the kubelet has it: images are served on the socket of --listen, and on no other.",
        )
    ],
)
