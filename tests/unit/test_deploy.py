"""What is in deploy/ works with the program as it is: the sample settings load, the units are valid."""

import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from interpose.cli.pod.run import run
from interpose.config.agent.settings import AgentSettings
from interpose.config.agent.table import AGENT
from interpose.config.endpoint import parse_endpoint
from interpose.config.hookserver.settings import HookServerSettings
from interpose.config.hookserver.table import HOOKSERVER
from interpose.config.load import load
from interpose.config.relay.settings import PolicySettings, ProcessSettings, RelaySettings
from interpose.config.relay.table import RELAY
from interpose.config.runtime.settings import RuntimeSettings
from interpose.config.runtime.table import RUNTIME
from interpose.config.schema import Schema
from interpose.config.webhook.table import WEBHOOK

DEPLOY = Path(__file__).parents[2] / "deploy"
PROGRAM = "/opt/interpose/bin/interpose"
RUNTIME_SERVICE = "interpose-runtime.service"
PODS_SERVICE = "interpose-pods.service"
SERVICES = ("interpose-relay.service", "interpose-hookserver.service", "interpose-agent.service", RUNTIME_SERVICE)
UNITS = (*SERVICES, PODS_SERVICE, "interpose-relay.socket")
DOCKER = ("interpose-relay.service.d/docker.conf", "interpose-relay.socket.d/docker.conf")
# Each program with its sample, and what is asked for on the command line of one start, never in a file.
SAMPLES = (
    pytest.param(RELAY, "interpose.yaml", {"process.take_over", "process.detach"}, id="relay"),
    pytest.param(HOOKSERVER, "hookserver.yaml", set[str](), id="hookserver"),
    pytest.param(AGENT, "agent.yaml", set[str](), id="agent"),
    pytest.param(WEBHOOK, "webhook.yaml", set[str](), id="webhook"),
    pytest.param(RUNTIME, "runtime.yaml", set[str](), id="runtime"),
)
# Settings of a unit that its children inherit, or that give it a view of the file system of its own.
CONFINING = (
    *("ProtectSystem", "ProtectHome", "ProtectControlGroups", "ProtectKernelTunables", "ProtectKernelModules"),
    *("ProtectKernelLogs", "ProtectClock", "ProtectHostname", "ProtectProc", "PrivateTmp", "PrivateDevices"),
    *("PrivateMounts", "ReadWritePaths", "ReadOnlyPaths", "InaccessiblePaths", "BindPaths", "TemporaryFileSystem"),
)
INHERITED = (
    *("NoNewPrivileges", "CapabilityBoundingSet", "SystemCallFilter", "SystemCallArchitectures", "LockPersonality"),
    *("RestrictNamespaces", "RestrictAddressFamilies", "RestrictRealtime", "RestrictSUIDSGID", "UMask"),
    *("MemoryDenyWriteExecute", "IPAddressDeny"),
)


def unit(name: str) -> ConfigParser:
    """A unit file, keys as written. Each key of ours appears once, or is emptied first."""
    parser = ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",), strict=False)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read_string((DEPLOY / "systemd" / name).read_text())
    return parser


def seconds(text: str) -> float:
    """A time of a unit file that is given in plain seconds."""
    return float(text)


@pytest.mark.parametrize(("schema", "name", "absent"), SAMPLES)
def test_the_sample_settings_are_the_defaults(schema: Schema, name: str, absent: set[str]) -> None:
    """The sample loads without a problem and changes nothing."""
    loaded = load(schema, flags={}, env={}, path=str(DEPLOY / name))

    assert loaded.settings == schema.settings()
    assert loaded.warnings == ()


@pytest.mark.parametrize(("schema", "name", "absent"), SAMPLES)
def test_the_sample_settings_are_complete(schema: Schema, name: str, absent: set[str]) -> None:
    """Every setting that belongs into a file is in the sample."""
    origins = load(schema, flags={}, env={}, path=str(DEPLOY / name)).origins

    assert {setting.key for setting in schema.table if origins[setting.key] == "default"} == absent


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("drop_ins", [(), DOCKER], ids=["cri", "docker"])
def test_systemd_accepts_the_units(tmp_path: Path, drop_ins: tuple[str, ...]) -> None:
    """systemd-analyze finds no unknown key and no wrong value; the program stands where it is installed here."""
    installed = Path(sys.executable).parent / "interpose"
    for name in (*UNITS, *drop_ins):
        text = (DEPLOY / "systemd" / name).read_text()
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text.replace(PROGRAM, str(installed)))

    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", "--man=no", *(str(tmp_path / name) for name in UNITS)],
        capture_output=True,
        text=True,
        check=False,
    )

    complaints = [line for line in done.stderr.splitlines() if "interpose-" in line or "docker.conf" in line]
    assert (done.returncode, complaints) == (0, []), done.stderr


def test_the_service_leaves_room_for_the_grace_time() -> None:
    """systemd waits longer for the end than the relay needs for its calls, and beats slower than the relay pats."""
    service = unit("interpose-relay.service")["Service"]

    assert seconds(service["TimeoutStopSec"]) > ProcessSettings().grace
    assert seconds(service["WatchdogSec"]) >= 10


