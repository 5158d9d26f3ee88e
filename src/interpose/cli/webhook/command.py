"""`interpose webhook`: gather settings, then annotate pods for API servers; `certs` makes a certificate for it."""

from typing import Any

from interpose.cli.common.lazy import Subcommand
from interpose.cli.common.options import run_with_settings
from interpose.cli.common.settings_group import SettingsGroup
from interpose.config.load import LoadedSettings
from interpose.config.webhook.table import WEBHOOK

_COMMANDS = {
    "certs": Subcommand(
        "interpose.cli.webhook.certs", "certs", "Make a certificate for the webhook, and let API servers trust it."
    ),
}


def _webhook(**parameters: Any) -> int:
    return run_with_settings(WEBHOOK, parameters, run_webhook)


def run_webhook(loaded: LoadedSettings) -> int:
    """Run a webhook until a signal ends it; the exit code."""
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
