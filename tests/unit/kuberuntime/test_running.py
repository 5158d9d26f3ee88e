"""Pods made of the lists of a runtime."""

import pytest

from interpose.cri.messages import cri
from interpose.kuberuntime.labels import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID
from interpose.kuberuntime.running import RunningPod, container_state, grouped
from interpose.model.pod import ContainerState


def sandbox(
    sandbox_id: str, uid: str = "u", attempt: int = 0, created_at: int = 0, ready: bool = True
) -> cri.PodSandbox:
    return cri.PodSandbox(
        id=sandbox_id,
        metadata=cri.PodSandboxMetadata(name="web", namespace="ns", uid=uid, attempt=attempt),
        state=cri.SANDBOX_READY if ready else cri.SANDBOX_NOTREADY,
        created_at=created_at,
        labels={"a": "b"},
    )


def listed(container_id: str, name: str = "main", uid: str = "u", attempt: int = 0, state: int = 1) -> cri.Container:
    return cri.Container(
        id=container_id,
        pod_sandbox_id="s",
        metadata=cri.ContainerMetadata(name=name, attempt=attempt),
        state=state,  # type: ignore[arg-type]
        image=cri.ImageSpec(image="i"),
        labels={POD_UID: uid, POD_NAME: "web", POD_NAMESPACE: "ns", CONTAINER_NAME: name},
    )


def test_what_belongs_together_is_one_pod() -> None:
    """Newest first: by attempt, then by age, then by id."""
    sandboxes = [sandbox("old"), sandbox("b", attempt=1, created_at=1), sandbox("a", attempt=1, created_at=1)]
    sandboxes.append(sandbox("newer", attempt=1, created_at=2, ready=False))
    [one] = grouped(sandboxes, [listed("c0"), listed("c1", attempt=1)], complete=True)
    assert (one.uid, one.title, one.complete) == ("u", "ns/web", True)
    assert [box.id for box in one.sandboxes] == ["newer", "a", "b", "old"]
    assert [box.ready for box in one.sandboxes] == [False, True, True, True]
    assert [(c.id, c.attempt, c.image, c.sandbox_id) for c in one.containers] == [
        ("c1", 1, "i", "s"),
        ("c0", 0, "i", "s"),
    ]


def test_what_is_listed_twice_is_there_once() -> None:
    """Two sandboxes that are ready would be one too many."""
    [one] = grouped([sandbox("a"), sandbox("a")], [listed("c"), listed("c")], complete=True)
    assert ([box.id for box in one.sandboxes], [c.id for c in one.containers]) == (["a"], ["c"])


def test_a_container_without_its_sandbox_is_a_pod_too() -> None:
    """Its labels say whose it is."""
    [one] = grouped([], [listed("c")], complete=False)
    assert (one.uid, one.name, one.namespace, one.sandboxes) == ("u", "web", "ns", ())


def test_what_has_no_owner_is_left_out() -> None:
    """A container that somebody made by hand, a sandbox without a uid."""
    bare = cri.Container(id="x", metadata=cri.ContainerMetadata(name="x"))
    assert grouped([sandbox("s", uid="")], [bare, listed("c", name="", uid="u")], complete=True) == []


def test_a_container_without_our_label_has_the_name_it_was_made_with() -> None:
    """Other managers may label in another way."""
    one = listed("c")
    del one.labels[CONTAINER_NAME]
    [pod] = grouped([], [one], complete=True)
    assert [container.name for container in pod.containers] == ["main"]


def test_what_may_run_has_to_be_stopped() -> None:
    """Also what the runtime knows nothing about."""
    [pod] = grouped([], [listed(str(state), state=state) for state in range(4)], complete=True)
    assert sorted(one.id for one in pod.running) == ["1", "3"]
    assert RunningPod(uid="u").running == ()


@pytest.mark.parametrize(
    ("number", "state"),
    [(0, "created"), (1, "running"), (2, "exited"), (3, "unknown"), (4, "unknown"), (-1, "unknown")],
)
def test_states_by_their_numbers(number: int, state: str) -> None:
    """Those that nobody knows are unknown."""
    assert container_state(number) is ContainerState(state)