def test_the_drop_ins_for_docker_make_a_relay_in_front_of_dockerd() -> None:
    """The setting is right, systemd's socket is the one the relay would have, and cri-dockerd comes after it."""
    service, held = (unit(name) for name in DOCKER)
    name, _, value = service["Service"]["Environment"].partition("=")
    settings = load(RELAY, flags={}, env={name: value}).settings

    assert settings.backend == "docker"
    assert parse_endpoint(f"/var{held['Socket']['ListenStream']}", "drop-in") == settings.listen
    assert "ListenStream=\nListenStream=" in (DEPLOY / "systemd" / DOCKER[1]).read_text()
    assert service["Unit"]["Before"] == held["Unit"]["Before"] == "cri-docker.service"


def test_the_service_can_be_taken_over() -> None:
    """Reloading is a take-over by a process that is no child of the main one, and no signal hits its predecessor."""
    service = unit("interpose-relay.service")["Service"]

    assert service["Type"] == "notify"
    assert service["NotifyAccess"] == "all"
    assert service["ExecReload"] == f"{service['ExecStart']} --take-over --detach"
    assert service["KillMode"] == "process"
    assert service["RuntimeDirectoryPreserve"] == "yes"


@pytest.mark.parametrize("name", [*SERVICES, PODS_SERVICE])
def test_a_mistake_in_the_settings_is_not_retried(name: str) -> None:
    """The exit code for unusable settings ends the restarts; everything else is restarted for ever."""
    parser = unit(name)

    assert parser["Service"]["RestartPreventExitStatus"] == "78"
    assert parser["Service"]["Restart"] == "always"
    assert parser["Unit"]["StartLimitIntervalSec"] == "0"


def test_the_hook_server_may_write_what_it_has_to() -> None:
    """Nothing in its unit makes cgroups, sysctls or the directory of registrations read-only; its own are made."""
    service = unit("interpose-hookserver.service")["Service"]
    settings = HookServerSettings()

    assert not {"ProtectControlGroups", "ProtectKernelTunables", "ProtectProc"} & set(service)
    assert settings.registration.dir.startswith("/etc/")
    assert service["ProtectSystem"] == "yes"  # "full" is /etc too
    assert f"/var/lib/{service['StateDirectory']}" == settings.state_dir
    assert settings.listen.startswith(f"/var/run/{service['RuntimeDirectory']}/")


def test_the_relay_has_a_place_for_its_state() -> None:
    """Where its settings say, for nobody else to read; /var stays writable, and cgroups are the runtime's business."""
    service = unit("interpose-relay.service")["Service"]

    assert f"/var/lib/{service['StateDirectory']}" == PolicySettings().state_dir
    assert service["StateDirectoryMode"] == "0700"
    assert service["ProtectSystem"] == "full"
    assert service["ProtectControlGroups"] == "yes"


def test_the_agent_may_write_its_own_directory_only() -> None:
    """Its sockets and the file for the hook server; it needs no capability for them."""
    service = unit("interpose-agent.service")["Service"]
    settings = AgentSettings()
    own = f"/var/run/{service['RuntimeDirectory']}/"

    assert all(
        path.startswith(own) for path in (settings.service.socket, settings.node_state.file, settings.admin.listen)
    )
    assert service["ProtectSystem"] == "strict"
    assert service["ReadWritePaths"] == own.rstrip("/").replace("/var/run/", "/run/")
    assert service["CapabilityBoundingSet"] == ""
    assert "IPAddressDeny" not in service  # the API server is on the network


def test_containers_outlive_the_runtime() -> None:
    """Only the main process is signalled, what shims need stays, and calls in flight have their time."""
    service = unit(RUNTIME_SERVICE)["Service"]
    settings = RuntimeSettings()

    assert service["Type"] == "notify"
    assert service["KillMode"] == "process"
    assert service["Delegate"] == "yes"
    assert seconds(service["TimeoutStopSec"]) > settings.grace
    assert service["RuntimeDirectoryPreserve"] == "yes"
    assert settings.state.startswith(f"/run/{service['RuntimeDirectory']}/")
    assert settings.listen.startswith(f"/var/run/{service['RuntimeDirectory']}/")
    assert settings.root.startswith(f"/var/lib/{service['StateDirectory']}/")


def test_containers_are_not_confined_by_the_unit_of_the_runtime() -> None:
    """They are its children; and the next process must see their mounts."""
    assert not {*CONFINING, *INHERITED} & set(unit(RUNTIME_SERVICE)["Service"])


def test_pods_are_kept_by_a_unit() -> None:
    """The command is one that the program takes, and volumes that it mounts are there for the runtime."""
    service = unit(PODS_SERVICE)["Service"]
    words = service["ExecStart"].removeprefix(f"{PROGRAM} pod run ").split()

    parsed = run.make_context("run", words)
    assert parsed.params["watch"]
    assert parsed.params["files"] == ("/etc/interpose/pods",)
    assert parsed.params["root"] == f"/var/lib/{service['StateDirectory']}"
    assert parsed.params["admin_listen"] == f"/run/{service['RuntimeDirectory']}/pods-admin.sock"
    assert not set(CONFINING) & set(service)


def test_the_services_can_share_their_directory() -> None:
    """Neither takes the sockets of the other away when it stops."""
    for name in (*SERVICES, PODS_SERVICE):
        service = unit(name)["Service"]

        assert service["RuntimeDirectory"] == "interpose"
        assert service["RuntimeDirectoryPreserve"] == "yes"


def test_the_socket_unit_listens_where_the_kubelet_connects() -> None:
    """The path is the default of the relay, by its modern name: systemd complains about /var/run."""
    listen = unit("interpose-relay.socket")["Socket"]["ListenStream"]

    default = parse_endpoint(RelaySettings().listen, "listen")
    assert listen == default.replace("/var/run/", "/run/")
