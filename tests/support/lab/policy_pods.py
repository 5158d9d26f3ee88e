"""Resource policies on a real runtime: the relay with one, and pods as a kubelet asks for them.

What containers have is read from the kernel: the files of their cgroup, and what their first process found when it
began. See `tests.support.policy.stack` for the same on a fake machine.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from interpose._pb import cri_pb2 as cri
from interpose.cli.common.admin_client import ask
from interpose.cli.relay.policy_wanted import STATE_FILE
from interpose.core.model.cgroup import PERIOD, shares_of
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.images import FOREVER
from tests.support.lab.pods import MEBIBYTE, LabPod
from tests.support.lab.processes import Child, wait_for
from tests.support.lab.relay import Relay, hook_options, program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.lab.cri import CriClient
    from tests.support.lab.qos_pods import Kubepods

GUARANTEED: Final = "guaranteed"
BURSTABLE: Final = "burstable"
BEST_EFFORT: Final = "besteffort"
_PLACES: Final = {GUARANTEED: "", BURSTABLE: "burstable/", BEST_EFFORT: "besteffort/"}
# The first process of a container notes what it may use, then waits.
BORN: Final = "born"
NOTING: Final = ("/bin/sh", "-c", f"cat /proc/self/status > /{BORN} && exec {' '.join(FOREVER)}")
_ALLOWED: Final = "Cpus_allowed_list:"


def asked_for(milli: int, qos: str) -> cri.LinuxContainerResources:
    """What a kubelet asks a runtime for; of Guaranteed pods the limit is the request."""
    resources = cri.LinuxContainerResources(cpu_period=PERIOD, cpu_shares=shares_of(milli), oom_score_adj=500)
    if qos == GUARANTEED:
        resources.cpu_quota = milli * PERIOD // 1000
        resources.memory_limit_in_bytes = 100 * MEBIBYTE
    return resources


class PolicyPod(LabPod):
    """A pod in the cgroup of its QoS class, with one container, `main`."""

    def __init__(
        self,
        client: CriClient,
        kubepods: Kubepods,
        name: str,
        milli: int = 1000,
        qos: str = GUARANTEED,
        command: Sequence[str] = NOTING,
    ) -> None:
        super().__init__(client, name, command)
        self.qos = qos
        self.cgroup_parent = f"/{kubepods.name}/{_PLACES[qos]}pod{self.uid}"
        self.sandbox_config.linux.cgroup_parent = self.cgroup_parent
        self.container_config.linux.resources.CopyFrom(asked_for(milli, qos))

    def exclusive_cores(self, count: int, milli: int) -> None:
        """Ask for lists of an exclusive pool, as the resource webhook writes it down."""
        amounts = {"cmk.intel.com/exclusive-cores": str(count), "cpu": f"{milli}m", "memory": "100Mi"}
        wanted = {"containers": {"main": {"requests": amounts, "limits": amounts}}}
        self.sandbox_config.annotations["intel.com/resources"] = json.dumps(wanted)

    def resize(self, milli: int) -> None:
        """Ask for another amount, as a kubelet does in place."""
        wanted = asked_for(milli, self.qos)
        self.update(cpu_period=wanted.cpu_period, cpu_quota=wanted.cpu_quota, cpu_shares=wanted.cpu_shares)

    # -- what the kernel says

    @property
    def cpus(self) -> str:
        """The CPU set of the container now."""
        return self.cpus_of(self.container_id)

    def cpus_of(self, container_id: str) -> str:
        """The CPU set of a container in this pod."""
        return self.control_file(container_id, "cpuset", "cpuset.cpus").read_text().strip()

    @property
    def shares(self) -> int:
        """The CPU shares of the container now."""
        return int(self.cgroup_file("cpu", "cpu.shares").read_text())

    @property
    def quota(self) -> int:
        """The CFS quota of the container now."""
        return int(self.cgroup_file("cpu", "cpu.cfs_quota_us").read_text())

    @property
    def pid(self) -> int:
        """The first process of the container."""
        return int(self.info()["pid"])

    @property
    def born(self) -> str:
        """The CPUs that the first process found when it began."""
        note = Path(f"/proc/{self.pid}/root/{BORN}")
        return wait_for(lambda: _allowed(note), what=f"the note of {self.name}")

    @property
    def runs_on(self) -> str:
        """The CPUs that the first process may use now."""
        return _allowed(Path(f"/proc/{self.pid}/status"))

    def wait_cpus(self, cpus: str) -> None:
        """Wait until the container has this CPU set."""
        wait_for(lambda: self.cpus == cpus, what=f"{self.name} to have CPUs {cpus}, not {self.cpus}")

    def exit(self, runtime: CriClient) -> None:
        """End the process without anybody asking for it, and wait until the runtime itself knows; nobody else does."""
        request = cri.ContainerStatusRequest(container_id=self.container_id, verbose=True)
        os.kill(json.loads(runtime.call("ContainerStatus", request).info["info"])["pid"], signal.SIGKILL)

        def exited() -> bool:
            return bool(runtime.call("ContainerStatus", request).status.state == cri.CONTAINER_EXITED)

        wait_for(exited, what=f"{self.name} to have ended")


def _allowed(file: Path) -> str:
    """The CPUs in a status file of a process; empty if it does not say (yet)."""
    lines = file.read_text().splitlines() if file.exists() else []
    return next((line.removeprefix(_ALLOWED).strip() for line in lines if line.startswith(_ALLOWED)), "")


def scrape(admin: Path) -> str:
    """What a program tells Prometheus on its admin socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(WAIT_LIMIT)
        connection.connect(str(admin))
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        text = b""
        while piece := connection.recv(65536):
            text += piece
    return text.decode()


