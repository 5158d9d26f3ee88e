"""Which pod is meant."""

import click
import pytest

from interpose.cli.pod.select import pod_title, select_container, select_pod
from interpose.node.pods.status.runtime_pod import RuntimePod, RuntimeSandbox

PODS = [
    RuntimePod(uid="aaaa1111", name="web", namespace="default"),
    RuntimePod(uid="aaaa2222", name="web", namespace="shop"),
    RuntimePod(uid="bbbb3333", name="db", namespace="shop"),
]


@pytest.mark.parametrize(
    ("name", "namespace", "uid"),
    [("db", None, "bbbb3333"), ("shop/web", None, "aaaa2222"), ("web", "shop", "aaaa2222"), ("bbbb", None, "bbbb3333")],
)
def test_a_pod_is_found_by_name_namespace_and_uid(name: str, namespace: str | None, uid: str) -> None:
    """Whatever is unique."""
    assert select_pod(PODS, name, namespace).uid == uid


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("web", "default/web  uid aaaa1111"),
        ("aaaa", "shop/web  uid aaaa2222"),
        ("nosuch", "there are default/web, shop/db, shop/web"),
        ("default/db", "there is no pod"),
    ],
)
def test_what_is_not_one_pod_is_an_error_with_candidates(name: str, words: str) -> None:
    """So that the next try is right."""
    with pytest.raises(click.ClickException) as caught:
        select_pod(PODS, name)
    assert words in caught.value.message


def test_of_several_of_one_name_the_running_one_counts() -> None:
    """The others are leftovers of edited manifests."""
    old = RuntimePod(uid="old1", name="a", namespace="n", sandboxes=(RuntimeSandbox(id="x", ready=False),))
    new = RuntimePod(uid="new1", name="a", namespace="n", sandboxes=(RuntimeSandbox(id="y"),))
    assert select_pod([old, new], "a").uid == "new1"
    with pytest.raises(click.ClickException):
        select_pod([old, old], "a")


def test_of_several_of_one_name_the_one_that_came_to_the_runtime_counts() -> None:
    """The others failed before, and their manifest was edited since."""
    failed = [RuntimePod(uid=uid, name="a", namespace="n") for uid in ("bad1", "bad2")]
    ended = RuntimePod(uid="end1", name="a", namespace="n", sandboxes=(RuntimeSandbox(id="x", ready=False),))
    assert select_pod([*failed, ended], "a").uid == "end1"
    with pytest.raises(click.ClickException, match="uid bad2"):
        select_pod(failed, "a")


def test_a_pod_without_a_namespace_is_told_by_what_is_known() -> None:
    """Nobody has to read, or to write, a name that begins with a slash."""
    left = RuntimePod(uid="abcd1234", name="abcd1234")
    assert [pod_title(one) for one in (PODS[0], left, RuntimePod(uid="u"))] == ["default/web", "abcd1234", "u"]
    assert select_pod([*PODS, left], "abcd") is left
    with pytest.raises(click.ClickException, match="there are abcd1234, default/web"):
        select_pod([*PODS, left], "nosuch")


def test_an_empty_runtime_says_so() -> None:
    """There is nothing to list."""
    with pytest.raises(click.ClickException, match="none at all"):
        select_pod([], "web")


def test_a_name_in_another_namespace_than_asked_for_is_a_mistake() -> None:
    """Of two places only one can be meant."""
    with pytest.raises(click.UsageError):
        select_pod(PODS, "default/web", "shop")


def test_long_lists_are_cut() -> None:
    """Nobody reads a hundred names."""
    pods = [RuntimePod(uid=f"u{n}", name=f"p{n}", namespace="a") for n in range(20)]
    with pytest.raises(click.ClickException, match="and 12 more"):
        select_pod(pods, "nosuch")


def test_the_container_is_named_default_main_or_first() -> None:
    """In this order."""
    notes = {"kubectl.kubernetes.io/default-container": "b"}
    plain, named = PODS[0], RuntimePod(uid="u", sandboxes=(RuntimeSandbox(id="x", annotations=notes),))
    known = ["init", "a", "b"]
    assert select_container(known, "a", named) == "a"
    assert select_container(known, "", named, ("a",)) == "b"
    assert select_container(known, "", plain, ("a",)) == "a"
    assert select_container(known, "", plain) == "init"


@pytest.mark.parametrize(("known", "wanted"), [([], ""), (["a"], "b"), ([], "b")])
def test_a_container_that_is_not_there_is_an_error(known: list[str], wanted: str) -> None:
    """With those that are."""
    with pytest.raises(click.ClickException):
        select_container(known, wanted, PODS[0])
