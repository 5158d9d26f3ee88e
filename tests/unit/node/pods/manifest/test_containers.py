"""Containers in manifests: all that they may say, and what only some of them may."""

import json
from fractions import Fraction
from typing import Any

import pytest

from interpose.errors import ConfigError
from interpose.node.pods.manifest.containers import default_pull_policy
from interpose.node.pods.manifest.reader import read_pods
from interpose.node.pods.spec import (
    ContainerSpec,
    Port,
    PullPolicy,
    ResourceRequirements,
    RestartPolicy,
    RestartRule,
    TerminationMessagePolicy,
)

A_NAME = "expected a name of lower case letters, digits and '-', of at most 63"
A_PORT = "expected a name of at most 15 lower case letters, digits and '-'"


def ruled(policy: str | None, codes: list[int], count: int = 1) -> dict[str, Any]:
    """A container with a rule about exit codes."""
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": codes}}
    return {"restartPolicy": policy, "restartPolicyRules": [rule] * count}


def document(kind: str, **container: Any) -> str:
    """A pod with a container of that kind."""
    body: dict[str, Any] = {"containers": [{"name": "main", "image": "x:1"}], "volumes": [{"name": "v"}]}
    body[kind] = [{"name": "c", "image": "x:1", **container}]
    return json.dumps({"kind": "Pod", "metadata": {"name": "p"}, "spec": body})


def read(kind: str = "containers", **container: Any) -> ContainerSpec:
    """The container."""
    [pod] = read_pods(document(kind, **container), "x")
    found: dict[str, tuple[ContainerSpec, ...]] = {
        "containers": pod.containers,
        "initContainers": pod.init_containers,
        "ephemeralContainers": pod.ephemeral_containers,
    }
    return found[kind][0]


def problems(kind: str = "containers", **container: Any) -> list[str]:
    """What is wrong with it, below the container."""
    with pytest.raises(ConfigError) as caught:
        read_pods(document(kind, **container), "x")
    return [one.removeprefix(f"x line 1: spec.{kind}[0]") for one in caught.value.problems]


def test_everything_that_a_container_says_is_read() -> None:
    """Field by field."""
    found = read(
        command=["a"],
        args=["b"],
        workingDir="/w",
        ports=[{"containerPort": 80, "hostPort": 81, "hostIP": "10.0.0.1", "name": "web", "protocol": "UDP"}],
        resources={
            "requests": {"cpu": "100m", "example.com/card": 1},
            "limits": {"memory": "1Gi", "example.com/card": 1},
        },
        resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
        terminationMessagePath="/t",
        terminationMessagePolicy="FallbackToLogsOnError",
        imagePullPolicy="Never",
        stdin=True,
        stdinOnce=True,
        tty=True,
        restartPolicy="OnFailure",
        restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [0, 255]}}],
    )
    assert found == ContainerSpec(
        name="c",
        image="x:1",
        command=("a",),
        args=("b",),
        working_dir="/w",
        ports=(Port(container_port=80, host_port=81, host_ip="10.0.0.1", name="web", protocol="UDP"),),
        resources=ResourceRequirements(
            requests={"cpu": Fraction(1, 10), "example.com/card": Fraction(1)},
            limits={"memory": Fraction(1 << 30), "example.com/card": Fraction(1)},
        ),
        resize_policy={"cpu": "RestartContainer"},
        termination_message_path="/t",
        termination_message_policy=TerminationMessagePolicy.FALLBACK_TO_LOGS,
        pull_policy=PullPolicy.NEVER,
        stdin=True,
        stdin_once=True,
        tty=True,
        restart_policy=RestartPolicy.ON_FAILURE,
        restart_rules=(RestartRule(action="Restart", operator="NotIn", codes=(0, 255)),),
    )


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", PullPolicy.ALWAYS),
        ("nginx:latest", PullPolicy.ALWAYS),
        ("nginx:1.27", PullPolicy.IF_NOT_PRESENT),
        ("registry:5000/nginx", PullPolicy.ALWAYS),
        ("registry:5000/nginx:1", PullPolicy.IF_NOT_PRESENT),
        ("nginx@sha256:abc", PullPolicy.IF_NOT_PRESENT),
        ("nginx:latest@sha256:abc", PullPolicy.IF_NOT_PRESENT),
    ],
)
def test_the_tag_decides_when_an_image_is_fetched(image: str, policy: PullPolicy) -> None:
    """Where the manifest does not."""
    assert default_pull_policy(image) is policy


