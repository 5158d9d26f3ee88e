"""Transfers that are too slow are found out."""

from interpose.node.runtime.images.registry.http import TransferRate


def test_too_little_in_the_time_is_too_slow() -> None:
    """Whatever came before."""
    pace = TransferRate(100, 10.0)
    assert pace.keeps_up(1000, 9.0)
    assert pace.keeps_up(0, 1.0)
    assert pace.keeps_up(99, 9.9)
    assert not pace.keeps_up(0, 0.1)


def test_just_enough_is_enough() -> None:
    """Each time is looked at for itself."""
    pace = TransferRate(100, 10.0)
    assert all(pace.keeps_up(50, 5.0) for _ in range(10))
