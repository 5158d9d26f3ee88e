"""Work that goes on without whoever asked for it."""

import asyncio

import pytest

from interpose.net.grpc.status import Code, RpcError
from interpose.node.runtime.service.interfaces import PartError
from interpose.node.runtime.service.operations import OperationRunner


async def fail(error: Exception) -> None:
    """Ends badly."""
    raise error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RpcError(Code.NOT_FOUND, "x"), Code.NOT_FOUND),
        (PartError("the words"), Code.UNKNOWN),
        (OSError(28, "No space left on device"), Code.UNKNOWN),
        (ZeroDivisionError(), Code.INTERNAL),
    ],
)
async def test_errors_are_the_callers(error: Exception, code: Code) -> None:
    """Whatever goes wrong is a status."""
    with pytest.raises(RpcError) as caught:
        await OperationRunner().run("Do", lambda: fail(error))
    assert caught.value.code is code


async def test_a_caller_that_leaves() -> None:
    """The work is done all the same, and closing waits for it."""
    operations, done, go = OperationRunner(), [], asyncio.Event()

    async def work() -> None:
        await go.wait()
        done.append(True)

    call = asyncio.ensure_future(operations.run("Do", work))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert len(operations) == 1
    go.set()
    await operations.close(5)
    assert done == [True]
    with pytest.raises(RpcError, match="UNAVAILABLE"):
        await operations.run("Do", work)


async def test_together() -> None:
    """All are carried out, even if one of them fails."""
    operations, done = OperationRunner(), []

    async def work() -> int:
        done.append(True)
        return 1

    assert await operations.run_all("Do", [work, work]) == [1, 1]
    with pytest.raises(RpcError):
        await operations.run_all("Do", [lambda: fail(PartError("no")), work])
    assert len(done) == 3


async def test_later_never_fails_anybody(caplog: pytest.LogCaptureFixture) -> None:
    """Its errors are in the log; after the end nothing is begun."""
    operations = OperationRunner()
    operations.run_in_background("clean up", lambda: fail(PartError("no")))
    await operations.close(5)
    assert [one.message for one in caplog.records] == ["Operation failed"]
    operations.run_in_background("clean up", lambda: fail(PartError("no")))
    assert len(operations) == 0
