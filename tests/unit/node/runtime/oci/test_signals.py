"""Signals by name and number."""

import signal

import pytest

from interpose.cri.messages import cri
from interpose.node.runtime.oci import signals


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *[("TERM", 15), ("SIGKILL", 9), ("sigusr1", 10), (" 3 ", 3), ("SIGPOLL", 29), ("RTMIN", 34), ("RTMAX", 64)],
        *[("SIGRTMIN+3", 37), ("RTMAX-2", 62), ("SIGRTMINPLUS15", 49), ("SIGRTMAXMINUS14", 50)],
    ],
)
def test_what_signals_are_called(text: str, number: int) -> None:
    """As the shell, images and CRI call them."""
    assert signals.number(text) == number


@pytest.mark.parametrize("text", ["", "0", "65", "FLY", "RTMIN-1", "RTMIN+", "RTMIN+31", "RTMAX-31", "RTMAX-x", "²"])
def test_what_is_no_signal(text: str) -> None:
    """It is named."""
    with pytest.raises(ValueError, match="is not a signal"):
        signals.number(text)


def test_names_of_the_system_are_known() -> None:
    """All that Python knows here, under their numbers."""
    for one in signal.Signals:
        assert signals.number(one.name) == one.value


def test_every_signal_of_cri_is_known() -> None:
    """But the one that means "none of them"."""
    for name in cri.Signal.keys():  # noqa: SIM118 - no dict
        if name != "SIGNAL_RUNTIME_DEFAULT":
            assert signals.stop_signal(name, "KILL") == signals.number(name.removeprefix("SIGNAL_"))


@pytest.mark.parametrize(
    ("wanted", "of_image", "number"),
    [
        *[("SIGNAL_RUNTIME_DEFAULT", "SIGQUIT", 3), ("", "", 15), ("SIGNAL_RUNTIME_DEFAULT", "FLY", 15)],
        ("SIGNAL_SIGHUP", "SIGQUIT", 1),
    ],
)
def test_what_ends_a_container(wanted: str, of_image: str, number: int) -> None:
    """CRI before the image before TERM; an image's nonsense is TERM."""
    assert signals.stop_signal(wanted, of_image) == number
