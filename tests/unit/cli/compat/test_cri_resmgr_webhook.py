"""Command lines of CRI Resource Manager's webhook work as they did."""

from pathlib import Path

import pytest

from interpose.cli.compat.cri_resmgr_common import load_line
from interpose.cli.compat.cri_resmgr_flags import read_line
from interpose.cli.compat.cri_resmgr_webhook import FLAGS, WEBHOOK_PROGRAM, run_command
from interpose.config.load import LoadedSettings
from interpose.config.webhook.settings import TlsSettings, WebhookSettings


def loaded(line: str, env: dict[str, str] | None = None) -> LoadedSettings:
    """The settings of a command line."""
    return load_line(WEBHOOK_PROGRAM, read_line(line.split(), flags=FLAGS), env or {})


@pytest.mark.parametrize(
    "line",
    [
        "-port 8443 -cert-file /c/tls.crt -key-file /c/tls.key",
        "--port=8443 --cert-file=/c/tls.crt --key-file=/c/tls.key",
    ],
)
def test_flags_are_understood_in_every_spelling(line: str) -> None:
    """The port is one on all addresses."""
    found = loaded(line)
    assert found.settings == WebhookSettings(listen=":8443", tls=TlsSettings(cert="/c/tls.crt", key="/c/tls.key"))
    assert found.origins["listen"] in ("flag -port", "flag --port")  # as it was typed


def test_the_bare_command_listens_on_the_old_port() -> None:
    """Which is ours too."""
    assert loaded("").settings.listen == ":443"


def test_files_are_found_from_where_one_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty name is none."""
    monkeypatch.chdir(tmp_path)
    settings = loaded("-cert-file tls.crt -key-file=").settings
    assert (settings.tls.cert, settings.tls.key) == (f"{tmp_path}/tls.crt", TlsSettings().key)


def test_everything_else_comes_from_the_environment() -> None:
    """As for `interpose webhook`."""
    assert loaded("", {"INTERPOSE_WEBHOOK_ON_UNREADABLE": "deny"}).settings.pods.on_unreadable == "deny"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-port", "x"], 78, "error: flag -port: ':x'"),
        (["-nonsense"], 2, "nonsense"),
        (["-help"], 0, "Usage: cri-resmgr-webhook [flags]"),
        (["-version"], 0, "cri-resmgr-webhook (interpose "),
    ],
)
def test_what_is_printed(arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Mistakes with their exit codes, help and version."""
    assert run_command(arguments, {}) == code
    printed = capsys.readouterr()
    assert message in printed.out + printed.err
