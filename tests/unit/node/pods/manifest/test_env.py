"""Environment variables in manifests, wherever their values come from."""

from fractions import Fraction

import pytest

from interpose.errors import ConfigError
from interpose.node.pods.manifest.env import ENV_FIELDS
from interpose.node.pods.manifest.reader import read_pods
from interpose.node.pods.spec import EnvVar, FieldRef, ResourceFieldRef

BESIDE = (
    "kind: ConfigMap\nmetadata: {name: m}\ndata: {a: 'x$(A)', b: ''}\nbinaryData: {bytes: /w==}\n---\n"
    "kind: Secret\nmetadata: {name: s}\ndata: {k: dg==, bytes: /w==}\n---\n"
)


def text(env: str, env_from: str) -> str:
    """A pod with variables."""
    container = f"{{name: c, image: x, env: {env}, envFrom: {env_from}}}"
    return f"{BESIDE}kind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{container}]}}\n"


def read(env: str = "[]", env_from: str = "[]") -> tuple[EnvVar, ...]:
    """The variables."""
    [pod] = read_pods(text(env, env_from), "x")
    return pod.containers[0].env


def problems(env: str = "[]", env_from: str = "[]") -> list[str]:
    """What is wrong."""
    with pytest.raises(ConfigError) as caught:
        read_pods(text(env, env_from), "x")
    return [one.partition(": spec.containers[0].")[2] for one in caught.value.problems]


def _from(source: FieldRef | ResourceFieldRef) -> tuple[EnvVar, ...]:
    return (EnvVar(name="A", source=source),)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ("value: b", (EnvVar(name="A", value="b"),)),
        ("value: $(B)", (EnvVar(name="A", value="$(B)"),)),
        ("value: null", (EnvVar(name="A"),)),
        ("value: '', valueFrom: {fieldRef: {fieldPath: status.podIP}}", _from(FieldRef(path="status.podIP"))),
        (
            "valueFrom: {fieldRef: {apiVersion: v1, fieldPath: \"metadata.labels['a/b']\"}}",
            _from(FieldRef(path="metadata.labels['a/b']")),
        ),
        ("valueFrom: {resourceFieldRef: {resource: limits.cpu}}", _from(ResourceFieldRef(resource="limits.cpu"))),
        (
            "valueFrom: {resourceFieldRef: {resource: requests.memory, containerName: c, divisor: 1Mi}}",
            _from(ResourceFieldRef(resource="requests.memory", container="c", divisor=Fraction(1 << 20))),
        ),
        (
            "valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: '0'}}",
            _from(ResourceFieldRef(resource="limits.cpu")),
        ),
        ("valueFrom: {configMapKeyRef: {name: m, key: a}}", (EnvVar(name="A", value="x$$(A)"),)),
        ("valueFrom: {secretKeyRef: {name: s, key: k}}", (EnvVar(name="A", value="v"),)),
        ("valueFrom: {secretKeyRef: {name: z, key: k, optional: true}}", ()),
        ("valueFrom: {secretKeyRef: {name: s, key: z, optional: true}}", ()),
    ],
)
def test_where_values_come_from(env: str, expected: tuple[EnvVar, ...]) -> None:
    """Those of ConfigMaps and Secrets are taken as they are."""
    assert read(f"[{{name: A, {env}}}]") == expected


def test_all_texts_of_a_map_come_before_the_others() -> None:
    """With a prefix; bytes that are not text are left out."""
    found = read("[{name: a, value: own}]", "[{configMapRef: {name: m}, prefix: P_}, {secretRef: {name: s}}]")
    assert [(one.name, one.value) for one in found] == [("P_a", "x$$(A)"), ("P_b", ""), ("k", "v"), ("a", "own")]


def test_a_map_that_is_optional_may_be_missing() -> None:
    """Then it gives nothing."""
    assert read("[]", "[{configMapRef: {name: z, optional: true}}]") == ()


A_RESOURCE = "expected a resource such as limits.cpu or requests.memory"
NOT_HERE = "is not among these manifests, put its document beside the pod"


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        ("[{value: a}]", "env[0].name: is missing"),
        ("[{name: A=B}]", "env[0].name: expected a name without '=', found 'A=B'"),
        ("[{name: A, value: 1}]", "env[0].value: expected text, found a number ('1')"),
        (
            "[{name: A, value: a, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
            "env[0]: has both value and valueFrom",
        ),
        ("[{name: A, valueFrom: {}}]", "env[0].valueFrom: expected exactly one kind of it, found none"),
        (
            "[{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}, configMapKeyRef: {name: m, key: a}}}]",
            "env[0].valueFrom: expected exactly one kind of it, found fieldRef and configMapKeyRef",
        ),
        (
            "[{name: A, valueFrom: {fieldRef: {fieldPath: spec.x}}}]",
            f"env[0].valueFrom.fieldRef.fieldPath: expected {ENV_FIELDS.what}, found 'spec.x'",
        ),
        (
            "[{name: A, valueFrom: {resourceFieldRef: {resource: cpu}}}]",
            f"env[0].valueFrom.resourceFieldRef.resource: {A_RESOURCE}, found 'cpu'",
        ),
        (
            "[{name: A, valueFrom: {configMapKeyRef: {name: z, key: a}}}]",
            f"env[0].valueFrom.configMapKeyRef: ConfigMap default/z {NOT_HERE}",
        ),
        (
            "[{name: A, valueFrom: {configMapKeyRef: {name: m, key: z}}}]",
            "env[0].valueFrom.configMapKeyRef: ConfigMap m has no key 'z'",
        ),
        (
            "[{name: A, valueFrom: {configMapKeyRef: {name: m, key: bytes}}}]",
            "env[0].valueFrom.configMapKeyRef: ConfigMap m has no text under 'bytes'",
        ),
        (
            "[{name: A, valueFrom: {secretKeyRef: {name: s, key: bytes, optional: true}}}]",
            "env[0].valueFrom.secretKeyRef: Secret s has no text under 'bytes'",
        ),
        ("[{name: A, valueFrom: {secretKeyRef: {name: s}}}]", "env[0].valueFrom.secretKeyRef.key: is missing"),
        ("[{name: A, valueFrom: {fileKeyRef: {key: a}}}]", "env[0].valueFrom.fileKeyRef: is not supported"),
    ],
)
def test_variables_that_cannot_be_made(env: str, problem: str) -> None:
    """Each with its place."""
    assert problems(env) == [problem]


@pytest.mark.parametrize(
    ("env_from", "problem"),
    [
        ("[{configMapRef: {name: z}}]", f"envFrom[0].configMapRef: ConfigMap default/z {NOT_HERE}"),
        ("[{secretRef: {}}]", "envFrom[0].secretRef.name: is missing"),
        ("[{prefix: a}]", "envFrom[0]: expected exactly one kind of it, found none"),
    ],
)
def test_sources_that_cannot_be_read(env_from: str, problem: str) -> None:
    """Each with its place."""
    assert problems("[]", env_from) == [problem]
