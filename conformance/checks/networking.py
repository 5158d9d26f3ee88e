"""Networks of pods: names, addresses, ports; and several containers in one pod."""

from __future__ import annotations

import json
import shutil
import socket
from typing import TYPE_CHECKING

from conformance.bench import FOREVER, eventually, machine
from conformance.points import Group, Need, Point
from interpose._pb import cri_pb2 as cri
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.processes import LabError

if TYPE_CHECKING:
    from conformance.bench import Bench

_SERVE = "echo served >/tmp/index.html; exec httpd -f -p 8080 -h /tmp"
_IPTABLES = Need(words="iptables", met=lambda: shutil.which("iptables") is not None, usual=True)


def _fetched(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=WAIT_LIMIT) as connection:
            connection.sendall(b"GET /index.html HTTP/1.0\r\n\r\n")
            with connection.makefile("rb") as answer:
                return answer.read().endswith(b"served\n")
    except OSError:
        return False


def dns(bench: Bench) -> None:
    config = cri.DNSConfig(servers=["10.10.10.10"], searches=["google.com", "other.local"], options=["ndots:8"])
    pod = bench.pod(network=cri.POD, dns_config=config)
    shown = pod.output("cat", "/etc/resolv.conf")
    assert shown.splitlines() == ["search google.com other.local", "nameserver 10.10.10.10", "options ndots:8"]


def hostname(bench: Bench) -> None:
    pod = bench.pod(network=cri.POD, hostname="test-hostname")
    container = pod.run_container()
    assert container.says("hostname") == "test-hostname\n"
    assert container.says("cat", "/etc/hostname") == "test-hostname\n"
    assert container.shell("echo $HOSTNAME") == "test-hostname\n"


def address(bench: Bench) -> None:
    pod = bench.pod(network=cri.POD)
    found = json.loads(machine("ip", "-j", "route", "get", pod.ip))
    assert found[0]["dst"] == pod.ip
    assert f"inet {pod.ip}/" in pod.run_container().says("ip", "addr", "show", "eth0")
    assert "lo" in pod.run_container().says("ip", "addr", "show", "up", "dev", "lo")


def address_goes(bench: Bench) -> None:
    pod = bench.pod(network=cri.POD)
    assert pod.ip
    pod.stop()
    assert pod.ip == ""


def container_port(bench: Bench) -> None:
    pod = bench.pod(network=cri.POD, port_mappings=[cri.PortMapping(container_port=8080)])
    pod.run_container("/bin/sh", "-c", _SERVE)
    eventually(lambda: _fetched(pod.ip, 8080), "the port of the container")


def host_port(bench: Bench) -> None:
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    mapping = cri.PortMapping(container_port=8080, host_port=port, protocol=cri.TCP)
    pod = bench.pod(network=cri.POD, port_mappings=[mapping])
    pod.run_container("/bin/sh", "-c", _SERVE)
    node = json.loads(machine("ip", "-j", "route", "get", pod.ip))[0]["prefsrc"]
    eventually(lambda: _fetched(node, port), "the port of the node")
    pod.stop()
    assert not _fetched(node, port)


def several_logs(bench: Bench) -> None:
    pod = bench.home
    containers = [pod.run_container("/bin/echo", f"says {number}") for number in range(3)]
    assert [container.ended().exit_code for container in containers] == [0, 0, 0]
    assert [eventually(container.text, "the log") for container in containers] == [f"says {n}\n" for n in range(3)]


def several_execs(bench: Bench) -> None:
    pod = bench.home
    containers = [pod.run_container(*FOREVER, envs=[cri.KeyValue(key="WHO", value=b"%d" % n)]) for n in range(3)]
    assert [container.shell("echo $WHO") for container in containers] == ["0\n", "1\n", "2\n"]


def several_in_one_network(bench: Bench) -> None:
    pod = bench.pod(network=cri.POD)
    pod.run_container("/bin/sh", "-c", _SERVE)
    other = pod.run_container()

    def fetched() -> bool:
        answer = other.exec("wget", "-q", "-O", "-", "http://127.0.0.1:8080/index.html")
        return bool(answer.stdout == b"served\n")

    try:
        eventually(fetched, "the port of the other container")
    except LabError as error:
        raise AssertionError(str(error)) from None


GROUPS = (
    Group(
        name="Networking",
        about="critest: 4 specs",
        points=(
            Point(name="servers, searches and options of DNS", check=dns),
            Point(name="the hostname: of the kernel, in its file, in the environment", check=hostname),
            Point(name="an address, and a loopback that is up", check=address),
            Point(name="a stopped pod has no address", check=address_goes),
            Point(name="a port of a container at the address of its pod", check=container_port),
            Point(name="a port of the node is mapped, until the pod stops", check=host_port, need=_IPTABLES),
        ),
    ),
    Group(
        name="Multiple Containers",
        about="critest: 3 specs",
        points=(
            Point(name="each has its log", check=several_logs),
            Point(name="each has its commands", check=several_execs),
            Point(name="they reach each other over the loopback", check=several_in_one_network),
        ),
    ),
)
