"""Jobs in threads: results, the clock over plugins, and what becomes of those that do not return."""

import asyncio
import logging
import math
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest

from interpose.hooks.server.plugin import Watch
from interpose.hooks.server.worker_threads import BOUNDS, Runner
from interpose.testing.eventually import WAIT_LIMIT, eventually
from tests.support.clock import PluginClock

TIMEOUT = 0.1


@pytest.fixture
def clock() -> PluginClock:
    """Of the runner."""
    return PluginClock()


@pytest.fixture
async def runner(clock: PluginClock) -> AsyncIterator[Runner]:
    """Two threads and a short deadline."""
    one = Runner(timeout=TIMEOUT, pause=60.0, workers=2, most_stuck=3, now=clock)
    yield one
    await one.close()


@pytest.fixture
def release() -> Any:
    """Lets everything that hangs go at the end of the test."""
    event = threading.Event()
    yield event
    event.set()


def running(**plugins: Callable[[], object]) -> Callable[[Watch], list[str]]:
    """A job that runs these plugins as Hooks would, and returns the names of those that were let in."""

    def job(watch: Watch) -> list[str]:
        ran = []
        for name, act in plugins.items():
            if not watch.enter(name):
                continue
            failure = ""
            try:
                act()
            except Exception as error:
                failure = str(error)
            finally:
                watch.leave(name, failure)
            ran.append(name)
        return ran

    return job


def nothing() -> None:
    """A plugin that does its work."""


def fails() -> None:
    """A plugin that does not."""
    raise ValueError("no")


# -- jobs


async def test_result_comes_from_another_thread(runner: Runner) -> None:
    """Which is kept for the next job."""
    first = await runner.run(lambda _: threading.current_thread())
    second = await runner.run(lambda _: threading.current_thread())
    assert first is second
    assert first is not threading.current_thread()
    assert first.daemon


async def test_error_of_a_job_is_the_callers(runner: Runner) -> None:
    """The thread goes on."""

    def bad(_: Watch) -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await runner.run(bad)
    assert await runner.run(lambda _: 1) == 1


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration("x"), KeyboardInterrupt()])
async def test_exceptions_that_mean_something_to_a_loop(runner: Runner, error: BaseException) -> None:
    """They end neither the thread nor the loop."""

    def bad(_: Watch) -> None:
        raise error

    with pytest.raises(RuntimeError, match=type(error).__name__):
        await runner.run(bad)
    assert await runner.run(lambda _: 1) == 1


async def test_jobs_run_side_by_side_within_the_limit(runner: Runner) -> None:
    """Two at a time, the others wait for their turn."""
    met = threading.Barrier(2)
    results = await asyncio.gather(*(runner.run(lambda _: met.wait(WAIT_LIMIT)) for _ in range(6)))
    assert sorted(results) == [0, 0, 0, 1, 1, 1]


async def test_job_may_take_longer_than_a_plugin(runner: Runner, clock: PluginClock) -> None:
    """The deadline is for each plugin alone."""
    rest = threading.Event()

    def job(watch: Watch) -> int:
        rest.wait(1.5 * TIMEOUT)  # outside of any plugin; the loop has looked
        clock.time += 1.5 * TIMEOUT
        for _ in range(15):
            assert watch.enter("A")
            rest.wait(TIMEOUT / 10)
            clock.time += TIMEOUT / 10
            watch.leave("A", "")
        return 5

    assert await runner.run(job) == 5
    assert runner.stats["A"].timeouts == 0


async def test_statistics_per_plugin(runner: Runner, clock: PluginClock) -> None:
    """Runs, failures and how long they took."""

    def works() -> None:
        clock.time += TIMEOUT / 10

    for _ in range(3):
        await runner.run(running(A=works, B=fails))
    a, b = runner.stats["A"], runner.stats["B"]
    assert (a.runs, a.failures, a.timeouts) == (3, 0, 0)
    assert (b.runs, b.failures) == (3, 3)
    assert (sum(a.buckets), len(a.buckets)) == (3, len(BOUNDS) + 1)
    assert a.seconds == pytest.approx(3 * TIMEOUT / 10)


# -- plugins that do not return


