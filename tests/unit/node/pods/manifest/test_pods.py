"""Manifests of pods as a whole: what is filled in, what must agree, what a node alone cannot do."""

import json
from fractions import Fraction
from typing import Any

import pytest

from interpose.errors import ConfigError
from interpose.node.pods.cri_config.dns import hosts_file
from interpose.node.pods.manifest.reader import read_pods
from interpose.node.pods.spec import DnsConfig, HostAlias, PodSpec, RestartPolicy
from tests.support.kube.kube_schema import field_names, manifest_problems

A_NAME = "expected a name of lower case letters, digits and '-', of at most 63"
A_DOMAIN = "expected a name of lower case letters, digits, '-' and '.', of at most 253"
C = {"name": "c", "image": "x:1"}
LIMITS = {"limits": {"cpu": "1"}}


def document(spec: dict[str, Any], **metadata: Any) -> str:
    """A manifest."""
    body = {"containers": [C], **spec}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **metadata}, "spec": body})


def read(spec: dict[str, Any] | None = None, **metadata: Any) -> PodSpec:
    """The pod of a spec."""
    [pod] = read_pods(document(spec or {}, **metadata), "x")
    return pod


def problems(spec: dict[str, Any] | None = None, **metadata: Any) -> list[str]:
    """What is wrong with it."""
    with pytest.raises(ConfigError) as caught:
        read_pods(document(spec or {}, **metadata), "x")
    return [one.removeprefix("x line 1: ") for one in caught.value.problems]


FULL: dict[str, Any] = {
    "restartPolicy": "OnFailure",
    "terminationGracePeriodSeconds": 5,
    "activeDeadlineSeconds": 60,
    "hostNetwork": True,
    "hostPID": True,
    "hostIPC": True,
    "hostUsers": True,
    "hostname": "h",
    "subdomain": "s",
    "setHostnameAsFQDN": True,
    "dnsPolicy": "None",
    "dnsConfig": {
        "nameservers": ["10.0.0.1"],
        "searches": ["a.b"],
        "options": [{"name": "ndots", "value": "2"}, {"name": "x"}],
    },
    "hostAliases": [{"ip": "::1", "hostnames": ["a", "b.c"]}],
    "runtimeClassName": "kata",
    "priority": -1,
    "priorityClassName": "system-node-critical",
    "nodeName": "n",
    "serviceAccountName": "sa",
    "os": {"name": "linux"},
    "overhead": {"cpu": "250m"},
    "resources": {"limits": {"cpu": "2"}},
    "initContainers": [{"name": "i", "image": "x"}],
    "ephemeralContainers": [{"name": "e", "image": "x", "targetContainerName": "c"}],
    "tolerations": [{"key": "a"}],
    "affinity": {"nodeAffinity": {}},
}


def test_everything_that_a_pod_says_is_read() -> None:
    """Field by field."""
    pod = read(FULL, namespace="n", labels={"a": "b"}, annotations={"c": "any text!"})
    assert (pod.title, pod.labels, pod.annotations) == ("n/p", {"a": "b"}, {"c": "any text!"})
    assert (pod.restart_policy, pod.termination_grace_period, pod.active_deadline) == (RestartPolicy.ON_FAILURE, 5, 60)
    assert (pod.host_network, pod.host_pid, pod.host_ipc) == (True, True, True)
    assert (pod.hostname, pod.subdomain, pod.hostname_as_fqdn) == ("h", "s", True)
    assert (pod.dns_policy, pod.runtime_handler, pod.node_name) == ("None", "kata", "n")
    assert pod.dns_config == DnsConfig(
        nameservers=("10.0.0.1",), searches=("a.b",), options=(("ndots", "2"), ("x", None))
    )
    assert pod.host_aliases == (HostAlias(ip="::1", hostnames=("a", "b.c")),)
    assert (pod.priority, pod.priority_class, pod.service_account) == (-1, "system-node-critical", "sa")
    assert pod.resources is not None
    assert (pod.overhead["cpu"], pod.resources.limits["cpu"]) == (Fraction(1, 4), Fraction(2))
    assert [one.name for one in (*pod.init_containers, *pod.containers, *pod.ephemeral_containers)] == ["i", "c", "e"]
    assert pod.ephemeral_containers[0].target == "c"


def test_the_manifest_of_this_test_is_one_of_kubernetes() -> None:
    """Its own schema finds nothing wrong with it."""
    assert manifest_problems(json.loads(document(FULL))) == []


