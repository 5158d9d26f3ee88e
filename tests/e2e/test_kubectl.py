"""Real kubectl against the test API server: what people type, and what scripts of older releases do.

INTERPOSE_KUBECTL=FILE tries another kubectl, such as the 1.20 of Debian 12. `--dry-run` without a value is how older
ones are used; newer ones (since 1.23) want `--dry-run=client`, which 1.18 and later understand as well.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interpose.kube.client.api import CONFIG_MAPS, NODE_SLOS, NODES
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.apiserver.background import Running, background
from tests.support.apiserver.server import ApiServer
from tests.support.lab.processes import Child

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

_KUBECTL = os.environ.get("INTERPOSE_KUBECTL") or shutil.which("kubectl") or ""
_DEPLOY = Path(__file__).parents[2] / "deploy"
_SEED = ("create", "configmap", "--namespace", "kube-system", "cri-resmgr-config", "--from-file")
_GET = ("get", "configmap", "--namespace", "kube-system", "cri-resmgr-config", "-oyaml")


class Kubectl:
    """Runs kubectl for one server, with a home of its own: discovery is cached there."""

    def __init__(self, folder: Path, server: Running) -> None:
        self.server = server
        self._folder = folder
        config = server.do(lambda running: running.kubeconfig(folder / "config"))
        self.env = {"HOME": str(folder), "KUBECONFIG": str(config), "PATH": "/usr/bin:/bin"}

    def run(self, *words: str, given: str = "", code: int = 0) -> str:
        """What it prints, errors too; it has to end with this code."""
        done = subprocess.run(
            [_KUBECTL, *words],
            input=given,
            env=self.env,
            cwd=self._folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=WAIT_LIMIT,
            check=False,
        )
        assert done.returncode == code, f"kubectl {' '.join(words)}: {done.returncode}\n{done.stdout}"
        return done.stdout

    @property
    def minor(self) -> int:
        """20 of 1.20."""
        told = json.loads(self.run("version", "--client", "-ojson"))
        return int(re.sub(r"\D", "", told["clientVersion"]["minor"]))

    def watching(self, *words: str) -> Child:
        """The same in the background; what it prints is in its log."""
        return Child([_KUBECTL, *words], log=self._folder / "watch.log", env=self.env)


@pytest.fixture
def kubectl(scratch: Path) -> Iterator[Kubectl]:
    """For a server with one node, TLS and a token."""
    if not _KUBECTL:
        pytest.skip("no kubectl: not installed, and INTERPOSE_KUBECTL names none")
    with background(ApiServer(tls=True, tokens={"secret": "admin"}, nodes=["n1"])) as server:
        yield Kubectl(scratch, server)


@pytest.fixture
def folder(scratch: Path) -> Path:
    """The configuration that the documentation begins with."""
    made = scratch / "test-configs/static-test"
    made.mkdir(parents=True)
    (made / "policy.static").write_text("RelaxedIsolation: true\n")
    return made


def _map(kubectl: Kubectl, name: str = "cri-resmgr-config", namespace: str = "kube-system") -> Any:
    return kubectl.server.do(lambda server: server.get(CONFIG_MAPS, name, namespace=namespace))


def _node(kubectl: Kubectl) -> Any:
    return kubectl.server.do(lambda server: server.get(NODES, "n1"))


def test_a_config_map_of_a_folder(kubectl: Kubectl, folder: Path) -> None:
    """Created, shown and replaced with the commands of the documentation."""
    assert "configmap/cri-resmgr-config created" in kubectl.run(*_SEED, "test-configs/static-test/")
    shown = kubectl.run(*_GET)
    assert "  policy.static: |\n    RelaxedIsolation: true\n" in shown
    assert re.search(r'resourceVersion: "\d+"\n', shown)

    (folder / "policy.static").write_text("RelaxedIsolation: false\n")
    dry = "--dry-run" if kubectl.minor < 23 else "--dry-run=client"
    document = kubectl.run(*_SEED, "test-configs/static-test/", dry, "-oyaml")
    document = "".join(line for line in document.splitlines(keepends=True) if not line.startswith("W"))
    assert "configmap/cri-resmgr-config replaced" in kubectl.run("replace", "-f", "-", given=document)
    assert "    RelaxedIsolation: false\n" in kubectl.run(*_GET)
    assert _map(kubectl)["data"] == {"policy.static": "RelaxedIsolation: false\n"}


def test_a_name_that_is_taken(kubectl: Kubectl, folder: Path) -> None:
    """Is told, and nothing changes."""
    kubectl.run(*_SEED, str(folder))
    before = _map(kubectl)
    assert "already exists" in kubectl.run(*_SEED, str(folder), code=1)
    assert _map(kubectl) == before


def test_apply(kubectl: Kubectl, scratch: Path) -> None:
    """Creates, leaves alone what is the same, changes the rest; built-in kinds and custom ones."""
    manifest = scratch / "objects.yaml"
    text = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: m, namespace: default}
data: {a: "1", b: "2"}
---
apiVersion: slo.koordinator.sh/v1alpha1
kind: NodeSLO
metadata: {name: n1}
spec: {cpuBurstStrategy: {policy: auto}}
"""
    for change, words in (("", "created"), ("", "unchanged"), ("2", "configured")):
        manifest.write_text(text.replace(', b: "2"', "").replace("auto", "none") if change else text)
        told = kubectl.run("apply", "-f", str(manifest))
        assert told.splitlines() == [f"configmap/m {words}", f"nodeslo.slo.koordinator.sh/n1 {words}"]
    assert _map(kubectl, "m", "default")["data"] == {"a": "1"}
    slo = kubectl.server.do(lambda server: server.get(NODE_SLOS, "n1"))
    assert (slo["spec"], slo["metadata"]["generation"]) == ({"cpuBurstStrategy": {"policy": "none"}}, 2)
    assert kubectl.run("delete", "-f", str(manifest)).count("deleted") == 2


