"""What people are told about a hook server."""

import logging
import socket
from pathlib import Path

import pytest

from interpose.hooks.dispatch.breaker import Breaker, BreakerState
from interpose.hooks.dispatch.connection import ConnectionState, DialPolicy


class Bench:
    """A condition with everything around it but a connection."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 100.0
        self.breaker = Breaker()
        self.lookout = DialPolicy(str(path), lambda: self.now)
        self.condition = ConnectionState("batch", breaker=self.breaker, dial_policy=self.lookout, now=lambda: self.now)

    def make(self) -> None:
        """A new socket file."""
        self.path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(self.path))

    def connect(self) -> None:
        """A dial that goes well."""
        self.lookout.find()
        self.condition.connected(str(self.path), 1)

    def open_breaker(self) -> None:
        """Three failures."""
        for _ in range(3):
            ticket = self.breaker.enter(self.now)
            assert ticket is not None
            self.breaker.record_failure(ticket, self.now)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A hook server that was never dialled, with a socket."""
    bench = Bench(tmp_path / "s")
    bench.make()
    return bench


def test_states_and_their_age(bench: Bench) -> None:
    """Idle, unreachable, connected, broken; the age is that of the state."""
    condition = bench.condition
    bench.now += 5
    assert (condition.state(False), condition.state_seconds(False)) == ("idle", 5)
    condition.unreachable("/s", "Connection refused")
    bench.now += 2
    assert (condition.state(False), condition.state_seconds(False)) == ("unreachable", 2)
    bench.connect()
    bench.now += 3
    assert (condition.state(True), condition.state_seconds(True)) == ("connected", 3)
    bench.open_breaker()
    assert (condition.state(True), condition.state_seconds(True)) == ("broken", 0)
    condition.lost("/s", None)
    assert condition.state(False) == "unreachable"


def test_last_error_and_its_age(bench: Bench) -> None:
    """Of dials, connections and calls alike."""
    condition = bench.condition
    assert (condition.last_error, condition.last_error_age) == ("", None)
    condition.unreachable("/s", "Connection refused")
    assert (condition.problem, condition.last_error) == ("Connection refused", "Connection refused")
    bench.connect()
    condition.note_error("ABORTED: no")
    bench.now += 1
    assert (condition.last_error, condition.last_error_age) == ("ABORTED: no", 1)
    condition.lost("/s", "too many frames")
    assert condition.last_error == condition.problem == "it broke the protocol: too many frames"
    condition.lost("/s", None)
    assert condition.problem == "it closed the connection"


@pytest.mark.parametrize(
    ("between", "state"),
    [("nothing", BreakerState.OPEN), ("another socket", BreakerState.CLOSED), ("a dial in vain", BreakerState.CLOSED)],
)
def test_who_came_back_is_tried_at_once(bench: Bench, between: str, state: BreakerState) -> None:
    """A connection that ends and is made again to the same listener is no reason for hope."""
    bench.connect()
    bench.open_breaker()
    bench.condition.lost("/s", None)
    if between == "another socket":
        bench.make()
    elif between == "a dial in vain":
        bench.condition.unreachable("/s", "Connection refused")
    bench.connect()
    assert bench.breaker.state is state


def test_one_that_comes_and_goes_does_not_fill_the_log(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """A line for each kind of event in ten seconds, naming the plugin."""
    caplog.set_level(logging.INFO)
    for _ in range(100):
        bench.connect()
        bench.condition.connected("/s", 2)
        bench.condition.lost("/s", None)
        bench.now += 0.05
    bench.condition.lost("/s", "bad frame")
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert lines == [
        ("INFO", "Connected to hook server"),
        ("INFO", "Hook server connection ended"),
        ("WARNING", "Hook server connection ended"),
    ]
    assert {record.kv["plugin"] for record in caplog.records} == {"batch"}  # type: ignore[attr-defined]
