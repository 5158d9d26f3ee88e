"""An agent as a separate process, started the way an operator starts it, and what it is for: a cluster and a relay.

`Agent` needs a kubeconfig and the config socket of some relay. `cluster` has a test API server beside it.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from interpose.cli.common.admin_client import ask
from interpose.kube.client.api import BALLOONS_POLICIES, CONFIG_MAPS, EVENTS, NODE_SLOS, NODES, Object, Resource
from interpose.testing.eventually import WAIT_LIMIT, eventually
from tests.support.apiserver.server import ApiServer
from tests.support.lab.processes import Child
from tests.support.lab.relay import program
from tests.support.lab.service import Service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

NODE = "n1"
NAMESPACE = "kube-system"
MAP = "cri-resmgr-config"
GROUP_LABEL = "cri-resource-manager.intel.com/group"
OBJECT_GROUP_LABEL = "config.nri/group"
# Edits of tests follow each other faster than those of people, and nobody waits half a minute for a grace.
QUICK = ("--push-interval", "0", "--missing-grace", "1s")
_PROBE = 30.0  # seconds, on a busy machine


class Agent(Service):
    """`interpose agent`."""

    name = "agent"

    def __init__(
        self,
        folder: Path,
        kubeconfig: Path,
        *,
        relay: Path | None = None,
        node: str = NODE,
        options: Sequence[str] = (),
    ) -> None:
        """`relay` is the config socket of a relay, which need not be there."""
        super().__init__(folder / "agent.log")
        self.socket = folder / "agent.sock"
        self.admin = folder / "agent-admin.sock"
        self.state = folder / "node" / "state.json"
        self.relay = relay or folder / "config.sock"
        self._kubeconfig = kubeconfig
        self._node = node
        self._options = tuple(options)

    def argv(self, *options: str) -> list[str]:
        """The command line."""
        paths = {
            "--kubeconfig": self._kubeconfig,
            "--config-socket": self.relay,
            "--agent-socket": self.socket,
            "--admin-listen": self.admin,
            "--node-state-file": self.state,
        }
        said = [part for flag, value in paths.items() for part in (flag, str(value))]
        return [str(program()), "agent", "--node-name", self._node, *said, *self._options, *options]

    def start(self, *options: str) -> None:
        """Start a process and wait until it listens."""
        self._child = Child(self.argv(*options), log=self.log)
        self._child.wait_listening(self.admin)

    def status(self) -> Any:
        """What it says of itself."""
        return ask(str(self.admin), "GET", "/v1/status", who="agent")

    def probe(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Ask as a kubelet does."""
        argv = [str(program()), "agent", "probe", "--agent-socket", str(self.socket), *options]
        return subprocess.run(argv, capture_output=True, text=True, timeout=_PROBE, check=False)


class Cluster:
    """A test API server, as far as agents look at it."""

    def __init__(self, server: ApiServer, kubeconfig: Path, node: str) -> None:
        self.server = server
        self.kubeconfig = kubeconfig
        self._node = node

    def configure(self, data: Mapping[str, str], name: str = MAP) -> Object:
        """Make a ConfigMap what it shall be."""
        return self.server.put(CONFIG_MAPS, {"metadata": {"name": name, "namespace": NAMESPACE}, "data": dict(data)})

    def withdraw(self, name: str = MAP) -> None:
        """Delete one."""
        self.server.remove(CONFIG_MAPS, name, namespace=NAMESPACE)

    def apply(
        self, spec: Mapping[str, Any], name: str = "default", *, resource: Resource = BALLOONS_POLICIES
    ) -> Object:
        """Make the object of a policy what it shall be; its status stays."""
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": dict(spec),
        }
        return self.server.put(resource, body)

    def statuses(self, name: str = "default", *, resource: Resource = BALLOONS_POLICIES) -> Mapping[str, Any]:
        """What nodes say in the status of an object, by node."""
        found: Mapping[str, Any] = self.server.get(resource, name, namespace=NAMESPACE).get("status", {})
        nodes: Mapping[str, Any] = found.get("nodes", {})
        return nodes

    def rule(self, spec: Mapping[str, Any]) -> Object:
        """Make the NodeSLO of the node what it shall be."""
        body = {
            "apiVersion": NODE_SLOS.api_version,
            "kind": NODE_SLOS.kind,
            "metadata": {"name": self._node},
            "spec": dict(spec),
        }
        return self.server.put(NODE_SLOS, body)

    def label(self, **labels: str) -> None:
        """Set labels of the node; `group` and `object_group` say which groups it is in, and an empty one is removed."""
        node = self.node
        groups = {"group": GROUP_LABEL, "object_group": OBJECT_GROUP_LABEL}
        said = {groups.get(key, key): value for key, value in labels.items()}
        merged = {**node["metadata"].get("labels", {}), **said}
        kept = {key: value for key, value in merged.items() if value}
        self.server.put(NODES, {**node, "metadata": {**node["metadata"], "labels": kept}})

    @property
    def node(self) -> Object:
        """The Node object."""
        return self.server.get(NODES, self._node)

    @property
    def condition(self) -> Mapping[str, Any]:
        """What the node says about its configuration; empty if it says nothing."""
        found = self.node.get("status", {}).get("conditions", [])
        return next((one for one in found if one["type"] == "InterposeConfigured"), {})

    @property
    def annotation(self) -> Any:
        """The same for programs; None if there is none."""
        text = self.node["metadata"].get("annotations", {}).get("interpose/config-status")
        return None if text is None else json.loads(text)

    @property
    def reasons(self) -> list[str]:
        """Of events, in their order."""
        return [event["reason"] for event in self.server.list(EVENTS)]

    def writes(self) -> int:
        """How often anybody changed anything over the network."""
        return sum(1 for one in self.server.requests if one.method not in ("GET", "HEAD"))

    async def reported(self, reason: str) -> Mapping[str, Any]:
        """Wait until the condition of the node has this reason, and return it."""
        what = f"the condition to be {reason}"
        await eventually(lambda: self.condition.get("reason") == reason, what)
        return self.condition


@asynccontextmanager
async def cluster(folder: Path, *, node: str = NODE, **server: Any) -> AsyncIterator[Cluster]:
    """An API server with one node inside the block; `server` as for ApiServer."""
    async with ApiServer(nodes=(node,), **server) as running:
        yield Cluster(running, running.kubeconfig(folder / "kubeconfig"), node)


def fetch(address: str) -> tuple[int, str]:
    """A GET on an address for metrics: status and text."""
    request = urllib.request.Request(f"http://{address}")
    opener: Callable[..., Any] = urllib.request.build_opener(_NoFailure()).open
    with opener(request, timeout=WAIT_LIMIT) as answer:
        return answer.status, answer.read().decode()


class _NoFailure(urllib.request.HTTPErrorProcessor):
    """A status is an answer."""

    def http_response(self, request: Any, response: Any) -> Any:
        return response