def test_a_field_nobody_knows(kubectl: Kubectl) -> None:
    """Is refused by the server when a newer kubectl asks it to be strict."""
    if kubectl.minor < 27:
        pytest.skip("this kubectl does not ask servers to check fields")
    manifest = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "dta": {}})
    assert 'unknown field "dta"' in kubectl.run("apply", "-f", "-", given=manifest, code=1)
    assert "created" in kubectl.run("apply", "--validate=false", "-f", "-", given=manifest)


@pytest.mark.parametrize(
    ("how", "patch", "labels"),
    [
        ("json", [{"op": "add", "path": "/metadata/labels/a", "value": "b"}], {"a": "b"}),
        ("merge", {"metadata": {"labels": {"a": "b", "kubernetes.io/hostname": None}}}, {"a": "b"}),
        ("strategic", {"metadata": {"labels": {"a": "b"}}}, {"a": "b", "kubernetes.io/hostname": "n1"}),
    ],
)
def test_patches(kubectl: Kubectl, how: str, patch: Any, labels: dict[str, str]) -> None:
    """Of each type."""
    assert "patched" in kubectl.run("patch", "node", "n1", "--type", how, "-p", json.dumps(patch))
    assert labels.items() <= _node(kubectl)["metadata"]["labels"].items()
    assert ("kubernetes.io/hostname" in _node(kubectl)["metadata"]["labels"]) is (how != "merge")


def test_labels_annotations_and_taints(kubectl: Kubectl) -> None:
    """Set and removed with the commands for it."""
    kubectl.run("label", "node", "n1", "cri-resource-manager.intel.com/group=big")
    kubectl.run("annotate", "node", "n1", "interpose/x=y")
    kubectl.run("taint", "node", "n1", "cmk=true:NoSchedule")
    node = _node(kubectl)
    assert node["metadata"]["labels"]["cri-resource-manager.intel.com/group"] == "big"
    assert node["metadata"]["annotations"]["interpose/x"] == "y"
    assert node["spec"]["taints"] == [{"key": "cmk", "value": "true", "effect": "NoSchedule"}]
    kubectl.run("label", "node", "n1", "cri-resource-manager.intel.com/group-")
    kubectl.run("annotate", "node", "n1", "interpose/x-")
    kubectl.run("taint", "node", "n1", "cmk-")
    node = _node(kubectl)
    assert "cri-resource-manager.intel.com/group" not in node["metadata"]["labels"]
    assert not node["metadata"].get("annotations")
    assert not node.get("spec", {}).get("taints")


def test_describe(kubectl: Kubectl, folder: Path) -> None:
    """Nodes and config maps, as people look at them; conditions and events of a node are shown."""
    condition = {
        "type": "InterposeConfigured",
        "status": "False",
        "reason": "ConfigRejected",
        "message": "no such policy",
    }
    event = {
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": "n1", "uid": "n1"},
        "reason": "ConfigRejected",
        "message": "the relay refused it",
        "type": "Warning",
    }
    kubectl.server.do(
        lambda server: server.put(NODES, {"metadata": {"name": "n1"}, "status": {"conditions": [condition]}})
    )
    kubectl.run("create", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "Event", **event}))
    told = kubectl.run("describe", "node", "n1")
    assert re.search(r"InterposeConfigured +False .*ConfigRejected +no such policy", told)
    assert re.search(r"Warning +ConfigRejected .*the relay refused it", told)
    kubectl.run(*_SEED, str(folder))
    assert "RelaxedIsolation: true" in kubectl.run("describe", "configmap", "-n", "kube-system", "cri-resmgr-config")


def test_watch(kubectl: Kubectl) -> None:
    """`get -w` shows changes as they come."""
    with kubectl.watching("get", "node", "n1", "-w", "-o", "jsonpath={.metadata.labels.a}/") as child:
        child.wait_until(lambda: "/" in child.log_tail(), what="the node")
        for value in ("b", "c"):
            kubectl.run("label", "node", "n1", f"a={value}", "--overwrite")
            child.wait_until(lambda: f"{value}/" in child.log_tail(), what=f"label {value}")  # noqa: B023


def test_what_is_not_there_and_what_is_not_allowed(kubectl: Kubectl) -> None:
    """Said as by any server."""
    assert '(NotFound): configmaps "none" not found' in kubectl.run("get", "configmap", "none", code=1)
    kubectl.server.do(lambda server: server.access.forbid_all("admin"))
    assert 'nodes "n1" is forbidden: User "admin" cannot get' in kubectl.run("get", "node", "n1", code=1)
    kubectl.server.do(lambda server: server.faults.rotate_token("secret", "fresh"))
    assert "Unauthorized" in kubectl.run("get", "node", "n1", code=1)


def test_our_own_manifests(kubectl: Kubectl) -> None:
    """Everything of deploy/ can be applied, twice, and taken away."""
    overlays = sorted((_DEPLOY / "kustomize/overlays").glob("*/kustomization.yaml"))
    if not overlays:
        pytest.skip("no overlays in deploy/kustomize")
    if kubectl.minor < 21:
        pytest.skip("its kustomize is older than what the overlays are written for")
    for overlay in overlays:
        for _ in range(2):
            kubectl.run("apply", "-k", str(overlay.parent))
        kubectl.run("delete", "--ignore-not-found", "-k", str(overlay.parent))
