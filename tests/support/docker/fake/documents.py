"""What the Docker API tells about containers, images and itself: the documents, without the wire."""

import datetime as dt
from typing import Any, Final

from tests.support.docker.fake.containers import CREATED, EXITED, Container, Exec, Image

API: Final = "1.41"
MINIMUM: Final = "1.12"
VERSION: Final = "20.10.24+dfsg1"
_NEVER: Final = "0001-01-01T00:00:00Z"


def rfc3339(moment: float | None) -> str:
    """As Go writes a time; a moment that never was is the year 1."""
    if moment is None:
        return _NEVER
    return dt.datetime.fromtimestamp(moment, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


def inspected(container: Container, root: str) -> dict[str, Any]:
    """GET /containers/{id}/json."""
    folder = f"{root}/containers/{container.id}"
    argv = container.argv
    return {
        "Id": container.id,
        "Created": rfc3339(container.created),
        "Path": argv[0] if argv else "",
        "Args": argv[1:],
        "State": {
            "Status": container.status,
            "Running": container.running,
            "Paused": False,
            "Restarting": False,
            "OOMKilled": False,
            "Dead": False,
            "Pid": container.pid,
            "ExitCode": container.exit_code,
            "Error": container.error,
            "StartedAt": rfc3339(container.started),
            "FinishedAt": rfc3339(container.finished),
        },
        "Image": container.image.id,
        "ResolvConfPath": f"{folder}/resolv.conf",
        "HostnamePath": f"{folder}/hostname",
        "HostsPath": f"{folder}/hosts",
        "LogPath": f"{folder}/{container.id}-json.log",
        "Name": f"/{container.name}",
        "RestartCount": container.restarts,
        "Driver": "vfs",
        "Platform": "linux",
        "MountLabel": "",
        "ProcessLabel": "",
        "AppArmorProfile": "",
        "ExecIDs": list(container.execs) or None,
        "HostConfig": container.host,
        "GraphDriver": {"Data": None, "Name": "vfs"},
        "Mounts": [],
        "Config": container.config,
        "NetworkSettings": {"Bridge": "", "SandboxID": "", "Ports": {}, "IPAddress": "", "Networks": {}},
    }


def listed(container: Container) -> dict[str, Any]:
    """A row of GET /containers/json."""
    words = {CREATED: "Created", EXITED: f"Exited ({container.exit_code}) 1 second ago"}
    return {
        "Id": container.id,
        "Names": [f"/{container.name}"],
        "Image": container.config["Image"],
        "ImageID": container.image.id,
        "Command": " ".join(container.argv),
        "Created": int(container.created),
        "Ports": [],
        "Labels": container.labels,
        "State": container.status,
        "Status": words.get(container.status, "Up 1 second"),
        "HostConfig": {"NetworkMode": container.host["NetworkMode"]},
        "NetworkSettings": {"Networks": {}},
        "Mounts": [],
    }


def event(container: Container, action: str, now: float, more: dict[str, str]) -> dict[str, Any]:
    """A line of GET /events."""
    image = container.config["Image"]
    attributes = {**container.labels, "image": image, "name": container.name, **more}
    return {
        "status": action,
        "id": container.id,
        "from": image,
        "Type": "container",
        "Action": action,
        "Actor": {"ID": container.id, "Attributes": dict(sorted(attributes.items()))},
        "scope": "local",
        "time": int(now),
        "timeNano": int(now * 1_000_000_000),
    }


def exec_inspected(one: Exec) -> dict[str, Any]:
    """GET /exec/{id}/json."""
    return {
        "ID": one.id,
        "Running": one.running,
        "ExitCode": one.exit_code,
        "ProcessConfig": {
            "tty": one.tty,
            "entrypoint": one.argv[0] if one.argv else "",
            "arguments": one.argv[1:],
            "privileged": False,
        },
        "OpenStdin": one.stdin,
        "OpenStderr": one.stderr,
        "OpenStdout": one.stdout,
        "CanRemove": False,
        "ContainerID": one.container.id,
        "DetachKeys": "",
        "Pid": one.pid,
    }


def image_listed(image: Image) -> dict[str, Any]:
    """A row of GET /images/json."""
    return {
        "Containers": -1,
        "Created": -62135596800,
        "Id": image.id,
        "Labels": dict(image.labels) or None,
        "ParentId": "",
        "RepoDigests": None,
        "RepoTags": list(image.tags),
        "SharedSize": -1,
        "Size": image.size,
        "VirtualSize": image.size,
    }


def image_inspected(image: Image) -> dict[str, Any]:
    """GET /images/{name}/json."""
    return {
        "Id": image.id,
        "RepoTags": list(image.tags),
        "RepoDigests": [],
        "Parent": "",
        "Created": _NEVER,
        "Config": {"Env": list(image.env), "Cmd": list(image.command), "Labels": dict(image.labels) or None},
        "Architecture": "amd64",
        "Os": "linux",
        "Size": image.size,
        "VirtualSize": image.size,
    }


def version() -> dict[str, Any]:
    """GET /version."""
    return {
        "Platform": {"Name": ""},
        "Components": [
            {"Name": "Engine", "Version": VERSION, "Details": {"ApiVersion": API, "MinAPIVersion": MINIMUM}},
            {"Name": "containerd", "Version": "1.6.20~ds1", "Details": {"GitCommit": ""}},
        ],
        "Version": VERSION,
        "ApiVersion": API,
        "MinAPIVersion": MINIMUM,
        "GitCommit": "5d6db84",
        "GoVersion": "go1.19.8",
        "Os": "linux",
        "Arch": "amd64",
        "KernelVersion": "6.1.0",
        "BuildTime": "2026-05-07T21:09:36.000000000+00:00",
    }


def info(containers: list[Container], images: int, driver: str) -> dict[str, Any]:
    """GET /info, long enough to be sent in chunks as dockerd's."""
    running = sum(container.running for container in containers)
    return {
        "ID": ":".join(["FAKE"] * 12),
        "Containers": len(containers),
        "ContainersRunning": running,
        "ContainersPaused": 0,
        "ContainersStopped": len(containers) - running,
        "Images": images,
        "Driver": "vfs",
        "DriverStatus": None,
        "MemoryLimit": True,
        "SwapLimit": True,
        "CpuCfsPeriod": True,
        "CpuCfsQuota": True,
        "CPUShares": True,
        "CPUSet": True,
        "PidsLimit": True,
        "LoggingDriver": "json-file",
        "CgroupDriver": driver,
        "CgroupVersion": "1",
        "KernelVersion": "6.1.0",
        "OperatingSystem": "Debian GNU/Linux 12 (bookworm)",
        "OSType": "linux",
        "Architecture": "x86_64",
        "NCPU": 2,
        "MemTotal": 4 << 30,
        "Name": "fake",
        "Labels": [],
        "ServerVersion": VERSION,
        "DefaultRuntime": "runc",
        "SecurityOptions": ["name=seccomp,profile=default"],
        "Warnings": [f"a line that dockerd would have here, number {number}" for number in range(32)],
    }
