"""Reading pods: whatever stands in a manifest, it is read or refused in words, and reading twice gives the same."""

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from interpose.errors import ConfigError
from interpose.node.pods.manifest.reader import read_pods
from interpose.node.pods.spec import PodSpec

CONTAINER: dict[str, Any] = {
    "name": "c",
    "image": "x:1",
    "command": ["a"],
    "env": [
        {"name": "A", "value": "b"},
        {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "a"}}},
        {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
    ],
    "envFrom": [{"prefix": "P", "secretRef": {"name": "s"}}],
    "ports": [{"containerPort": 80, "name": "web"}],
    "resources": {"limits": {"cpu": 1}, "requests": {"cpu": "100m"}},
    "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    "livenessProbe": {"httpGet": {"port": "web", "httpHeaders": [{"name": "A", "value": "b"}]}},
    "lifecycle": {"preStop": {"exec": {"command": ["a"]}}},
    "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}, "seccompProfile": {"type": "RuntimeDefault"}},
    "restartPolicy": "Always",
    "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}],
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {
        "containers": [CONTAINER],
        "initContainers": [{**CONTAINER, "name": "i"}],
        "ephemeralContainers": [{"name": "e", "image": "x", "targetContainerName": "c"}],
        "volumes": [
            {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "h", "hostPath": {"path": "/a"}},
            {"name": "m", "configMap": {"name": "m", "items": [{"key": "a", "path": "b", "mode": 256}]}},
            {"name": "p", "projected": {"sources": [{"secret": {"name": "s"}}]}},
        ],
        "dnsConfig": {"nameservers": ["10.0.0.1"], "options": [{"name": "a"}]},
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
        "securityContext": {"sysctls": [{"name": "a.b", "value": "1"}], "supplementalGroups": [1]},
        "imagePullSecrets": [{"name": "s"}],
        "tolerations": [{"key": "a"}],
    },
}
MAP: dict[str, Any] = {"kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "x"}, "binaryData": {"b": "eA=="}}
SECRET: dict[str, Any] = {
    "kind": "Secret",
    "metadata": {"name": "s"},
    "data": {"a": "eA=="},
    "stringData": {".dockerconfigjson": '{"auths": {"r": {"username": "u"}}}'},
}
ALL: dict[str, Any] = {"kind": "List", "items": [MAP, SECRET, POD]}

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=8), inner, max_size=2),
    max_leaves=4,
)


def paths(value: Any, so_far: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    found = [so_far] if so_far else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        found += paths(child, (*so_far, key))
    return found


def changed(places: list[tuple[Any, ...]], values: list[Any]) -> Any:
    """The documents with other values at some places; a place that is not there any more is left out."""
    document = copy.deepcopy(ALL)
    for place, value in zip(places, values, strict=True):
        inside: Any = document
        for key in place[:-1]:
            try:
                inside = inside[key]
            except (KeyError, IndexError, TypeError):
                break
        else:
            if isinstance(inside, dict) or (
                isinstance(inside, list) and isinstance(place[-1], int) and place[-1] < len(inside)
            ):
                inside[place[-1]] = value
    return document


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Documents that are nearly good."""
    count = draw(st.integers(0, 3))
    places = draw(st.lists(st.sampled_from(paths(ALL)), min_size=count, max_size=count))
    return json.dumps(changed(places, draw(st.lists(anything, min_size=count, max_size=count))))


def test_the_documents_of_this_test_are_good() -> None:
    """Or it would test little."""
    [pod] = read_pods(json.dumps(ALL), "x")
    assert len(pod.containers[0].env) == 6


def outcome(text: str) -> tuple[tuple[PodSpec, ...], list[str]]:
    """Pods or problems; everything else is a failure of the test."""
    try:
        return read_pods(text, "x"), []
    except ConfigError as error:
        return (), error.problems


@given(documents())
def test_manifests_are_read_or_refused_in_words(text: str) -> None:
    """And nothing else happens; a second reader gets the same."""
    pods, problems = outcome(text)
    assert bool(pods) != bool(problems)
    assert all(one.startswith("x") and one.isprintable() for one in problems)
    assert all(pod.uid and pod.containers for pod in pods)
    assert outcome(text) == (pods, problems)