@pytest.mark.parametrize(
    ("container", "problem"),
    [
        ({"image": None}, ".image: is missing"),
        ({"image": ""}, ".image: expected text without blanks, found ''"),
        ({"image": "a b"}, ".image: expected text without blanks, found 'a b'"),
        ({"name": "a.b"}, f".name: {A_NAME}, found 'a.b'"),
        ({"name": "a" * 64}, f".name: {A_NAME}, found '{'a' * 64}'"),
        ({"command": "sh"}, ".command: expected a list, found text ('sh')"),
        ({"args": [1]}, ".args[0]: expected text, found a number ('1')"),
        ({"ports": [{"containerPort": 0}]}, ".ports[0].containerPort: expected a number from 1 to 65535, found '0'"),
        (
            {"ports": [{"containerPort": 1, "hostPort": 65536}]},
            ".ports[0].hostPort: expected a number from 0 to 65535, found '65536'",
        ),
        ({"ports": [{"containerPort": 1, "name": "1"}]}, f".ports[0].name: {A_PORT}, found '1'"),
        ({"ports": [{"containerPort": n, "name": "a"} for n in (1, 2)]}, ".ports: two ports are 'a'"),
        (
            {"ports": [{"containerPort": 1, "protocol": "tcp"}]},
            ".ports[0].protocol: expected TCP or UDP or SCTP, found 'tcp'",
        ),
        (
            {"resources": {"limits": {"cpus": 1}}},
            ".resources.limits: 'cpus' is not a resource such as cpu, memory or example.com/card",
        ),
        (
            {"resources": {"limits": {"cpu": "x"}}},
            ".resources.limits.cpu: 'x' is not a quantity such as 500m, 1.5 or 1Gi",
        ),
        ({"resources": {"limits": []}}, ".resources.limits: expected a group of keys, found a list"),
        ({"resources": {"claims": [{"name": "a"}]}}, ".resources.claims: needs a cluster, and there is none here"),
        (
            {"resizePolicy": [{"resourceName": "disk", "restartPolicy": "NotRequired"}]},
            ".resizePolicy[0].resourceName: expected cpu or memory, found 'disk'",
        ),
        (
            {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2},
            ".resizePolicy: two policies are 'cpu'",
        ),
        (ruled(None, [1]), ": restartPolicyRules need a restartPolicy of the container"),
        (ruled("Never", []), ".restartPolicyRules[0]: exitCodes.values is empty"),
        (
            ruled("Never", [256]),
            ".restartPolicyRules[0].exitCodes.values[0]: expected a number from 0 to 255, found '256'",
        ),
        (ruled("Never", [1], 21), ".restartPolicyRules: has 21 rules, allowed are 20"),
        (
            {"volumeDevices": [{"name": "a", "devicePath": "/dev/a"}]},
            ".volumeDevices: needs a cluster, and there is none here",
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}]},
            ": mountPropagation Bidirectional is for privileged containers only",
        ),
        (
            {"imagePullPolicy": "Sometimes"},
            ".imagePullPolicy: expected Always or IfNotPresent or Never, found 'Sometimes'",
        ),
        ({"tty": "yes"}, ".tty: expected true or false, found text ('yes')"),
    ],
)
def test_a_container_that_cannot_be_made(container: dict[str, Any], problem: str) -> None:
    """Each with the key and the value."""
    assert problems(**container) == [problem]


def test_a_privileged_container_may_give_mounts_to_the_node() -> None:
    """Only one of those."""
    mount = {"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}
    found = read(volumeMounts=[mount], securityContext={"privileged": True})
    assert found.volume_mounts[0].propagation == "Bidirectional"


def test_a_sidecar_may_have_probes_and_hooks() -> None:
    """It stays, so somebody has to look after it."""
    probe = {"exec": {"command": ["a"]}}
    found = read("initContainers", restartPolicy="Always", livenessProbe=probe, lifecycle={"preStop": probe})
    assert found.liveness is not None


@pytest.mark.parametrize("key", ["livenessProbe", "readinessProbe", "startupProbe"])
def test_an_init_container_that_ends_has_no_probes(key: str) -> None:
    """There is nothing to look after."""
    probe = {"exec": {"command": ["a"]}}
    text = f": {key} is only for init containers that stay, with restartPolicy Always"
    assert problems("initContainers", **{key: probe}) == [text]


def test_an_init_container_that_ends_has_no_hooks() -> None:
    """Nor are there any for it."""
    text = ": lifecycle is only for init containers that stay, with restartPolicy Always"
    assert problems("initContainers", lifecycle={}, restartPolicy="Never") == [text]


@pytest.mark.parametrize(
    "container",
    [
        {"ports": [{"containerPort": 1}]},
        {"resources": {"limits": {"cpu": 1}}},
        {"livenessProbe": {"exec": {"command": ["a"]}}},
        {"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}},
        {"restartPolicy": "Always"},
    ],
)
def test_what_is_not_for_ephemeral_containers(container: dict[str, Any]) -> None:
    """Nobody looks after them."""
    [key] = container
    assert problems("ephemeralContainers", **container) == [f".{key}: is not for ephemeral containers"]


@pytest.mark.parametrize("key", ["imagePullPolicy", "terminationMessagePolicy"])
def test_an_empty_word_says_nothing(key: str) -> None:
    """The API server would put its default there."""
    assert read(**{key: ""}) == read()


def test_an_empty_protocol_is_tcp() -> None:
    """As if it were not said."""
    assert read(ports=[{"containerPort": 1, "protocol": ""}]).ports == (Port(container_port=1),)


@pytest.mark.parametrize("policy", [None, "Always"])
def test_an_ephemeral_container_may_look_at_any_other(policy: str | None) -> None:
    """At an init container or a sidecar as well; at those of its own kind it may not."""
    body: dict[str, Any] = {
        "containers": [{"name": "main", "image": "x"}],
        "initContainers": [{"name": "i", "image": "x", "restartPolicy": policy}],
        "ephemeralContainers": [{"name": "e", "image": "x", "targetContainerName": "i"}],
    }
    text = json.dumps({"kind": "Pod", "metadata": {"name": "p"}, "spec": body})
    assert read_pods(text, "x")[0].ephemeral_containers[0].target == "i"
    with pytest.raises(
        ConfigError, match="targetContainerName: expected the name of a container of the pod, found 'e'"
    ):
        read_pods(text.replace('"targetContainerName": "i"', '"targetContainerName": "e"'), "x")


def test_an_exported_ephemeral_container_has_empty_resources() -> None:
    """Which say nothing."""
    assert read("ephemeralContainers", resources={}).resources == ResourceRequirements()


def test_ephemeral_containers_see_whole_volumes() -> None:
    """No parts of them."""
    mount = {"name": "v", "mountPath": "/v", "subPath": "a"}
    assert problems("ephemeralContainers", volumeMounts=[mount]) == [
        ".volumeMounts[0].subPath: is not for ephemeral containers"
    ]
