"""Actions as values, and health of which nothing is known."""

from interpose.node.pods.sync.action_types import UNPROBED, Kill, KillReason, PodActions, Resize


def test_nothing_is_known_without_probes() -> None:
    """Neither good nor bad."""
    assert (UNPROBED.liveness("a"), UNPROBED.startup("a"), UNPROBED.readiness("a")) == (None, None, None)


def test_anything_is_something() -> None:
    """Each act for itself."""
    kill = Kill(container=None, name="a", reason=KillReason.STRAY, message="")
    something = [
        PodActions(kill={"a": kill}),
        PodActions(reset=("a",)),
        PodActions(resize=(Resize(index=0, container_id="a"),)),
        PodActions(init_start=(0,)),
        PodActions(ephemeral_start=(0,)),
    ]
    assert not any(one.nothing for one in something)


def test_every_reason_is_told_in_words() -> None:
    """Different ones."""
    words = [reason.words for reason in KillReason]
    assert all(words)
    assert len(set(words)) == len(words)
