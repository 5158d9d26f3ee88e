"""`interpose webhook`: settings from everywhere, then a webhook with them; and its commands."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from interpose.cli.main import cli
from interpose.config.webhook.settings import TlsSettings, WebhookSettings


class FakeProcess(ModuleType):
    """Stands for `interpose.cli.webhook.process`: remembers what it was run with."""

    def __init__(self) -> None:
        super().__init__("interpose.cli.webhook.process")
        self.runs: list[WebhookSettings] = []

    def run(self, settings: WebhookSettings) -> int:
        """Remember."""
        self.runs.append(settings)
        return 0


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> FakeProcess:
    """The webhook that commands will start."""
    fake = FakeProcess()
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    return fake


def test_the_printed_command_line_works(webhook: FakeProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files are found from where one is."""
    monkeypatch.chdir(tmp_path)
    line = "webhook --listen 0.0.0.0:8443 --tls-cert tls.crt --tls-key /k/tls.key"
    result = CliRunner().invoke(cli, line.split())
    assert (result.exit_code, result.output) == (0, "")
    tls = TlsSettings(cert=f"{tmp_path}/tls.crt", key="/k/tls.key")
    assert webhook.runs == [WebhookSettings(listen="0.0.0.0:8443", tls=tls)]


def test_annotations_can_be_named_several_times(webhook: FakeProcess) -> None:
    """As flags, as a list, or both."""
    line = "webhook --annotation intel.com/resources --annotation noderesource.dev/resources,x.example/y"
    assert CliRunner().invoke(cli, line.split()).exit_code == 0
    assert webhook.runs[0].pods.annotation == ("intel.com/resources", "noderesource.dev/resources", "x.example/y")


def test_settings_can_be_shown(webhook: FakeProcess) -> None:
    """Without starting anything; what has no effect is said."""
    env = {"INTERPOSE_WEBHOOK_GRACE": "3s", "INTERPOSE_WEBHOOK_GRAZE": "3s"}
    result = CliRunner().invoke(cli, ["webhook", "--print-config"], env=env)
    assert result.exit_code == 0
    assert "environment INTERPOSE_WEBHOOK_GRACE" in result.stdout
    assert "warning: environment INTERPOSE_WEBHOOK_GRAZE: is not a known setting" in result.stderr
    assert webhook.runs == []


def test_mistakes_are_all_told(webhook: FakeProcess) -> None:
    """With the exit code of settings that cannot be used."""
    line = "webhook --listen nowhere --annotation nonsense --on-unreadable maybe"
    result = CliRunner().invoke(cli, line.split())
    assert result.exit_code == 78
    assert [text.partition(":")[0] for text in result.stderr.replace("error: ", "").splitlines()] == [
        "flag --listen",
        "flag --annotation",
        "flag --on-unreadable",
    ]
    assert webhook.runs == []


def test_the_commands_of_the_webhook_are_listed_and_found(webhook: FakeProcess) -> None:
    """`certs` is loaded when it is called, and the webhook does not start then."""
    result = CliRunner().invoke(cli, ["webhook", "--help"])
    assert "certs  Make a certificate" in result.stdout
    result = CliRunner().invoke(cli, ["webhook", "certs", "--help"])
    assert (result.exit_code, "--webhook-config" in result.stdout) == (0, True)
    assert webhook.runs == []