def test_what_is_not_said_is_filled_in() -> None:
    """As the API server does."""
    pod = read()
    assert (pod.namespace, pod.restart_policy, pod.termination_grace_period) == ("default", RestartPolicy.ALWAYS, 30)
    assert (pod.dns_policy, pod.resources, pod.deleted) == ("ClusterFirst", None, False)


@pytest.mark.parametrize("key", ["restartPolicy", "dnsPolicy"])
def test_an_empty_word_says_nothing(key: str) -> None:
    """The API server would put its default there."""
    pod = read({key: ""})
    assert (pod.restart_policy, pod.dns_policy) == (RestartPolicy.ALWAYS, "ClusterFirst")


def test_a_hostname_that_overrides_is_the_hostname() -> None:
    """And no domain is put behind it."""
    pod = read({"hostname": "h", "subdomain": "s", "setHostnameAsFQDN": True, "hostnameOverride": "a.b"})
    assert (pod.hostname, pod.hostname_as_fqdn) == ("a.b", False)
    assert hosts_file(pod, ["10.0.0.1"], "cluster.local").endswith("10.0.0.1\ta.b\n")


def test_an_old_name_of_the_service_account_counts() -> None:
    """Where the new one is not given."""
    assert read({"serviceAccount": "old"}).service_account == "old"


def test_ports_are_those_of_the_node_in_its_network() -> None:
    """Whether it is said or not."""
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}]
    pod = read({"hostNetwork": True, "containers": [{**C, "ports": ports}]})
    assert [one.host_port for one in pod.containers[0].ports] == [80, 81]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"containers": []}, "spec: containers is empty"),
        ({"containers": None}, "spec.containers: is missing"),
        ({"containers": {}}, "spec.containers: expected a list, found a group of keys"),
        ({"containers": [C, C]}, "spec: two containers have the name 'c'"),
        ({"initContainers": [C]}, "spec: two containers have the name 'c'"),
        ({"ephemeralContainers": [C]}, "spec: two containers have the name 'c'"),
        ({"restartPolicy": "always"}, "spec.restartPolicy: expected Always or OnFailure or Never, found 'always'"),
        (
            {"terminationGracePeriodSeconds": -1},
            "spec.terminationGracePeriodSeconds: expected a number from 0 to 2147483647, found '-1'",
        ),
        ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds: expected a number from 1 to 2147483647, found '0'"),
        (
            {"hostPID": True, "shareProcessNamespace": True},
            "spec: hostPID and shareProcessNamespace cannot both be true",
        ),
        ({"hostUsers": False}, "spec.hostUsers: false is not supported, a pod has the users of the node"),
        ({"hostUsers": 0}, "spec.hostUsers: expected true or false, found a number ('0')"),
        ({"dnsPolicy": "None"}, "spec: dnsPolicy None needs nameservers in dnsConfig"),
        ({"dnsConfig": {"nameservers": ["a"]}}, "spec.dnsConfig.nameservers[0]: expected an IP address, found 'a'"),
        (
            {"dnsConfig": {"nameservers": [1]}},
            "spec.dnsConfig.nameservers[0]: expected an IP address, found a number ('1')",
        ),
        ({"hostAliases": [{"hostnames": ["a"]}]}, "spec.hostAliases[0].ip: is missing"),
        ({"os": {"name": "windows"}}, "spec.os.name: expected linux, found 'windows'"),
        ({"readinessGates": [{"conditionType": "a"}]}, "spec.readinessGates: needs a cluster, and there is none here"),
        ({"resourceClaims": [{"name": "a"}]}, "spec.resourceClaims: needs a cluster, and there is none here"),
        ({"hostnmae": "a"}, "spec.hostnmae: is not a known key, did you mean hostname?"),
        ({"hostname": "A"}, f"spec.hostname: {A_NAME}, found 'A'"),
        (
            {"resources": {"requests": {"cpu": 2}, **LIMITS}},
            "spec.resources: the request of 2 cpu is more than the limit, 1",
        ),
        (
            {"hostNetwork": True, "containers": [{**C, "ports": [{"containerPort": 1, "hostPort": 2}]}]},
            "spec: with hostNetwork hostPort 2 and containerPort 1 of container c must be the same",
        ),
        (
            {
                "containers": [
                    {"name": name, "image": "x", "ports": [{"containerPort": 1, "hostPort": 2}]} for name in "ab"
                ]
            },
            "spec: two containers want port 2/TCP of the node",
        ),
        (
            {
                "restartPolicy": "Never",
                "containers": [{**C, "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}],
            },
            "spec: resizePolicy of container c cannot be RestartContainer where it never restarts",
        ),
        (
            {"ephemeralContainers": [{"name": "e", "image": "x", "targetContainerName": "z"}]},
            "spec.ephemeralContainers[0].targetContainerName: expected the name of a container of the pod, found 'z'",
        ),
    ],
)
def test_a_spec_that_cannot_be_done(spec: dict[str, Any], problem: str) -> None:
    """Each with the key and the value."""
    assert problems(spec) == [problem]


