"""When a hook server is dialled: by what its socket file says."""

import asyncio
import socket
from pathlib import Path

import pytest

from interpose.hooks.dispatch.connection import DialPolicy


class Bench:
    """A lookout with a clock that a test moves."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 100.0
        self.lookout = DialPolicy(str(path), lambda: self.now)

    def make(self) -> None:
        """A new socket file."""
        self.path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(self.path))

    async def may_dial(self, failed: int = 1) -> bool:
        """Whether a dial is due now; the lookout looks once."""
        task = asyncio.create_task(self.lookout.pace(failed))
        await asyncio.sleep(0)
        due = task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return due


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """No file yet."""
    return Bench(tmp_path / "s")


async def test_first_look_is_at_once(bench: Bench) -> None:
    """Somebody has to notice that there is no file."""
    assert await bench.may_dial(failed=0)
    with pytest.raises(FileNotFoundError):
        bench.lookout.find()


async def test_without_a_file_nothing_is_dialled(bench: Bench) -> None:
    """However much time passes."""
    with pytest.raises(FileNotFoundError):
        bench.lookout.find()
    bench.now += 1000
    assert not await bench.may_dial()


async def test_a_new_file_is_dialled_at_once(bench: Bench) -> None:
    """Also one that replaces another."""
    with pytest.raises(FileNotFoundError):
        bench.lookout.find()
    bench.make()
    assert await bench.may_dial()
    assert bench.lookout.find() == str(bench.path)
    assert not await bench.may_dial()
    bench.make()
    assert bench.lookout.is_replaced
    assert await bench.may_dial()


async def test_a_file_that_goes_is_noticed(bench: Bench) -> None:
    """The next dial would fail for another reason, and that is worth knowing; once."""
    bench.make()
    bench.lookout.find()
    bench.path.unlink()
    assert not bench.lookout.is_replaced
    assert await bench.may_dial()
    with pytest.raises(FileNotFoundError):
        bench.lookout.find()
    assert not await bench.may_dial()


async def test_a_file_that_keeps_failing_is_dialled_less_and_less_often(bench: Bench) -> None:
    """Pauses are doubled up to a second."""
    bench.make()
    pauses = []
    for _ in range(8):
        bench.lookout.find()
        began = bench.now
        while not await bench.may_dial():
            bench.now += 0.01
        pauses.append(bench.now - began)
    assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0], abs=0.02)


async def test_a_connection_of_use_is_replaced_at_once(bench: Bench) -> None:
    """One that ended soon is not."""
    bench.make()
    bench.lookout.find()
    bench.lookout.connected()
    bench.now += 0.5
    bench.lookout.lost()
    bench.lookout.find()
    bench.lookout.connected()
    bench.lookout.lost()
    assert not await bench.may_dial(failed=0)
    bench.lookout.find()
    bench.lookout.connected()
    bench.now += 1.5
    bench.lookout.lost()
    assert await bench.may_dial(failed=0)


async def test_connecting_does_not_make_it_another_file(bench: Bench) -> None:
    """Else a dead socket would be dialled all the time."""
    bench.make()
    bench.lookout.find()
    with socket.socket(socket.AF_UNIX) as sock, pytest.raises(ConnectionRefusedError):
        sock.connect(str(bench.path))
    assert bench.lookout.current_socket() == bench.lookout.dialled
