"""What a dockershim asks Docker for, without a Docker."""

from pathlib import Path

from tests.support.docker.dockershim import Answer, DockerClient, DockerError, ShimContainer, ShimPod


def pod() -> ShimPod:
    """A pod that nobody made yet."""
    client = DockerClient(Path("nowhere.sock"))
    made = ShimPod(client, "web", cgroup_parent="a-b.slice", uid="u1", labels={"app": "x"}, annotations={"team": "y"})
    made.sandbox_id = "s" * 64
    return made


def test_names() -> None:
    """Of the sandbox and of containers, with the attempt."""
    assert pod().docker_name() == "k8s_POD_web_lab_u1_0"
    assert pod().docker_name("main", 3) == "k8s_main_web_lab_u1_3"


def test_a_sandbox() -> None:
    """Labels of the pod, annotations with their prefix, the cgroup parent as it was given."""
    document = pod().sandbox_document()
    assert document["Labels"] == {
        "io.kubernetes.pod.name": "web",
        "io.kubernetes.pod.namespace": "lab",
        "io.kubernetes.pod.uid": "u1",
        "io.kubernetes.container.name": "POD",
        "io.kubernetes.docker.type": "podsandbox",
        "app": "x",
        "annotation.team": "y",
    }
    assert document["HostConfig"]["CgroupParent"] == "a-b.slice"


def test_a_container() -> None:
    """It names its sandbox, is in its namespaces, and may not swap."""
    document = pod().container_document(ShimContainer(envs={"A": "1=2"}, resources={"Memory": 7}))
    assert document["Labels"]["io.kubernetes.sandbox.id"] == "s" * 64
    assert document["Labels"]["io.kubernetes.docker.type"] == "container"
    assert document["Env"] == ["A=1=2"]
    assert document["HostConfig"]["NetworkMode"] == f"container:{'s' * 64}"
    assert (document["HostConfig"]["Memory"], document["HostConfig"]["MemorySwap"]) == (7, 7)


def test_an_error_says_what_docker_said() -> None:
    """With the call."""
    error = DockerError("GET /x", Answer(status=404, headers={}, body=b'{"message":"No such thing"}\n'))
    assert str(error) == 'GET /x: 404 {"message":"No such thing"}'
    assert (error.status, error.message) == (404, "No such thing")
