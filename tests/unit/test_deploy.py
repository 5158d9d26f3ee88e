"""What is in deploy/ works with the program as it is: the sample settings load, the units are valid."""

import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from interpose.config.endpoint import parse_endpoint
from interpose.config.load import load
from interpose.config.settings import ProcessSettings, RelaySettings
from interpose.config.table import RELAY_SETTINGS

DEPLOY = Path(__file__).parents[2] / "deploy"
PROGRAM = "/opt/interpose/bin/interpose"
# Asked for on the command line of one start, never in a file.
_NOT_IN_THE_SAMPLE = {"process.take_over", "process.detach"}


def unit(name: str) -> ConfigParser:
    """A unit file, keys as written. Each key of ours appears once."""
    parser = ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment]
    parser.read_string((DEPLOY / "systemd" / name).read_text())
    return parser


def seconds(text: str) -> float:
    """A time of a unit file that is given in plain seconds."""
    return float(text)


def test_the_sample_settings_are_the_defaults() -> None:
    """The sample loads without a problem and changes nothing."""
    loaded = load(flags={}, env={}, path=str(DEPLOY / "interpose.yaml"))

    assert loaded.settings == RelaySettings()
    assert loaded.warnings == ()


def test_the_sample_settings_are_complete() -> None:
    """Every setting that belongs into a file is in the sample."""
    origins = load(flags={}, env={}, path=str(DEPLOY / "interpose.yaml")).origins

    missing = {setting.key for setting in RELAY_SETTINGS if origins[setting.key] == "default"}
    assert missing == _NOT_IN_THE_SAMPLE


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """systemd-analyze finds no unknown key and no wrong value; the program stands where it is installed here."""
    installed = Path(sys.executable).parent / "interpose"
    for name in ("interpose-relay.service", "interpose-relay.socket"):
        text = (DEPLOY / "systemd" / name).read_text()
        (tmp_path / name).write_text(text.replace(PROGRAM, str(installed)))

    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", "--man=no", *sorted(map(str, tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        check=False,
    )

    complaints = [line for line in done.stderr.splitlines() if "interpose-relay" in line]
    assert (done.returncode, complaints) == (0, []), done.stderr


def test_the_service_leaves_room_for_the_grace_time() -> None:
    """systemd waits longer for the end than the relay needs for its calls, and beats slower than the relay pats."""
    service = unit("interpose-relay.service")["Service"]

    assert seconds(service["TimeoutStopSec"]) > ProcessSettings().grace
    assert seconds(service["WatchdogSec"]) >= 10


def test_the_service_can_be_taken_over() -> None:
    """Reloading is a take-over by a process that is no child of the main one, and no signal hits its predecessor."""
    service = unit("interpose-relay.service")["Service"]

    assert service["Type"] == "notify"
    assert service["NotifyAccess"] == "all"
    assert service["ExecReload"] == f"{service['ExecStart']} --take-over --detach"
    assert service["KillMode"] == "process"
    assert service["RuntimeDirectoryPreserve"] == "yes"


def test_a_mistake_in_the_settings_is_not_retried() -> None:
    """The exit code for unusable settings ends the restarts; everything else is restarted for ever."""
    parser = unit("interpose-relay.service")

    assert parser["Service"]["RestartPreventExitStatus"] == "78"
    assert parser["Service"]["Restart"] == "always"
    assert parser["Unit"]["StartLimitIntervalSec"] == "0"


def test_the_socket_unit_listens_where_the_kubelet_connects() -> None:
    """The path is the default of the relay, by its modern name: systemd complains about /var/run."""
    listen = unit("interpose-relay.socket")["Socket"]["ListenStream"]

    default = parse_endpoint(RelaySettings().listen, "listen")
    assert listen == default.replace("/var/run/", "/run/")