async def test_hung_plugin_is_left_out_and_the_job_run_again(
    runner: Runner, clock: PluginClock, release: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    """The others have their say, and so they have in the next job, without waiting."""
    job = running(A=nothing, hangs=lambda: clock.hang(release), C=nothing)
    assert await runner.run(job) == ["A", "C"]
    assert await runner.run(job) == ["A", "C"]
    assert runner.stats["hangs"].timeouts == 1
    assert runner.stats["hangs"].runs == 0
    assert runner.stats["A"].runs == 2  # what a thread did that was given up does not count
    assert runner.suspended == {"hangs": 60.0}
    assert runner.stuck == 1
    assert len([one for one in caplog.records if one.levelno == logging.ERROR]) == 1


async def test_spinning_plugin_is_ended(runner: Runner, clock: PluginClock) -> None:
    """One that is busy in Python does not take turns with the loop for ever."""

    def spins() -> None:
        clock.time += 2 * TIMEOUT
        while True:
            pass

    assert await runner.run(running(spins=spins, B=nothing)) == ["B"]
    await eventually(lambda: runner.stuck == 0, "the thread to end")


async def test_plugin_that_catches_everything_is_given_up(runner: Runner, clock: PluginClock) -> None:
    """Its thread ends when it comes back after all."""
    go = threading.Event()

    def stubborn() -> None:
        clock.time += 2 * TIMEOUT
        while not go.is_set():
            with suppress(BaseException):
                go.wait(TIMEOUT / 10)

    assert await runner.run(running(stubborn=stubborn, B=nothing)) == ["B"]
    assert runner.stuck == 1
    go.set()
    await eventually(lambda: runner.stuck == 0, "the thread to end")


async def test_several_hung_plugins_in_one_job(runner: Runner, clock: PluginClock, release: threading.Event) -> None:
    """One after the other is found out."""
    hang = lambda: clock.hang(release)  # noqa: E731
    assert await runner.run(running(A=hang, B=hang, C=nothing)) == ["C"]
    assert runner.suspended.keys() == {"A", "B"}


async def test_other_jobs_go_on_when_every_thread_hangs(
    runner: Runner, clock: PluginClock, release: threading.Event
) -> None:
    """New threads take the places of those that were given up."""
    jobs = [running(hangs=lambda: clock.hang(release), B=nothing) for _ in range(8)]
    results = await asyncio.gather(*(runner.run(job) for job in jobs))
    assert results == [["B"]] * 8
    assert 1 <= runner.stuck <= 2  # at most as many as there were threads


async def test_after_the_pause_one_run_tries(runner: Runner, release: threading.Event, clock: PluginClock) -> None:
    """The others wait for its outcome; if it hangs again, it is left out again, and only one thread was lost."""
    hang = True

    def sometimes() -> None:
        if hang:
            clock.hang(release)

    job = running(A=sometimes, B=nothing)
    assert await runner.run(job) == ["B"]
    clock.time += 61
    assert await asyncio.gather(*(runner.run(job) for _ in range(4))) == [["B"]] * 4
    assert (runner.stuck, runner.stats["A"].timeouts) == (2, 2)
    hang = False
    assert await runner.run(job) == ["B"]
    clock.time += 61
    assert await runner.run(job) == ["A", "B"]
    assert not runner.suspended
    assert await runner.run(job) == ["A", "B"]


async def test_plugin_that_hangs_too_often_is_off_for_good(
    runner: Runner, release: threading.Event, clock: PluginClock, caplog: pytest.LogCaptureFixture
) -> None:
    """There is a limit to the threads it may cost."""
    job = running(A=lambda: clock.hang(release), B=nothing)
    for _ in range(3):
        assert await runner.run(job) == ["B"]
        clock.time += 61
    assert runner.suspended["A"] == math.inf
    assert "disabled until the next start" in caplog.text
    clock.time += 1e6
    assert await runner.run(job) == ["B"]
    assert runner.stuck == 3


async def test_plugin_that_wants_to_end_the_program_is_left_out(runner: Runner) -> None:
    """As one that does not return, but no thread is lost."""

    def leaves() -> None:
        raise SystemExit(1)

    assert await runner.run(running(A=nothing, leaves=leaves, C=nothing)) == ["A", "C"]
    assert runner.stats["leaves"].failures == 1
    assert (runner.stuck, list(runner.suspended)) == (0, ["leaves"])


async def test_whole_program_standing_still_is_no_plugins_fault(runner: Runner, clock: PluginClock) -> None:
    """If the loop could not look in time, the plugin gets a moment more."""
    entered, go, returned = threading.Event(), threading.Event(), threading.Event()

    def waits() -> None:
        entered.set()
        go.wait(WAIT_LIMIT)

    def job(watch: Watch) -> list[str]:
        try:
            return running(A=waits)(watch)
        finally:
            returned.set()

    task = asyncio.ensure_future(runner.run(job))
    await eventually(entered.is_set, "the plugin to run")
    clock.time += 2 * TIMEOUT
    time.sleep(2 * TIMEOUT)  # noqa: ASYNC251 - the loop stands still
    for _ in range(3):
        await asyncio.sleep(0)  # it looks, and sees that it is late
    assert not runner.suspended
    go.set()
    assert returned.wait(WAIT_LIMIT)  # the loop stands still until then: it cannot look too early
    assert await task == ["A"]
    assert runner.stats["A"].timeouts == 0


# -- who leaves


async def test_caller_that_leaves_does_not_lose_the_thread(
    runner: Runner, clock: PluginClock, release: threading.Event
) -> None:
    """The clock goes on for a plugin whose result nobody wants any more."""
    entered = threading.Event()

    def hang() -> None:
        entered.set()
        clock.hang(release)

    task = asyncio.ensure_future(runner.run(running(A=hang)))
    await eventually(entered.is_set, "the plugin to run")
    task.cancel()
    await eventually(lambda: runner.stuck == 1, "the plugin to be found out")
    assert runner.stats["A"].timeouts == 1
    assert await runner.run(lambda _: 1) == 1


async def test_job_nobody_waits_for_is_not_begun(runner: Runner) -> None:
    """If its caller left while it was waiting for a thread."""
    go = threading.Event()
    busy = [asyncio.ensure_future(runner.run(lambda _: go.wait(WAIT_LIMIT))) for _ in range(2)]
    ran = []
    waiting = asyncio.ensure_future(runner.run(lambda _: ran.append(1)))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(*busy)
    assert await runner.run(lambda _: 1) == 1
    assert not ran


async def test_result_that_comes_too_late_is_dropped(runner: Runner) -> None:
    """Nothing is said about it."""
    go, begun = threading.Event(), threading.Event()

    def job(_: Watch) -> None:
        begun.set()
        go.wait(WAIT_LIMIT)

    task = asyncio.ensure_future(runner.run(job))
    await eventually(begun.is_set, "the job to run")
    task.cancel()
    await asyncio.sleep(0)
    go.set()
    assert await runner.run(lambda _: 1) == 1


async def test_close_ends_the_threads(clock: PluginClock) -> None:
    """And whoever waits; a closed one takes no jobs."""
    runner = Runner(timeout=TIMEOUT, now=clock)
    threads = [await runner.run(lambda _: threading.current_thread())]
    await runner.close()
    await eventually(lambda: not any(one.is_alive() for one in threads), "the threads to end")
    with pytest.raises(RuntimeError, match="closed"):
        await runner.run(lambda _: 1)


async def test_close_does_not_wait_for_what_hangs(release: threading.Event, caplog: pytest.LogCaptureFixture) -> None:
    """Its caller is told; what comes later is ignored."""
    runner = Runner(timeout=TIMEOUT)
    begun = threading.Event()

    def job(_: Watch) -> None:
        begun.set()
        release.wait(WAIT_LIMIT)

    task = asyncio.ensure_future(runner.run(job))
    await eventually(begun.is_set, "the job to run")
    await runner.close()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "still run" in caplog.text
    release.set()


async def test_close_of_one_that_never_ran(caplog: pytest.LogCaptureFixture) -> None:
    """There is nothing to end, and it takes no jobs afterwards."""
    runner = Runner()
    await runner.close()
    with pytest.raises(RuntimeError, match="closed"):
        await runner.run(lambda _: 1)
    assert caplog.text == ""
