"""`interpose webhook`: gather settings, then annotate pods for API servers; `certs` makes a certificate for it."""

import os
from typing import Any

from interpose.cli.common.lazy import Subcommand
from interpose.cli.common.options import given_flags, told
from interpose.cli.common.settings_group import SettingsGroup
from interpose.config.load import LoadedSettings, load
from interpose.config.webhook.table import WEBHOOK

_COMMANDS = {
    "certs": Subcommand(
        "interpose.cli.webhook.certs", "certs", "Make a certificate for the webhook, and let API servers trust it."
    ),
}


def _webhook(config: str | None, print_config: bool, **parameters: Any) -> int:
    loaded = load(WEBHOOK, flags=given_flags(parameters, WEBHOOK), env=os.environ, path=config)
    if told(loaded, print_config=print_config):
        return 0
    return run_loaded(loaded)


def run_loaded(loaded: LoadedSettings) -> int:
    """Run a webhook until it is told to stop."""
    from interpose.cli.webhook.process import run

    return run(loaded.settings)


webhook = SettingsGroup(
    "webhook",
    WEBHOOK,
    table=_COMMANDS,
    callback=_webhook,
    help=(
        "Annotate pods with what their containers ask for, so that resource policies on nodes know it. API servers ask "
        "over HTTPS, as a MutatingWebhookConfiguration tells them. Certificates are read again when their files change."
    ),
)
