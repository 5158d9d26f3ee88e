"""Pods as values."""

from interpose.node.pods.spec import PodSpec, PullAuth, no_amounts
from tests.support.node.pod_model import make_pod


def test_a_pod_has_a_title() -> None:
    """Its namespace and name."""
    assert make_pod(namespace="n").title == "n/pod"


def test_what_was_written_does_not_make_two_pods_differ() -> None:
    """It is kept for people."""
    assert make_pod(document={"a": 1}) == make_pod(document={"b": 2})


def test_secrets_are_not_shown() -> None:
    """A pod in a message must not give them away."""
    auth = PullAuth(registry="r", username="u", password="hush", identity_token="hush", registry_token="hush")
    assert "hush" not in repr(make_pod(pull_auths=(auth,)))


def test_the_defaults_are_those_of_kubernetes() -> None:
    """As far as values have them."""
    pod = PodSpec(name="p", uid="u", containers=())
    assert (pod.namespace, pod.termination_grace_period, pod.dns_policy) == ("default", 30, "ClusterFirst")
    assert pod.overhead is no_amounts()
