"""Names and labels of dockershim."""

import pytest

from interpose.relay.docker.translate.labels import (
    CREATED,
    DockerIdentity,
    changed_labels,
    cri_annotations,
    cri_labels,
    identity,
)

POD = {
    "io.kubernetes.pod.name": "web",
    "io.kubernetes.pod.namespace": "shop",
    "io.kubernetes.pod.uid": "u1",
}
SANDBOX = {"io.kubernetes.docker.type": "podsandbox", "io.kubernetes.container.name": "POD", **POD}
CONTAINER = {
    "io.kubernetes.docker.type": "container",
    "io.kubernetes.sandbox.id": "s1",
    "io.kubernetes.container.name": "app",
    "io.kubernetes.container.logpath": "/var/log/x",
    **POD,
}


def test_a_sandbox() -> None:
    """Its container has a name that is nobody's."""
    found = identity(SANDBOX, "/k8s_POD_web_shop_u1_3", "i1")
    assert found == DockerIdentity(id="i1", sandbox=True, pod_name="web", namespace="shop", uid="u1", attempt=3)


def test_a_container() -> None:
    """With the sandbox it belongs to."""
    assert identity(CONTAINER, "k8s_app_web_shop_u1_2_7c1f") == DockerIdentity(
        sandbox=False, name="app", pod_name="web", namespace="shop", uid="u1", attempt=2, sandbox_id="s1"
    )


def test_the_name_says_what_labels_lack() -> None:
    """Labels count first."""
    found = identity({"io.kubernetes.sandbox.id": "s1", "io.kubernetes.pod.name": "label"}, "/k8s_c_name_ns_u_0")
    assert found == DockerIdentity(sandbox=False, name="c", pod_name="label", namespace="ns", uid="u", sandbox_id="s1")


@pytest.mark.parametrize("name", ["", "web", "k8s_c_p_n_u", "k8s_c_p_n_u_1_2_3", "x_c_p_n_u_1", "k8s_c_p_n_u_-1"])
def test_an_odd_name_says_nothing(name: str) -> None:
    """The labels are enough."""
    assert identity(CONTAINER, name) == DockerIdentity(
        sandbox=False, name="app", pod_name="web", namespace="shop", uid="u1", sandbox_id="s1"
    )


@pytest.mark.parametrize(
    "labels", [{}, {"app": "web"}, {"io.kubernetes.docker.type": "other"}, {"io.kubernetes.pod.name": "x"}]
)
def test_nobodys(labels: dict[str, str]) -> None:
    """A name alone makes nothing Kubernetes'."""
    assert identity(labels, "/k8s_c_p_n_u_1") is None


def test_a_container_by_its_sandbox_alone() -> None:
    """Whatever its type says."""
    found = identity({"io.kubernetes.docker.type": "?", "io.kubernetes.sandbox.id": ""}, "")
    assert found is not None
    assert not found.sandbox


def test_labels_and_annotations_as_cri_has_them() -> None:
    """Without what dockershim and we add for ourselves."""
    labels = {**CONTAINER, "app": "web", "annotation.a": "1", "annotation.": "empty", CREATED: "{}"}
    assert cri_labels(labels) == {**POD, "io.kubernetes.container.name": "app", "app": "web"}
    assert cri_annotations(labels) == {"a": "1", "": "empty"}


def test_a_pod_shows_that_it_is_dockers() -> None:
    """Koordinator's hook server looks for it among the annotations of pods."""
    assert cri_labels(SANDBOX) == POD
    assert cri_annotations(SANDBOX) == {"io.kubernetes.docker.type": "podsandbox"}
    own = {**SANDBOX, "annotation.io.kubernetes.docker.type": "mine"}
    assert cri_annotations(own) == {"io.kubernetes.docker.type": "mine"}


def test_changes_of_labels() -> None:
    """New, other and gone ones, annotations with their prefix; what is the same is not named."""
    labels = ({"a": "1", "b": "2", "same": "x"}, {"a": "3", "same": "x", "n": "4"})
    annotations = ({"a": "1"}, {"z": ""})
    assert changed_labels(labels, annotations) == {
        "b": None,
        "a": "3",
        "n": "4",
        "annotation.a": None,
        "annotation.z": "",
    }


def test_nobody_writes_dockershims_own_labels() -> None:
    """It would lose its containers."""
    theirs = {"io.kubernetes.sandbox.id": "x", "io.kubernetes.docker.type": "x"}
    assert changed_labels(({}, theirs), ({}, {"interpose/created": "x"})) == {}
