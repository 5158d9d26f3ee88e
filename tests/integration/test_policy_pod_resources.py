"""Pods with amounts as a whole (`spec.resources`), through a relay: what a kubelet sends, and who has which CPUs."""

import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.kube.webhook.annotate import KNOWN_KEYS, JsonNumber, resources_text
from interpose.node.pods.cri_config.resources import ResourceRules, container_linux_resources, pod_linux_resources
from interpose.node.pods.cri_config.resources_message import to_message
from interpose.node.pods.spec import ContainerSpec, PodSpec, ResourceRequirements
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.pods import container_config, create_request, pod_config, run_request
from tests.support.policy.machines import machine
from tests.support.policy.stack import PolicyStack, policy_stack

MACHINE = "n4c16"
RULES = ResourceRules(memory=64 << 30)
PLAIN = 'policy: {{Active: {policy}, ReservedResources: {{CPU: "cpuset:0"}}}}\n'
DYNAMIC = """\
policy:
  Active: dynamic-pools
  ReservedResources: {CPU: "cpuset:0"}
  dynamic-pools:
    DynamicPoolTypes:
    - {Name: busy, Namespaces: [busy]}
"""


def same(**amounts: str) -> ResourceRequirements:
    """Requests that are limits as well."""
    found = {name: Fraction(text) for name, text in amounts.items()}
    return ResourceRequirements(requests=found, limits=found)


def pod_spec(cpu: str = "4", **own: ResourceRequirements) -> PodSpec:
    """A Guaranteed pod with so many CPUs as a whole."""
    return PodSpec(
        uid="u",
        name="web",
        namespace="busy",
        resources=same(cpu=cpu, memory="1073741824"),
        containers=tuple(ContainerSpec(name=name, image="", resources=needs) for name, needs in own.items()),
    )


def annotated(pod: PodSpec) -> Mapping[str, str]:
    """The annotation of the webhook."""

    def plain(needs: ResourceRequirements) -> dict[str, dict[str, str]]:
        both = {name: str(amount) for name, amount in needs.requests.items()}
        return {"requests": both, "limits": both}

    assert pod.resources is not None
    containers = [{"name": found.name, "resources": plain(found.resources)} for found in pod.containers]
    document = json.dumps({"spec": {"containers": containers, "resources": plain(pod.resources)}})
    return {KNOWN_KEYS[0]: resources_text(json.loads(document, parse_int=JsonNumber))}


async def run(stack: PolicyStack, pod: PodSpec, *, said: bool = True) -> dict[str, str]:
    """Everything that a kubelet does to start a pod: the ids of its containers."""
    config = pod_config(pod.name, pod.namespace, qos="guaranteed", annotations=annotated(pod) if said else {})
    config.linux.resources.CopyFrom(to_message(pod_linux_resources(pod, RULES)))
    sandbox = (await stack.call(run_request(config))).pod_sandbox_id
    ids = {}
    for container in pod.containers:
        resources = to_message(container_linux_resources(pod, container, RULES))
        request = create_request(sandbox, config, container_config(config, container.name, resources=resources))
        ids[container.name] = (await stack.call(request)).container_id
        await stack.call(cri.StartContainerRequest(container_id=ids[container.name]))
    return ids


def write(tmp_path: Path, text: str) -> str:
    """A policy document: its path."""
    document = tmp_path / "policy.yaml"
    document.write_text(text)
    document.chmod(0o644)
    return str(document)


async def settled(stack: PolicyStack) -> None:
    tracker = stack.tracker
    await eventually(lambda: not tracker.updaters.schedule(tuple(tracker.allocations.by_key)), "all to be in step")


NOTHING = ResourceRequirements()


async def test_static_gives_containers_of_such_pods_no_cpus_of_their_own(tmp_path: Path) -> None:
    """The kubelet does not either; a restart does not change that."""
    runtime = FakeRuntime()
    document = write(tmp_path, PLAIN.format(policy="static"))
    pod = pod_spec(a=same(cpu="2", memory="1024"), b=NOTHING)
    async with policy_stack(tmp_path, machine(MACHINE), runtime=runtime, config=document) as stack:
        ids = await run(stack, pod)
        assert {stack.cpus(one) for one in ids.values()} == {"0-15"}
    async with policy_stack(tmp_path, None, runtime=runtime, config=document) as stack:
        await settled(stack)
        assert {stack.cpus(one) for one in ids.values()} == {"0-15"}


@pytest.mark.parametrize("said", [True, False])
async def test_no_pod_has_more_cpus_of_its_own_than_it_asks_for(tmp_path: Path, said: bool) -> None:
    """Though the kubelet sends the limit of the pod for each container; with the annotation it is known whose they are.

    Without it the first container may be all there is of its pod, and the others show that it is not.
    """
    document = write(tmp_path, PLAIN.format(policy="static-plus"))
    pod = pod_spec(a=NOTHING, b=NOTHING, c=NOTHING)
    async with policy_stack(tmp_path, machine(MACHINE), config=document) as stack:
        ids = await run(stack, pod, said=said)
        assert stack.has(ids["b"]).cpu_shares == 4096
        grants = stack.tracker.allocations.policy.state.grants.values()
        assert [len(grant.exclusive) for grant in grants] == [0 if said else 4, 0, 0]


async def test_static_plus_gives_containers_what_they_ask_for_themselves(tmp_path: Path) -> None:
    """The others of the pod share, with the shares that the kubelet gave them."""
    document = write(tmp_path, PLAIN.format(policy="static-plus"))
    pod = pod_spec(a=same(cpu="2", memory="1024"), b=NOTHING)
    async with policy_stack(tmp_path, machine(MACHINE), config=document) as stack:
        ids = await run(stack, pod)
        assert [stack.cpus(one) for one in ids.values()] == ["2-3", "1,4-15"]
        assert stack.has(ids["b"]).cpu_shares == 4096


async def test_a_pool_follows_what_a_pod_asks_for_as_a_whole(tmp_path: Path) -> None:
    """Once for all its containers, also after the pod was resized in place and after a restart."""
    runtime = FakeRuntime()
    document = write(tmp_path, DYNAMIC)
    async with policy_stack(tmp_path, machine(MACHINE), runtime=runtime, config=document) as stack:
        ids = await run(stack, pod_spec(a=NOTHING, b=NOTHING))
        await settled(stack)
        pool = stack.tracker.allocations.policy.state.pool
        assert len(pool("busy")) == 4
        assert {stack.cpus(one) for one in ids.values()} == {str(pool("busy"))}
        (pod_id,) = {key.pod_id for key in stack.tracker.allocations.by_key}
        larger = to_message(pod_linux_resources(pod_spec("6", a=NOTHING, b=NOTHING), RULES))
        await stack.call(cri.UpdatePodSandboxResourcesRequest(pod_sandbox_id=pod_id, resources=larger))
        await settled(stack)
        assert len(pool("busy")) == 6
        await stack.call(cri.UpdatePodSandboxResourcesRequest(pod_sandbox_id=pod_id, resources=larger))
        assert len(pool("busy")) == 6
    async with policy_stack(tmp_path, None, runtime=runtime, config=document) as stack:
        await settled(stack)
        # The annotation is of the time when the pod was created, the sandbox is what counts.
        assert len(stack.tracker.allocations.policy.state.pool("busy")) == 6