def test_ports_of_other_addresses_and_protocols_are_others() -> None:
    """As are those that no one outside sees."""
    ports = [
        {"containerPort": 1},
        {"containerPort": 2},
        {"containerPort": 3, "hostPort": 9},
        {"containerPort": 3, "hostPort": 9, "protocol": "UDP"},
        {"containerPort": 3, "hostPort": 9, "hostIP": "10.0.0.1"},
    ]
    assert len(read({"containers": [{**C, "ports": ports}]}).containers[0].ports) == 5


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"name": None}, "metadata.name: is missing"),
        ({"name": "a_b"}, f"metadata.name: {A_DOMAIN}, found 'a_b'"),
        ({"namespace": "a.b"}, f"metadata.namespace: {A_NAME}, found 'a.b'"),
        ({"uid": "a/b"}, "metadata.uid: expected letters, digits and '-', at most 63, found 'a/b'"),
        ({"labels": {"a b": ""}}, "metadata.labels['a b']: is not a name of the form name or example.com/name"),
        ({"labels": {"a": "b c"}}, "metadata.labels['a']: 'b c' is not a value of a label"),
        ({"labels": {"a": 1}}, "metadata.labels['a']: expected text in quotes, found a number ('1')"),
        ({"labels": []}, "metadata.labels: expected a group of keys, found a list"),
        ({"annotations": {"/": ""}}, "metadata.annotations['/']: is not a name of the form name or example.com/name"),
        ({"lables": {}}, "metadata.lables: is not a known key, did you mean labels?"),
    ],
)
def test_metadata_that_kubernetes_would_refuse(metadata: dict[str, Any], problem: str) -> None:
    """Each with the key and the value."""
    assert problems(**metadata) == [problem]


def test_metadata_and_spec_are_needed() -> None:
    """Both of them."""
    with pytest.raises(ConfigError) as caught:
        read_pods("kind: Pod\napiVersion: v2\n", "x")
    assert caught.value.problems == [
        "x line 2: apiVersion: expected v1, found 'v2'",
        "x line 1: metadata: is missing",
        "x line 1: spec: is missing",
    ]


# Where objects of each class of the API stand in a manifest.
def _in_container(key: str) -> Any:
    return lambda nulls: {"containers": [{**C, key: nulls}]}


def _in_volume(key: str) -> Any:
    return lambda nulls: {"volumes": [{"name": "v", key: nulls}]}


