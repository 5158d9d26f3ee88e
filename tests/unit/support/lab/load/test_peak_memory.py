"""The highest memory, as the kernel tells it."""

from tests.support.lab.load.peak_memory import highest


def test_the_highest_memory_is_read_from_a_status() -> None:
    """A process that has ended has no memory."""
    assert highest("Name:\tx\nVmPeak:\t 9 kB\nVmHWM:\t   120 kB\nVmRSS:\t 8 kB\n") == 120 * 1024
    assert highest("Name:\tx\nState:\tZ (zombie)\n") == 0
