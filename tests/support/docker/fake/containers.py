"""Containers of the fake Docker, and the fields dockerd keeps of what it was asked for."""

from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.docker.fake import godocs

CREATED: Final = "created"
RUNNING: Final = "running"
EXITED: Final = "exited"

STDOUT: Final = 1
STDERR: Final = 2

_HEADER: Final = 8

# What `Config` has, with what stands there if nobody asked for something.
CONFIG: Final[dict[str, Any]] = {
    "Hostname": "",
    "Domainname": "",
    "User": "",
    "AttachStdin": False,
    "AttachStdout": False,
    "AttachStderr": False,
    "Tty": False,
    "OpenStdin": False,
    "StdinOnce": False,
    "Env": None,
    "Cmd": None,
    "Image": "",
    "Volumes": None,
    "WorkingDir": "",
    "Entrypoint": None,
    "OnBuild": None,
    "Labels": None,
}

# The same for `HostConfig`.
HOST_CONFIG: Final[dict[str, Any]] = {
    "Binds": None,
    "ContainerIDFile": "",
    "LogConfig": {"Type": "json-file", "Config": {}},
    "NetworkMode": "default",
    "PortBindings": None,
    "RestartPolicy": {"Name": "", "MaximumRetryCount": 0},
    "AutoRemove": False,
    "VolumeDriver": "",
    "VolumesFrom": None,
    "CapAdd": None,
    "CapDrop": None,
    "CgroupnsMode": "host",
    "Dns": None,
    "DnsOptions": None,
    "DnsSearch": None,
    "ExtraHosts": None,
    "GroupAdd": None,
    "IpcMode": "private",
    "Cgroup": "",
    "Links": None,
    "OomScoreAdj": 0,
    "PidMode": "",
    "Privileged": False,
    "PublishAllPorts": False,
    "ReadonlyRootfs": False,
    "SecurityOpt": None,
    "UTSMode": "",
    "UsernsMode": "",
    "ShmSize": 67108864,
    "Runtime": "runc",
    "ConsoleSize": [0, 0],
    "Isolation": "",
    "CpuShares": 0,
    "Memory": 0,
    "NanoCpus": 0,
    "CgroupParent": "",
    "BlkioWeight": 0,
    "BlkioWeightDevice": None,
    "BlkioDeviceReadBps": None,
    "BlkioDeviceWriteBps": None,
    "BlkioDeviceReadIOps": None,
    "BlkioDeviceWriteIOps": None,
    "CpuPeriod": 0,
    "CpuQuota": 0,
    "CpuRealtimePeriod": 0,
    "CpuRealtimeRuntime": 0,
    "CpusetCpus": "",
    "CpusetMems": "",
    "Devices": None,
    "DeviceCgroupRules": None,
    "DeviceRequests": None,
    "KernelMemory": 0,
    "KernelMemoryTCP": 0,
    "MemoryReservation": 0,
    "MemorySwap": 0,
    "MemorySwappiness": None,
    "OomKillDisable": False,
    "PidsLimit": None,
    "Ulimits": None,
    "CpuCount": 0,
    "CpuPercent": 0,
    "IOMaximumIOps": 0,
    "IOMaximumBandwidth": 0,
    "MaskedPaths": None,
    "ReadonlyPaths": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image that is there."""

    id: str
    tags: tuple[str, ...]
    env: tuple[str, ...] = ("PATH=/bin",)
    command: tuple[str, ...] = ("/bin/sleep", "1000000000")
    labels: tuple[tuple[str, str], ...] = ()
    size: int = 1982292


@dataclass(slots=True, kw_only=True, eq=False)
class Container:
    """One container. `body` is the request that made it, as it came."""

    id: str
    name: str
    body: bytes
    image: Image
    config: dict[str, Any]
    host: dict[str, Any]
    created: float
    status: str = CREATED
    pid: int = 0
    exit_code: int = 0
    error: str = ""
    started: float | None = None
    finished: float | None = None
    exits: int = 0
    restarts: int = 0
    removed: bool = False
    logs: list[tuple[int, bytes]] = field(default_factory=list)
    execs: list[str] = field(default_factory=list)

    @property
    def running(self) -> bool:
        return self.status == RUNNING

    @property
    def labels(self) -> dict[str, str]:
        return self.config["Labels"] or {}

    @property
    def argv(self) -> list[str]:
        return [*godocs.words(self.config["Entrypoint"]), *godocs.words(self.config["Cmd"])]


@dataclass(slots=True, kw_only=True, eq=False)
class Exec:
    """A process to run in a container."""

    id: str
    container: Container
    argv: list[str]
    tty: bool
    stdin: bool
    stdout: bool
    stderr: bool
    begun: bool = False
    running: bool = False
    exit_code: int | None = None
    pid: int = 0


def framed(stream: int, data: bytes, *, tty: bool) -> bytes:
    """Output as a stream of the API has it: with a head of eight bytes, unless it is a terminal's."""
    return data if tty else bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


def unframed(data: bytes) -> list[tuple[int, bytes]]:
    """What whole frames carry."""
    found = []
    while data:
        end = _HEADER + int.from_bytes(data[4:_HEADER], "big")
        found.append((data[0], data[_HEADER:end]))
        data = data[end:]
    return found


def made(container_id: str, name: str, body: bytes, image: Image, now: float) -> Container:
    """A container from the request for it, merged with its image as dockerd merges them."""
    document = godocs.parse(body)
    config = godocs.known(document, CONFIG)
    env = list(config["Env"] or ())
    names = {entry.partition("=")[0] for entry in env}
    config["Env"] = env + [entry for entry in image.env if entry.partition("=")[0] not in names]
    config["Labels"] = {**dict(image.labels), **(config["Labels"] or {})}
    config["Hostname"] = config["Hostname"] or container_id[:12]
    for key in ("Cmd", "Entrypoint"):
        config[key] = None if config[key] is None else godocs.words(config[key])
    if not config["Entrypoint"] and not config["Cmd"]:
        config["Cmd"] = list(image.command)
    host = godocs.known(godocs.field(document, "HostConfig", {}), HOST_CONFIG)
    if host["Memory"] > 0 and host["MemorySwap"] == 0:
        host["MemorySwap"] = 2 * host["Memory"]
    return Container(id=container_id, name=name, body=body, image=image, config=config, host=host, created=now)
