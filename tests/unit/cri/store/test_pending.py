"""Creates in doubt."""

from interpose.core.model.kubernetes_names import POD_UID
from interpose.core.model.pod import Container, Pod
from interpose.cri.store.pending import PendingCreates

APP = Container(id="", name="app", attempt=1)


def test_oldest_makes_room() -> None:
    """The number is bounded; the one that was given up is returned."""
    pending = PendingCreates(most=2)
    assert [pending.add(APP, pod_uid=uid) for uid in "ab"] == [None, None]
    dropped = pending.add(APP, pod_uid="c")
    assert dropped is not None
    assert dropped.key == ("a", "app", 1)
    assert [entry.key[0] for entry in pending] == ["b", "c"]


def test_later_create_takes_the_place_of_an_earlier() -> None:
    """The same name is pending once; the entry before it is no longer there."""
    pending = PendingCreates()
    pending.add(APP, pod_uid="a")
    (first,) = pending
    pending.add(APP, pod_uid="a")
    (second,) = pending
    assert (first in pending, second in pending) == (False, True)
    pending.drop(first)
    assert len(pending) == 1


def test_pod_is_told_apart_by_attempt() -> None:
    """A second attempt is another pod."""
    pending = PendingCreates()
    pending.add(Pod(id="", name="web", uid="u", attempt=1))
    pending.drop_pod(Pod(id="p", name="web", uid="u", attempt=2))
    assert len(pending) == 1
    pending.drop_pod(Pod(id="p", name="web", uid="u", attempt=1))
    assert len(pending) == 0


def test_uid_of_an_unknown_pod_is_in_the_labels() -> None:
    """As a kubelet writes it."""
    pending = PendingCreates()
    pending.add(APP, pod_uid="a")
    pending.drop_container(Container(id="c", name="app", attempt=1, labels={POD_UID: "a"}), None)
    assert len(pending) == 0
