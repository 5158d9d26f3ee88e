"""Plans for what goes wrong."""

import pytest

from interpose.testing.failpoints import When
from tests.support.docker.fake.errors import DockerError
from tests.support.docker.fake.faults import HALF, DropError, Faults


@pytest.fixture
def faults() -> Faults:
    """Of a server with two kinds of calls."""
    return Faults({"create", "start"})


async def test_failures_are_used_up(faults: Faults) -> None:
    """Those without a number are not."""
    faults.fail("create", 409, "once")
    with pytest.raises(DockerError, match="once"):
        await faults.enter("create", When.BEFORE)
    await faults.enter("create", When.BEFORE)
    faults.fail("create", times=None)
    for _ in range(3):
        with pytest.raises(DockerError):
            await faults.enter("create", When.BEFORE)
    faults.clear()
    await faults.enter("create", When.BEFORE)


async def test_drops_are_for_one_side_of_the_work(faults: Faults) -> None:
    """And for as many calls as were said."""
    faults.drop("create", When.AFTER)
    faults.drop("create", HALF)
    await faults.enter("create", When.BEFORE)
    with pytest.raises(DropError):
        await faults.enter("create", When.AFTER)
    await faults.enter("create", When.AFTER)
    assert faults.breaks_off("create")
    assert not faults.breaks_off("create")


async def test_a_stall_lets_go_when_all_is_well_again(faults: Faults) -> None:
    """A test that ends must not leave calls behind."""
    stall = faults.stall("start")
    faults.clear()
    assert stall.released


def test_raw_answers_are_used_in_order(faults: Faults) -> None:
    """By kind."""
    faults.answer_raw("create", b"one")
    faults.answer_raw("create", b"two")
    assert [faults.raw("start"), faults.raw("create"), faults.raw("create"), faults.raw("create")] == [
        *(None, b"one", b"two", None),
    ]


def test_a_typing_error_is_refused(faults: Faults) -> None:
    """With what there is."""
    with pytest.raises(ValueError, match="no call of kind 'craete'; there are create, start"):
        faults.fail("craete")
