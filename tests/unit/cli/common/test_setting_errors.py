"""Errors of the system name the setting that they are about."""

import errno
import os

import pytest

from interpose.cli.common.setting_errors import name_setting_in_errors
from interpose.cli.main import report
from interpose.errors import ConfigError, SocketInUseError

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/srv/x/file")


def told(error: ConfigError | SocketInUseError | OSError, capsys: pytest.CaptureFixture[str], **paths: str) -> str:
    """What a person reads."""
    with pytest.raises((ConfigError, SocketInUseError, OSError)) as caught, name_setting_in_errors(**paths):
        raise error
    assert type(caught.value) is type(error)
    report(caught.value)
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FULL, "--admin-listen: /srv/x/file: No space left on device"),
        (OSError(errno.EADDRINUSE, "cannot listen on x"), "--admin-listen: cannot listen on x"),
        (OSError("something"), "--admin-listen: something"),
        (SocketInUseError("/a", 5), "--admin-listen: socket /a is in use by PID 5"),
        (ConfigError(["a", "b"]), "--admin-listen: a\nerror: --admin-listen: b"),
    ],
)
def test_one_setting(error: OSError, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is wrong inside is about it."""
    assert told(error, capsys, admin_listen="/a") == f"error: {text}\n"


def test_one_of_several_settings(capsys: pytest.CaptureFixture[str]) -> None:
    """The one whose path the error names; none if it names none."""
    assert told(FULL, capsys, state="/run/x", root="/srv/x") == "error: --root: /srv/x/file: No space left on device\n"
    assert told(FULL, capsys, state="/run/x", root="/y") == "error: /srv/x/file: No space left on device\n"


def test_what_is_owned_stays_known() -> None:
    """Whoever catches the error can still ask whose socket it is."""
    with pytest.raises(SocketInUseError) as caught, name_setting_in_errors(listen="/a"):
        raise SocketInUseError("/a", 5)
    assert (caught.value.path, caught.value.pid) == ("/a", 5)
