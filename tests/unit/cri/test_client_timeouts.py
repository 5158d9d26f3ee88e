"""The deadlines of a kubelet."""

from interpose.cri.client import Timeouts


def test_every_call_has_the_limit_of_a_kubelet() -> None:
    """Two minutes, twice that for sandboxes, and what was asked for on top."""
    usual = Timeouts()
    assert usual.request == 120
    assert usual.run_pod_sandbox == 240
    assert usual.stop_container(30) == 150
    assert usual.stop_container(-1) == 120
    assert usual.exec_sync(10) == 130
    assert usual.checkpoint(10) == 120
    assert usual.checkpoint(300) == 300


def test_a_command_without_a_limit_has_none() -> None:
    """It may take days."""
    assert Timeouts().exec_sync(0) is None
