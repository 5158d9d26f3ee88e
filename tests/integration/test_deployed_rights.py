"""Roles of deploy/ are enough for the programs they are for: each runs with those rights and no others."""

import asyncio
import sys
from pathlib import Path

import pytest

from interpose.kube.client.api import MUTATING_WEBHOOKS, SECRETS
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from tests.support.apiserver.resources import NAMESPACES
from tests.support.apiserver.server import ApiServer
from tests.support.kube.agent_stack import NODE, QUICK, Agent, cluster
from tests.support.kube.deployed import kustomized
from tests.support.kube.manifests import Identity, by_identity, pod_template
from tests.support.kube.plain_documents import Document
from tests.support.policy.machines import machine
from tests.support.policy.stack import policy_stack

OVERLAY = Path(__file__).parents[2] / "deploy/kustomize/overlays/self-signed"
NAMESPACE = "interpose-system"
TOKENS = {"admin-token": "admin", "its-token": "it"}


@pytest.fixture(scope="module")
def deployed() -> dict[Identity, Document]:
    """Everything that would be applied."""
    return by_identity(kustomized(OVERLAY))


def restrict(server: ApiServer, deployed: dict[Identity, Document], account: str) -> None:
    """Give the user `it` what the roles bound to an account say."""
    for binding in deployed.values():
        if binding["kind"].endswith("RoleBinding") and account in [one["name"] for one in binding["subjects"]]:
            namespace = binding["metadata"].get("namespace", "")
            role = binding["roleRef"]
            found = deployed[Identity(role["kind"], namespace if role["kind"] == "Role" else "", role["name"])]
            server.access.restrict("it", found["rules"], namespace=namespace)


async def test_the_job_makes_certificates_with_its_rights(scratch: Path, deployed: dict[Identity, Document]) -> None:
    """The command of its manifest, twice: the second time everything is good."""
    template = pod_template(deployed[Identity("Job", NAMESPACE, "interpose-webhook-certs")])
    assert template is not None
    registration = deployed[Identity("MutatingWebhookConfiguration", "", "interpose")]
    async with ApiServer(tokens=TOKENS) as server:
        restrict(server, deployed, "interpose-webhook-certs")
        server.put(NAMESPACES, deployed[Identity("Namespace", "", NAMESPACE)])
        server.put(MUTATING_WEBHOOKS, registration)
        kubeconfig = server.kubeconfig(scratch / "kubeconfig", token="its-token")
        said = []
        for _ in range(2):
            child = await asyncio.create_subprocess_exec(
                str(Path(sys.executable).parent / "interpose"),
                *template["spec"]["containers"][0]["args"],
                f"--kubeconfig={kubeconfig}",
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            output, _ = await child.communicate()
            said.append(output.decode())
            assert child.returncode == 0, said[-1]
        secret = server.get(SECRETS, "interpose-webhook-tls", namespace=NAMESPACE)
        [webhook] = server.get(MUTATING_WEBHOOKS, "interpose")["webhooks"]

        assert secret["data"].keys() == {"ca.crt", "tls.crt", "tls.key"}
        assert webhook["clientConfig"]["caBundle"]
        assert "a new certificate" in said[0]
        assert "stays" in said[1]
        assert {one.code for one in server.requests if one.user == "it"} <= {200, 201, 404}


async def test_the_agent_works_with_its_rights(scratch: Path, deployed: dict[Identity, Document]) -> None:
    """It reads, reports and feeds the hook server; only maps of nodes are closed to it until they are named."""
    socket = str(scratch / "config.sock")
    async with (
        cluster(scratch, tokens=TOKENS) as here,
        policy_stack(scratch, machine("n4c16"), runtime=FakeRuntime(), config_socket=socket),
    ):
        restrict(here.server, deployed, "interpose-agent")
        here.configure({"policy": "Active: none\n"})
        here.rule({"resourceQOSStrategy": {"lsClass": {"cpuQOS": {"enable": True}}}})
        kubeconfig = here.server.kubeconfig(scratch / "its", token="its-token")
        agent = Agent(scratch, kubeconfig, options=QUICK)
        try:
            await asyncio.to_thread(agent.start)
            await here.reported("ConfigApplied")
            await eventually(lambda: here.annotation is not None, "an annotation of the node")
            await eventually(lambda: "ConfigApplied" in here.reasons, "an event about the node")
            await eventually(agent.state.exists, "the state of the node to be written")
            await eventually(lambda: '"NodeSLO"' in agent.state.read_text(), "the NodeSLO in it")
        finally:
            await asyncio.to_thread(agent.__exit__)
        refused = {one.query.get("fieldSelector", one.path) for one in here.server.requests if one.code == 403}

        # Listed, or asked for by name after that was refused.
        assert refused
        assert all(
            one.endswith((f"=cri-resmgr-config.node.{NODE}", f"/cri-resmgr-config.node.{NODE}")) for one in refused
        )
