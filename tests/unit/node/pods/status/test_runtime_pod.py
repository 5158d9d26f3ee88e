"""Pods made of the lists of a runtime."""

import pytest

from interpose.core.model.kubernetes_names import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID
from interpose.core.model.pod import ContainerState
from interpose.cri.messages import cri
from interpose.node.pods.status.runtime_pod import RuntimePod, container_state, group_pods


def sandbox(
    sandbox_id: str, uid: str = "u", attempt: int = 0, created_at: int = 0, ready: bool = True
) -> cri.PodSandbox:
    return cri.PodSandbox(
        id=sandbox_id,
        metadata=cri.PodSandboxMetadata(name="web", namespace="ns", uid=uid, attempt=attempt),
        state=cri.SANDBOX_READY if ready else cri.SANDBOX_NOTREADY,
        created_at=created_at,
        labels={POD_UID: uid} if uid else {},
    )


def listed(
    container_id: str, name: str = "main", uid: str = "u", attempt: int = 0, state: int = 1, sandbox_id: str = "s"
) -> cri.Container:
    return cri.Container(
        id=container_id,
        pod_sandbox_id=sandbox_id,
        metadata=cri.ContainerMetadata(name=name, attempt=attempt),
        state=state,  # type: ignore[arg-type]
        image=cri.ImageSpec(image="i"),
        labels={POD_UID: uid, POD_NAME: "web", POD_NAMESPACE: "ns", CONTAINER_NAME: name},
    )


def test_what_belongs_together_is_one_pod() -> None:
    """Newest first: by attempt, then by age, then by id."""
    sandboxes = [sandbox("old"), sandbox("b", attempt=1, created_at=1), sandbox("a", attempt=1, created_at=1)]
    sandboxes.append(sandbox("newer", attempt=1, created_at=2, ready=False))
    [one] = group_pods(sandboxes, [listed("c0"), listed("c1", attempt=1)], complete=True)
    assert (one.uid, one.title, one.complete) == ("u", "ns/web", True)
    assert [box.id for box in one.sandboxes] == ["newer", "a", "b", "old"]
    assert [box.ready for box in one.sandboxes] == [False, True, True, True]
    assert [(c.id, c.attempt, c.image, c.sandbox_id) for c in one.containers] == [
        ("c1", 1, "i", "s"),
        ("c0", 0, "i", "s"),
    ]


def test_what_is_listed_twice_is_there_once() -> None:
    """Two sandboxes that are ready would be one too many."""
    [one] = group_pods([sandbox("a"), sandbox("a")], [listed("c"), listed("c")], complete=True)
    assert ([box.id for box in one.sandboxes], [c.id for c in one.containers]) == (["a"], ["c"])


def test_a_container_without_its_sandbox_is_a_pod_too() -> None:
    """Its labels say whose it is."""
    [one] = group_pods([], [listed("c")], complete=False)
    assert (one.uid, one.name, one.namespace, one.sandboxes) == ("u", "web", "ns", ())


def crictl_container(container_id: str, sandbox_id: str) -> cri.Container:
    return cri.Container(id=container_id, pod_sandbox_id=sandbox_id, metadata=cri.ContainerMetadata(name="main"))


def test_sandboxes_without_the_label_of_a_pod_are_pods_of_their_own() -> None:
    """As crictl makes them: by their ids, whether their metadata is equal or missing, each with its containers."""
    bare = cri.PodSandbox(id="c", state=cri.SANDBOX_READY)
    containers = [crictl_container("in-a", "a"), crictl_container("in-c", "c")]
    pods = group_pods([sandbox("a", uid=""), sandbox("b", uid=""), bare], containers, complete=True)
    assert [(one.uid, one.title, [box.id for box in one.sandboxes]) for one in pods] == [
        ("a", "ns/web", ["a"]),
        ("b", "ns/web", ["b"]),
        ("c", "/", ["c"]),
    ]
    assert [[inside.id for inside in one.containers] for one in pods] == [["in-a"], [], ["in-c"]]


def test_a_container_belongs_to_the_pod_of_its_sandbox() -> None:
    """Whatever labels somebody gave it; without its sandbox the sandbox's id is all there is."""
    [pod] = group_pods([sandbox("s")], [crictl_container("c", "s"), listed("d", uid="other")], complete=True)
    assert (pod.uid, [one.id for one in pod.containers]) == ("u", ["c", "d"])
    [pod] = group_pods([], [crictl_container("c", "s")], complete=True)
    assert (pod.uid, pod.name, [one.id for one in pod.containers]) == ("s", "", ["c"])


def test_what_has_no_owner_is_left_out() -> None:
    """A container that names no sandbox, and one without a name."""
    bare = cri.Container(id="x", metadata=cri.ContainerMetadata(name="x"))
    nameless = cri.Container(id="y", pod_sandbox_id="s")
    assert group_pods([], [bare, nameless], complete=True) == []


def test_a_container_without_our_label_has_the_name_it_was_made_with() -> None:
    """Other managers may label in another way."""
    one = listed("c")
    del one.labels[CONTAINER_NAME]
    [pod] = group_pods([], [one], complete=True)
    assert [container.name for container in pod.containers] == ["main"]


def test_what_may_run_has_to_be_stopped() -> None:
    """Also what the runtime knows nothing about."""
    [pod] = group_pods([], [listed(str(state), state=state) for state in range(4)], complete=True)
    assert sorted(one.id for one in pod.running) == ["1", "3"]
    assert RuntimePod(uid="u").running == ()


@pytest.mark.parametrize(
    ("number", "state"),
    [(0, "created"), (1, "running"), (2, "exited"), (3, "unknown"), (4, "unknown"), (-1, "unknown")],
)
def test_states_by_their_numbers(number: int, state: str) -> None:
    """Those that nobody knows are unknown."""
    assert container_state(number) is ContainerState(state)