class PolicyRelay(Relay):
    """`interpose relay` with these options about policies; its state is below its folder."""

    def __init__(self, folder: Path, runtime: Path, *options: str) -> None:
        folder.mkdir(exist_ok=True)
        self.state_file = folder / "state" / STATE_FILE
        super().__init__(folder, runtime, ("--state-dir", str(self.state_file.parent), *hook_options(folder), *options))

    def start(self, *options: str) -> None:
        """Start a process and wait until it has taken over what runs."""
        super().start(*options)
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until everything that runs is in the books."""
        self.child.wait_listening(self.admin)
        self.child.wait_until(lambda: self.policy()["ready"], what="the books to be made", every=0.02)

    def policy(self) -> Any:
        """What the relay says about its policy."""
        return ask(str(self.admin), "GET", "/v1/policy")

    def exclusive(self) -> dict[str, str]:
        """CPUs that containers hold alone, by the names of their pods."""
        rows = self.policy()["assignments"]
        return {row["container"].split("/")[1]: row["exclusive"] for row in rows if row["exclusive"]}

    def configured(self) -> int:
        """How many configurations of an agent it, and those before it with the same log, put in force."""
        return self.log.read_text().count("Agent configuration applied")

    def metrics(self) -> str:
        """What Prometheus is told."""
        return scrape(self.admin)


class CriResmgr(PolicyRelay):
    """`cri-resmgr` with these flags and, before them, those that say where its sockets and its state are."""

    def __init__(self, folder: Path, runtime: Path, *flags: str) -> None:
        super().__init__(folder, runtime)
        self.config_socket = folder / "config.sock"
        self.places = {
            "relay-socket": str(self.socket),
            "runtime-socket": str(runtime),
            "relay-dir": str(self.state_file.parent),
            "config-socket": str(self.config_socket),
        }
        self._flags = (*(f"-{name}={place}" for name, place in self.places.items()), *flags)

    def use_option_file(self, options: str) -> None:
        """From the next start on: a file with these options, and the sockets, is all that is on the command line."""
        file = self.socket.with_name("cri-resmgr.cfg")
        lines = [f"{name} = {place}" for name, place in self.places.items()]
        file.write_text("\n".join([*lines, options]))
        self._flags = ("-config", str(file))

    def argv(self, *more: str) -> list[str]:
        """Its command line."""
        return [str(program("cri-resmgr")), *self._flags, *more]

    def _spawn(self, *options: str) -> Child:
        child = Child(self.argv(*options), log=self.log, env={"INTERPOSE_ADMIN_LISTEN": str(self.admin)})
        self._children.append(child)
        return child
