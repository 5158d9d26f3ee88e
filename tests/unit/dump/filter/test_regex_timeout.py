"""An end to work that takes too long."""

import re
import signal
import threading

import pytest

from interpose.dump.filter.regex_timeout import RegexTimeout, RegexTimeoutError

ENDLESS = re.compile("(a+)+$")
LOST = "a" * 60 + "!"


def test_an_expression_that_takes_too_long_is_stopped() -> None:
    """And nothing rings afterwards."""
    before = signal.getsignal(signal.SIGVTALRM)
    with pytest.raises(RegexTimeoutError, match=r"longer than 0\.05 s"), RegexTimeout(0.05).limited():
        ENDLESS.search(LOST)
    assert signal.getsignal(signal.SIGVTALRM) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] == 0


def test_what_is_fast_is_not_disturbed() -> None:
    """Its result is its own."""
    patience = RegexTimeout(60.0)
    with patience.limited():
        found = ENDLESS.search("aaa")
    assert found is not None


def test_what_stands_aside_does_not_count() -> None:
    """However long it takes; what comes behind it does."""
    patience = RegexTimeout(0.05)

    def work() -> None:
        with patience.limited():
            with patience.suspended():
                signal.raise_signal(signal.SIGVTALRM)  # as if the time were over
                aside.append(True)
            ENDLESS.search(LOST)

    aside: list[bool] = []
    with pytest.raises(RegexTimeoutError):
        work()
    assert aside == [True]
    with patience.suspended():
        assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] == 0


def test_another_thread_is_not_limited() -> None:
    """Signals do not reach it."""
    done: list[bool] = []

    def work() -> None:
        with RegexTimeout(0.01).limited():
            done.append(signal.getitimer(signal.ITIMER_VIRTUAL)[0] == 0)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
