"""Failpoints: failing, waiting and standing still on demand."""

import asyncio

import pytest

from interpose.net.grpc.status import Code, RpcError
from interpose.testing.failpoints import Failpoints, When


async def test_a_method_without_points_passes() -> None:
    """Nothing was set: nothing happens."""
    await Failpoints(["Version"]).enter("Version", When.BEFORE)


async def test_a_failure_counts_down() -> None:
    """`times` failures are answered, with code and message; then calls pass again."""
    points = Failpoints(["Version"])
    points.fail("Version", Code.UNAVAILABLE, "gone", times=2)
    for _ in range(2):
        with pytest.raises(RpcError, match="gone") as caught:
            await points.enter("Version", When.BEFORE)
        assert caught.value.code is Code.UNAVAILABLE
    await points.enter("Version", When.BEFORE)


async def test_a_failure_without_a_count_lasts_until_cleared() -> None:
    """All calls fail until the point is removed."""
    points = Failpoints(["Version"])
    points.fail("Version", Code.INTERNAL)
    for _ in range(3):
        with pytest.raises(RpcError):
            await points.enter("Version", When.BEFORE)
    points.clear("Version")
    await points.enter("Version", When.BEFORE)


async def test_points_stand_on_one_side_of_the_work() -> None:
    """A failure set for after the work does not act before it."""
    points = Failpoints(["Version"])
    points.fail("Version", Code.INTERNAL, when="after")
    await points.enter("Version", When.BEFORE)
    with pytest.raises(RpcError):
        await points.enter("Version", When.AFTER)


async def test_clearing_one_method_keeps_the_others() -> None:
    """`clear` with a name touches only that method."""
    points = Failpoints(["Version", "Status"])
    points.fail("Version", Code.INTERNAL)
    points.fail("Status", Code.INTERNAL)
    points.clear("Version")
    await points.enter("Version", When.BEFORE)
    with pytest.raises(RpcError):
        await points.enter("Status", When.BEFORE)


async def test_a_delay_sleeps_that_long() -> None:
    """The given number of seconds is slept on each call, and none after setting 0."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    points = Failpoints(["Version"], sleep)
    points.delay("Version", 1.5)
    await points.enter("Version", When.BEFORE)
    points.delay("Version", 0)
    await points.enter("Version", When.BEFORE)
    assert slept == [1.5]


async def test_a_stall_holds_all_calls_until_released() -> None:
    """Two calls stand still; both go on after the release, and a later call passes."""
    points = Failpoints(["Version"])
    stall = points.stall("Version")
    held = [asyncio.create_task(points.enter("Version", When.BEFORE)) for _ in range(2)]
    await stall.entered.wait()
    await asyncio.sleep(0)
    assert stall.waiting == 2
    assert not any(task.done() for task in held)
    stall.release()
    await asyncio.gather(*held)
    await points.enter("Version", When.BEFORE)
    assert stall.waiting == 0


async def test_a_cancelled_call_leaves_the_stall() -> None:
    """A caller that gives up is no longer counted."""
    points = Failpoints(["Version"])
    stall = points.stall("Version")
    held = asyncio.create_task(points.enter("Version", When.BEFORE))
    await stall.entered.wait()
    held.cancel()
    await asyncio.gather(held, return_exceptions=True)
    assert stall.waiting == 0


async def test_clearing_lets_held_calls_go_without_failing_them() -> None:
    """A call that stood still when everything was cleared ends well, though a failure had been set."""
    points = Failpoints(["Version"])
    stall = points.stall("Version")
    points.fail("Version", Code.INTERNAL)
    held = asyncio.create_task(points.enter("Version", When.BEFORE))
    await stall.entered.wait()
    points.clear()
    await held


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda points: points.fail("Versoin", Code.INTERNAL), "Versoin"),
        (lambda points: points.stall("Versoin"), "Versoin"),
        (lambda points: points.fail("Version", Code.INTERNAL, times=0), "times"),
        (lambda points: points.fail("Version", Code.OK), "OK"),
        (lambda points: points.delay("Version", -1), "-1"),
        (lambda points: points.fail("Version", Code.INTERNAL, when="meanwhile"), "meanwhile"),
    ],
)
def test_what_makes_no_sense_is_refused(act: "object", text: str) -> None:
    """A typing error in a test must not become a failpoint that never acts."""
    assert callable(act)
    with pytest.raises(ValueError, match=text):
        act(Failpoints(["Version"]))