PLACES: dict[str, Any] = {
    "PodSpec": lambda nulls: nulls,
    "Container": lambda nulls: {"containers": [nulls], "initContainers": [nulls]},
    "EphemeralContainer": lambda nulls: {"ephemeralContainers": [nulls]},
    "PodSecurityContext": lambda nulls: {"securityContext": nulls},
    "SecurityContext": _in_container("securityContext"),
    "Volume": lambda nulls: {"volumes": [nulls]},
    "VolumeMount": lambda nulls: {"containers": [{**C, "volumeMounts": [nulls]}]},
    "Probe": _in_container("livenessProbe"),
    "Lifecycle": _in_container("lifecycle"),
    "LifecycleHandler": lambda nulls: {"containers": [{**C, "lifecycle": {"preStop": nulls}}]},
    "EnvVar": lambda nulls: {"containers": [{**C, "env": [nulls]}]},
    "EnvVarSource": lambda nulls: {"containers": [{**C, "env": [{"name": "a", "valueFrom": nulls}]}]},
    "EnvFromSource": lambda nulls: {"containers": [{**C, "envFrom": [nulls]}]},
    "ContainerPort": lambda nulls: {"containers": [{**C, "ports": [nulls]}]},
    "HTTPGetAction": lambda nulls: {"containers": [{**C, "livenessProbe": {"httpGet": nulls}}]},
    "GRPCAction": lambda nulls: {"containers": [{**C, "livenessProbe": {"grpc": nulls}}]},
    "ResourceRequirements": _in_container("resources"),
    "Capabilities": lambda nulls: {"containers": [{**C, "securityContext": {"capabilities": nulls}}]},
    "SeccompProfile": lambda nulls: {"securityContext": {"seccompProfile": nulls}},
    "AppArmorProfile": lambda nulls: {"securityContext": {"appArmorProfile": nulls}},
    "SELinuxOptions": lambda nulls: {"securityContext": {"seLinuxOptions": nulls}},
    "ContainerRestartRule": lambda nulls: {"containers": [{**C, "restartPolicyRules": [nulls]}]},
    "ContainerRestartRuleOnExitCodes": lambda nulls: {
        "containers": [{**C, "restartPolicyRules": [{"exitCodes": nulls}]}]
    },
    "ContainerResizePolicy": lambda nulls: {"containers": [{**C, "resizePolicy": [nulls]}]},
    "PodDNSConfig": lambda nulls: {"dnsConfig": nulls},
    "PodDNSConfigOption": lambda nulls: {"dnsConfig": {"options": [nulls]}},
    "HostAlias": lambda nulls: {"hostAliases": [nulls]},
    "Sysctl": lambda nulls: {"securityContext": {"sysctls": [nulls]}},
    "EmptyDirVolumeSource": _in_volume("emptyDir"),
    "HostPathVolumeSource": _in_volume("hostPath"),
    "ConfigMapVolumeSource": _in_volume("configMap"),
    "SecretVolumeSource": _in_volume("secret"),
    "DownwardAPIVolumeSource": _in_volume("downwardAPI"),
    "ProjectedVolumeSource": _in_volume("projected"),
    "DownwardAPIVolumeFile": lambda nulls: {"volumes": [{"name": "v", "downwardAPI": {"items": [nulls]}}]},
    "VolumeProjection": lambda nulls: {"volumes": [{"name": "v", "projected": {"sources": [nulls]}}]},
    "KeyToPath": lambda nulls: {"volumes": [{"name": "v", "configMap": {"items": [nulls]}}]},
    "ObjectFieldSelector": lambda nulls: {"containers": [{**C, "env": [{"valueFrom": {"fieldRef": nulls}}]}]},
    "ResourceFieldSelector": lambda nulls: {"containers": [{**C, "env": [{"valueFrom": {"resourceFieldRef": nulls}}]}]},
    "ConfigMapKeySelector": lambda nulls: {"containers": [{**C, "env": [{"valueFrom": {"configMapKeyRef": nulls}}]}]},
    "ConfigMapEnvSource": lambda nulls: {"containers": [{**C, "envFrom": [{"configMapRef": nulls}]}]},
    "SleepAction": lambda nulls: {"containers": [{**C, "lifecycle": {"preStop": {"sleep": nulls}}}]},
    "TCPSocketAction": lambda nulls: {"containers": [{**C, "livenessProbe": {"tcpSocket": nulls}}]},
    "ExecAction": lambda nulls: {"containers": [{**C, "livenessProbe": {"exec": nulls}}]},
    "HTTPHeader": lambda nulls: {"containers": [{**C, "livenessProbe": {"httpGet": {"httpHeaders": [nulls]}}}]},
}


@pytest.mark.parametrize("name", PLACES)
def test_every_field_of_the_api_is_known(name: str) -> None:
    """Read, refused by name, or of no meaning here: but never taken for a slip of the pen."""
    nulls = dict.fromkeys(field_names("core_v1", name))
    text = document(PLACES[name](nulls))
    found: list[str] = []
    try:
        read_pods(text, "x")
    except ConfigError as error:
        found = error.problems
    assert [one for one in found if "known key" in one] == []


def test_every_field_of_metadata_is_known() -> None:
    """The same for all objects."""
    nulls = {**dict.fromkeys(field_names("meta_v1", "ObjectMeta")), "name": "p"}
    assert read(None, **nulls).name == "p"


def test_only_fields_of_the_api_are_known() -> None:
    """Whatever is read here is also read by Kubernetes: the tables have no keys of their own."""
    text = document({"fooBar": 1, "containers": [{**C, "fooBar": 1}]})
    with pytest.raises(ConfigError) as caught:
        read_pods(text, "x")
    assert [one.partition(": ")[2] for one in caught.value.problems] == [
        "spec.containers[0].fooBar: is not a known key",
        "spec.fooBar: is not a known key",
    ]
