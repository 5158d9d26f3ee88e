"""`interpose runtime`: gather settings, then run containers for callers over CRI."""

from typing import Any, Final

import click

from interpose.cli.common.options import SettingsCommand, run_with_settings
from interpose.config.endpoint import parse_endpoint
from interpose.config.load import LoadedSettings
from interpose.config.runtime.table import RUNTIME
from interpose.errors import ConfigError

_IMAGES: Final = "--image-service-endpoint"


def run_runtime(loaded: LoadedSettings) -> int:
    """Run a runtime until a signal ends it; the exit code."""
    from interpose.cli.runtime.process import run

    return run(loaded.settings, loaded.origins)


def _runtime(image_service_endpoint: str | None, **parameters: Any) -> int:
    def check(loaded: LoadedSettings) -> None:
        if image_service_endpoint is None:
            return
        images = parse_endpoint(image_service_endpoint, f"flag {_IMAGES}")
        if images != loaded.settings.listen:
            raise ConfigError(
                f"flag {_IMAGES}: {images!r} is not the socket of --listen, {loaded.settings.listen!r}: images are "
                "served on the same one"
            )

    return run_with_settings(RUNTIME, parameters, run_runtime, check=check)


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
