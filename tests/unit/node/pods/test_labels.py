"""What sandboxes and containers carry so that they are found again."""

import json
from fractions import Fraction
from typing import Any

import pytest

from interpose.node.pods.labels import (
    Hook,
    amount_text,
    container_annotations,
    container_hash,
    container_labels,
    log_directory,
    log_path,
    pod_labels,
    resources_text,
    restarts_by_logs,
)
from interpose.node.pods.spec import (
    ContainerSpec,
    ExecAction,
    HttpAction,
    LifecycleHandlers,
    PodSpec,
    Port,
    ResourceRequirements,
    SleepAction,
    TcpAction,
)

CONTAINER = ContainerSpec(name="c", image="i:1")
POD = PodSpec(name="p", namespace="ns", uid="u", labels={"app": "x"}, annotations={"a": "b"}, containers=(CONTAINER,))
OURS = {
    "io.kubernetes.pod.name": "p",
    "io.kubernetes.pod.namespace": "ns",
    "io.kubernetes.pod.uid": "u",
}


def test_labels_of_a_sandbox() -> None:
    """The pod's own and where it belongs; nobody can pretend to be another pod."""
    assert pod_labels(POD) == {"app": "x", **OURS}
    liar = PodSpec(
        name="p", namespace="ns", uid="u", labels={"io.kubernetes.pod.uid": "other"}, containers=(CONTAINER,)
    )
    assert pod_labels(liar) == OURS


def test_labels_of_a_container() -> None:
    """Only where it belongs."""
    assert container_labels(POD, CONTAINER) == {"io.kubernetes.container.name": "c", **OURS}


def test_annotations_of_a_simple_container() -> None:
    """Those that are always there."""
    assert container_annotations(POD, CONTAINER, 3) == {
        "io.kubernetes.container.hash": container_hash(CONTAINER),
        "io.kubernetes.container.restartCount": "3",
        "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
        "io.kubernetes.container.terminationMessagePolicy": "File",
        "io.kubernetes.pod.terminationGracePeriod": "30",
        "interpose.io/resources": "{}",
    }


def test_a_grace_period_of_the_deletion() -> None:
    """Zero is one."""
    pod = PodSpec(name="p", uid="u", containers=(CONTAINER,), deletion_grace_period=0)
    assert container_annotations(pod, CONTAINER, 0)["io.kubernetes.pod.deletionGracePeriod"] == "0"


@pytest.mark.parametrize(
    ("hook", "document"),
    [
        (ExecAction(command=("a", "b")), {"exec": {"command": ["a", "b"]}}),
        (HttpAction(port=80), {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}}),
        (
            HttpAction(path="/x", port="web", host="h", scheme="HTTPS", headers=(("a", "b"),)),
            {
                "httpGet": {
                    "path": "/x",
                    "port": "web",
                    "host": "h",
                    "scheme": "HTTPS",
                    "httpHeaders": [{"name": "a", "value": "b"}],
                }
            },
        ),
        (TcpAction(port=80), {"tcpSocket": {"port": 80}}),
        (SleepAction(seconds=0), {"sleep": {"seconds": 0}}),
    ],
)
def test_the_hook_before_a_stop(hook: Hook, document: dict[str, Any]) -> None:
    """As the API writes it."""
    container = ContainerSpec(name="c", image="i", lifecycle=LifecycleHandlers(pre_stop=hook))
    found = container_annotations(POD, container, 0)["io.kubernetes.container.preStopHandler"]
    assert json.loads(found) == document


def test_ports() -> None:
    """As the API writes them, in its order."""
    ports = (Port(container_port=80), Port(container_port=53, host_port=5353, host_ip="::", name="dns", protocol="UDP"))
    container = ContainerSpec(name="c", image="i", ports=ports)
    assert container_annotations(POD, container, 0)["io.kubernetes.container.ports"] == (
        '[{"containerPort":80,"protocol":"TCP"},'
        '{"name":"dns","hostPort":5353,"containerPort":53,"protocol":"UDP","hostIP":"::"}]'
    )


def test_resources_as_a_text() -> None:
    """The same for the same amounts, whatever their order."""
    one = ResourceRequirements(requests={"memory": Fraction(5), "cpu": Fraction(1, 2)}, limits={"cpu": Fraction(2)})
    other = ResourceRequirements(
        requests={"cpu": Fraction(500, 1000), "memory": Fraction(5)}, limits={"cpu": Fraction(2)}
    )
    assert resources_text(one) == '{"requests":{"cpu":"500m","memory":"5"},"limits":{"cpu":"2"}}'
    assert resources_text(one) == resources_text(other)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Fraction(0), "0"),
        (Fraction(3), "3"),
        (Fraction(3, 2), "1500m"),
        (Fraction(1, 10**6), "1u"),
        (Fraction(1, 10**9), "1n"),
        (Fraction(1, 10**10), "1/10000000000"),
    ],
)
def test_amounts_as_texts(amount: Fraction, text: str) -> None:
    """Exact in any case."""
    assert amount_text(amount) == text


def test_places_of_logs() -> None:
    """Where the kubelet has them."""
    assert log_directory(POD) == "/var/log/pods/ns_p_u"
    assert log_directory(POD, "/x/") == "/x/ns_p_u"
    assert log_path("c", 2) == "c/2.log"


@pytest.mark.parametrize(
    ("names", "count"),
    [
        ([], 0),
        (["0.log"], 1),
        (["0.log", "3.log", "2.log"], 4),
        (["7.log.20260101-000000.gz"], 8),
        (["x.log", "1.txt", "-1.log", ".log", "²" + ".log", "1" * 30 + ".log"], 0),
    ],
)
def test_restarts_by_what_is_in_the_log_folder(names: list[str], count: int) -> None:
    """One more than the highest; other files do not count."""
    assert restarts_by_logs(names) == count
