"""Hashes and uids are the same tomorrow, and differ where they should."""

from dataclasses import replace

import pytest

from interpose.node.pods.labels import container_hash, fnv1a
from interpose.node.pods.spec import pod_uid
from tests.support.node.pod_model import make_container


@pytest.mark.parametrize(("data", "value"), [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)])
def test_the_hash_is_the_published_one(data: bytes, value: int) -> None:
    """Test vectors of its authors."""
    assert fnv1a(data) == value


def test_a_container_is_another_one_with_another_name_or_image() -> None:
    """And with nothing else."""
    one = make_container("a", image="x:1")
    assert container_hash(replace(one, command=("b",), tty=True)) == container_hash(one)
    assert (
        len({container_hash(one), container_hash(replace(one, name="b")), container_hash(replace(one, image="x"))}) == 3
    )


def test_the_hash_of_a_container_stays_as_it_is() -> None:
    """A release that changes it restarts every container of every pod."""
    assert container_hash(make_container("web", image="nginx:1.27")) == "b65a6569"


def test_name_and_image_do_not_run_into_each_other() -> None:
    """A letter that moves from one to the other is a change."""
    assert container_hash(make_container("ab", image="c")) != container_hash(make_container("a", image="bc"))


def test_a_uid_is_made_of_the_content() -> None:
    """Whatever the order of keys; 32 digits, as static pods have them."""
    uid = pod_uid("default", "p", {"a": 1, "b": [2]})
    assert uid == pod_uid("default", "p", {"b": [2], "a": 1})
    assert len(uid) == 32
    assert int(uid, 16)


@pytest.mark.parametrize("other", [("n", "p", {"a": 1}), ("default", "q", {"a": 1}), ("default", "p", {"a": 2})])
def test_another_pod_has_another_uid(other: tuple[str, str, dict[str, int]]) -> None:
    """Namespace, name and content count."""
    assert pod_uid(*other) != pod_uid("default", "p", {"a": 1})
