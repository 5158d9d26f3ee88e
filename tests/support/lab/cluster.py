"""A cluster for programs of the lab: the test API server over a real socket, and the real kubectl of this machine.

The server is in a thread of the test, so that a test can take it away, bring it back and make it fail. Everybody else,
kubectl included, reaches it with a kubeconfig, HTTPS and a token, as a real one.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from interpose.kube.client.api import EVENTS, NODES, Object
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.apiserver.background import Running, background
from tests.support.apiserver.server import ApiServer
from tests.support.kube.agent_stack import MAP, NAMESPACE, NODE, Agent, Cluster
from tests.support.lab.processes import LabError, missing_programs, wait_for
from tests.support.net.certificates import publish_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

_TOKEN: Final = "first-token"
_USER: Final = "operator"


class Kubectl:
    """The real one, with files of its own only."""

    def __init__(self, kubeconfig: Path, cache: Path) -> None:
        self._argv = ("kubectl", "--kubeconfig", str(kubeconfig), "--cache-dir", str(cache))

    @staticmethod
    def missing() -> str | None:
        """Why there is none here, or None."""
        return missing_programs("kubectl")

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """What it prints; LabError with its words if it fails."""
        argv = [*self._argv, *arguments]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=WAIT_LIMIT, check=False)
        if done.returncode != 0:
            raise LabError(f"kubectl {' '.join(arguments)}: exit code {done.returncode}: {done.stderr}")
        return done.stdout

    def json(self, *arguments: str) -> Any:
        """What it prints, parsed."""
        return json.loads(self(*arguments, "-o", "json"))

    def config_map(self, folder: Path, data: Mapping[str, str], name: str = MAP, *, replace: bool = False) -> None:
        """A ConfigMap from files, one per key; `replace` one that is there. As CRI Resource Manager documents it."""
        source = folder / f"{name}.d"
        source.mkdir(exist_ok=True)
        for old in source.iterdir():
            old.unlink()
        for key, text in data.items():
            (source / key).write_text(text)
        create = ("create", "configmap", name, "-n", NAMESPACE, "--from-file", str(source))
        if replace:
            self("replace", "-f", "-", stdin=self(*create, "--dry-run=client", "-o", "yaml"))
        else:
            self(*create)


class LabCluster:
    """An API server with one node. What kubectl does not have to show is looked up in the server itself."""

    def __init__(self, running: Running, folder: Path, kubeconfig: Path) -> None:
        self.server = running
        self.kubeconfig = kubeconfig
        self.kubectl = Kubectl(kubeconfig, folder / "kubectl-cache")
        self.token = _TOKEN
        self._folder = folder

    def create(self, data: Mapping[str, str], name: str = MAP) -> None:
        """A new ConfigMap."""
        self.kubectl.config_map(self._folder, data, name)

    def edit(self, data: Mapping[str, str], name: str = MAP) -> None:
        """Another content of a ConfigMap."""
        self.kubectl.config_map(self._folder, data, name, replace=True)

    def away(self) -> None:
        """The API server is gone."""
        self.server.run(lambda server: server.faults.stop())

    def back(self, *, forgetful: bool = False) -> None:
        """It is there again, on the same port; `forgetful`: whoever comes with an old version has to list anew."""
        if forgetful:
            self.server.do(lambda server: server.faults.expire_history())
        self.server.run(lambda server: server.faults.start())

    def rotate(self, token: str) -> None:
        """The old token is refused from now on. The operator has the new one; pods get it when it is laid down."""
        old, self.token = self.token, token
        self.server.do(lambda server: server.faults.rotate_token(old, token))
        self.server.do(lambda server: server.kubeconfig(self.kubeconfig, token=token))

    def wait_refused(self, agent: str) -> None:
        """Break all connections, and wait until a program that calls itself so was refused for its token."""
        begun = self.server.do(lambda server: len(server.requests))
        self.server.do(lambda server: server.faults.drop_connections())

        def refused() -> bool:
            made = self.server.do(lambda server: server.requests[begun:])
            return any(one.code == 401 and one.agent.startswith(agent) for one in made)

        wait_for(refused, what=f"{agent} to be refused", every=0.02)

    def account(self) -> dict[str, str]:
        """What a pod finds of its service account, by file."""
        return {"token": self.token, "ca.crt": self.server.do(lambda server: server.ca), "namespace": NAMESPACE}

    # -- what is to be seen of the node

    def look(self, at: Callable[[Cluster], Any]) -> Any:
        """Something of the cluster, read by the thread that owns it."""
        return self.server.do(lambda server: at(Cluster(server, self.kubeconfig, NODE)))

    @property
    def condition(self) -> Mapping[str, Any]:
        """What the node says about its configuration; empty if it says nothing."""
        found: Mapping[str, Any] = self.look(lambda cluster: cluster.condition)
        return found

    def events(self, reason: str) -> list[Object]:
        """Events of this reason."""
        found: list[Object] = self.server.do(lambda server: server.list(EVENTS))
        return [event for event in found if event["reason"] == reason]

    def wait_event(self, reason: str, count: int = 1) -> Object:
        """Wait until there are so many events of this reason; the last one."""
        what = f"{count} events {reason}"
        wait_for(lambda: len(self.events(reason)) >= count, what=what, every=0.02)
        return self.events(reason)[-1]

    def wait_condition(self, reason: str, words: str = "") -> Mapping[str, Any]:
        """Wait until the condition has this reason, and these words in its message."""

        def found() -> bool:
            now = self.condition
            return now.get("reason") == reason and words in now["message"]

        what = f"the condition to be {reason} {words}"
        wait_for(found, what=what, every=0.02)
        return self.condition


@contextmanager
def lab_cluster(folder: Path) -> Iterator[LabCluster]:
    """It runs inside of the block."""
    server = ApiServer(tokens={_TOKEN: _USER}, tls=True)
    # As a kubelet registers it.
    capacity = {"cpu": "2", "memory": "8Gi", "pods": "110"}
    server.put(NODES, {"metadata": {"name": NODE}, "spec": {}, "status": {"capacity": capacity}})
    with background(server) as running:
        yield LabCluster(running, folder, running.do(lambda server: server.kubeconfig(folder / "kubeconfig")))


class PodAgent(Agent):
    """An agent that finds its API server as a pod does: a /run of its own with a service account, and variables.

    The files of the account are in `account`, which is where /run/secrets points to.
    """

    def __init__(self, folder: Path, cluster: LabCluster, **more: Any) -> None:
        super().__init__(folder, cluster.kubeconfig, **more)
        self.account = folder / "account"
        self._cluster = cluster
        self.lay_down()
        host, port = cluster.server.do(lambda server: (server.host, server.port))
        self._variables = (f"KUBERNETES_SERVICE_HOST={host}", f"KUBERNETES_SERVICE_PORT={port}")

    def lay_down(self) -> None:
        """Give it the files of its account as they are now, as a kubelet does."""
        publish_secret(self.account, self._cluster.account())

    def argv(self, *options: str) -> list[str]:
        """The command line, in a mount namespace of its own."""
        plain = super().argv(*options)
        place = plain.index("--kubeconfig")
        del plain[place : place + 2]
        script = (
            "mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io && "
            'ln -s "$1" /run/secrets/kubernetes.io/serviceaccount && shift && exec env "$@"'
        )
        separate = ("unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh", str(self.account))
        return [*separate, *self._variables, *plain]
