"""Requests as a kubelet sends them."""

import pytest

from interpose.testing.pods import (
    QosClass,
    cgroup_parent,
    container_config,
    create_request,
    linux_resources,
    pod_config,
    pod_uid,
    run_request,
)


def test_the_same_pod_is_the_same_message() -> None:
    """Nothing random: the uid follows from namespace and name."""
    assert pod_config("web") == pod_config("web")
    assert pod_config("web").metadata.uid == pod_uid("web") != pod_uid("web", "other")


def test_a_pod_has_the_labels_of_the_kubelet() -> None:
    """Own labels stay, those of the kubelet cannot be overwritten."""
    config = pod_config("web", "prod", uid="u1", labels={"app": "x", "io.kubernetes.pod.name": "lie"})
    assert dict(config.labels) == {
        "app": "x",
        "io.kubernetes.pod.name": "web",
        "io.kubernetes.pod.namespace": "prod",
        "io.kubernetes.pod.uid": "u1",
    }
    assert config.log_directory == "/var/log/pods/prod_web_u1"


def test_a_host_network_pod_has_no_hostname() -> None:
    """The kubelet omits it there."""
    assert pod_config("web", host_network=True).hostname == ""
    assert pod_config("web").hostname == "web"


@pytest.mark.parametrize(
    ("qos", "systemd", "expected"),
    [
        ("guaranteed", False, "/kubepods/poda-b"),
        ("burstable", False, "/kubepods/burstable/poda-b"),
        ("besteffort", False, "/kubepods/besteffort/poda-b"),
        ("guaranteed", True, "/kubepods.slice/kubepods-poda_b.slice"),
        ("besteffort", True, "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poda_b.slice"),
    ],
)
def test_the_cgroup_tells_the_qos_class(qos: QosClass, systemd: bool, expected: str) -> None:
    """By both drivers' naming."""
    assert cgroup_parent("a-b", qos, systemd=systemd) == expected
    assert pod_config("web", uid="a-b", qos=qos, systemd=systemd).linux.cgroup_parent == expected


def test_a_container_names_its_pod_but_has_not_its_labels() -> None:
    """Pod labels and annotations are not repeated on containers."""
    pod = pod_config("web", labels={"app": "x"}, annotations={"note": "y"})
    config = container_config(pod, "app", attempt=2, annotations={"own": "1"}, envs={"A": "text", "B": b"\xff"})
    assert config.labels["io.kubernetes.pod.uid"] == pod.metadata.uid
    assert config.labels["io.kubernetes.container.name"] == "app"
    assert "app" not in config.labels
    assert "note" not in config.annotations
    assert config.annotations["own"] == "1"
    assert config.annotations["io.kubernetes.container.restartCount"] == "2"
    assert config.log_path == "app/2.log"
    assert [(env.key, env.value) for env in config.envs] == [("A", b"text"), ("B", b"\xff")]


@pytest.mark.parametrize(
    ("request_milli", "limit_milli", "shares", "quota"),
    [(1000, 2000, 1024, 200000), (0, 2000, 2048, 200000), (0, 0, 2, 0), (1, 5, 2, 1000), (500_000, 0, 262144, 0)],
)
def test_cpu_arithmetic_is_the_kubelets(request_milli: int, limit_milli: int, shares: int, quota: int) -> None:
    """Shares from the request (or the limit), quota from the limit, both within the kernel's bounds."""
    resources = linux_resources(cpu_request=request_milli, cpu_limit=limit_milli)
    assert (resources.cpu_shares, resources.cpu_quota, resources.cpu_period) == (shares, quota, 100000)


def test_requests_carry_both_configurations() -> None:
    """CreateContainer repeats the pod's configuration; given resources are taken as they are."""
    pod = pod_config("web")
    container = container_config(pod, resources=linux_resources(memory_limit=9))
    request = create_request("s1", pod, container)
    assert (request.pod_sandbox_id, request.config, request.sandbox_config) == ("s1", container, pod)
    assert request.config.linux.resources.memory_limit_in_bytes == 9
    assert run_request(pod, "runc").runtime_handler == "runc"
