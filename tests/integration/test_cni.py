"""CNI for real: ptp and host-local in a network namespace of a test, as root."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from interpose.cri.messages import cri
from interpose.node.runtime.network.cni import CniNetwork
from interpose.node.runtime.network.netns_connect import connect, in_network
from interpose.node.runtime.network.types import NetworkError

PLUGINS = next((folder for folder in ("/usr/lib/cni", "/opt/cni/bin") if Path(folder, "ptp").exists()), "")
_MISSING = "needs root" if os.geteuid() != 0 else "not installed: CNI plugins, ip"
pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not PLUGINS or not shutil.which("ip"), reason=_MISSING)
CONFIG = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="web", namespace="default", uid="u-1"))


@pytest.fixture
def netns() -> Iterator[str]:
    """A network namespace held by a process that sleeps, with its loopback up."""
    pause_pid = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "ip link set lo up; echo up; exec sleep 1000"], stdout=-1
    )
    assert pause_pid.stdout is not None
    pause_pid.stdout.readline()
    yield f"/proc/{pause_pid.pid}/ns/net"
    pause_pid.kill()
    pause_pid.wait()
    pause_pid.stdout.close()


@pytest.fixture
def network(scratch: Path, subnet: str) -> CniNetwork:
    """A point-to-point network with addresses of its own."""
    conf = scratch / "conf"
    conf.mkdir()
    ranges = [[{"subnet": f"{subnet}0/24"}]]
    ipam = {"type": "host-local", "ranges": ranges, "dataDir": str(scratch / "ipam")}
    ptp = {"type": "ptp", "ipMasq": False, "ipam": ipam}
    (conf / "10-test.conflist").write_text(
        json.dumps({"name": "test", "cniVersion": "0.4.0", "plugins": [ptp, {"type": "tuning"}]})
    )
    return CniNetwork(str(conf), [PLUGINS], scratch / "cache")


def _leases(scratch: Path) -> list[str]:
    return [entry.name for entry in (scratch / "ipam/test").iterdir() if entry.name[0].isdigit()]


async def test_a_pod_gets_an_address_and_gives_it_back(
    scratch: Path, network: CniNetwork, netns: str, subnet: str
) -> None:
    """The address is in the namespace; after teardown, also a second one, the lease is free."""
    assert network.configured
    assert network.ready.ready
    result = await network.setup("s1", netns, CONFIG)
    assert result.ip.startswith(subnet)
    assert _leases(scratch) == [result.ip]
    shown = await in_network(netns, lambda: subprocess.check_output(["ip", "-o", "addr"], text=True))
    assert result.ip in shown
    await network.teardown("s1", netns, CONFIG)
    await network.teardown("s1", netns, CONFIG)
    assert _leases(scratch) == []


async def test_teardown_after_a_restart_with_the_namespace_gone(scratch: Path, network: CniNetwork, netns: str) -> None:
    """Another runtime with another configuration takes down what the first has set up."""
    await network.setup("s1", netns, CONFIG)
    conf = scratch / "conf/10-test.conflist"
    conf.write_text(json.dumps({"name": "other", "cniVersion": "0.4.0", "type": "ptp"}))
    after = CniNetwork(str(scratch / "conf"), [PLUGINS], scratch / "cache")
    assert await after.find_orphans([]) == ["s1"]
    await after.teardown("s1", "")
    assert _leases(scratch) == []
    assert await after.find_orphans([]) == []


async def test_a_chain_that_fails_gives_back_what_it_took(scratch: Path, network: CniNetwork, netns: str) -> None:
    """The first plugin has leased an address when the second fails, in its own words."""
    conf = scratch / "conf/10-test.conflist"
    document = json.loads(conf.read_text())
    document["plugins"][1] = {"type": "tuning", "sysctl": {"net.core.no_such_thing": "1"}}
    conf.write_text(json.dumps(document))
    with pytest.raises(NetworkError, match=r"tuning.*no_such_thing"):
        await network.setup("s1", netns, CONFIG)
    assert _leases(scratch) == []
    assert await network.find_orphans([]) == []


async def test_a_port_of_the_pod_is_reached_from_outside(netns: str) -> None:
    """A server on the pod's localhost answers; a port nobody listens on is named."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello " + await reader.readline())
        await writer.drain()
        writer.close()

    def listening() -> socket.socket:
        made = socket.socket()
        made.bind(("127.0.0.1", 7001))
        made.listen()
        made.setblocking(False)
        return made

    server = await asyncio.start_server(serve, sock=await in_network(netns, listening))
    async with server:
        reader, writer = await connect(netns, 7001)
        writer.write(b"pod\n")
        assert await reader.read() == b"hello pod\n"
        writer.close()
        await writer.wait_closed()
    with pytest.raises(NetworkError, match="port 7002"):
        await connect(netns, 7002)
    with pytest.raises(NetworkError, match="No such file"):
        await connect("/proc/0/ns/net", 7001)
