"""Descriptors reach the other side complete, once, or not at all."""

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interpose.errors import SocketInUseError
from interpose.host.fd_passing import receive_descriptors, send_descriptors
from interpose.host.unix_sockets import bind_unix
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.process_cost import open_fds

Pair = tuple[socket.socket, socket.socket]

# Answers each connection with its name. Told to hand over, the first passes its descriptors to the second.
SERVER = """
import contextlib, select, socket, sys
from interpose.host.fd_passing import receive_descriptors, send_descriptors
from interpose.host.unix_sockets import adopt, bind_unix
role, path, fd = sys.argv[1:]
channel = socket.socket(fileno=int(fd))
if role == "old":
    bound = bind_unix(path)
else:
    payload, (sock_fd, lock_fd) = receive_descriptors(channel, timeout=30)
    bound = adopt(socket.socket(fileno=sock_fd), lock_fd, path)
    send_descriptors(channel, b"taken", [])
print("serving", flush=True)
while True:
    readable, _, _ = select.select([bound.sock, sys.stdin], [], [])
    if sys.stdin in readable:
        break
    try:
        client, _ = bound.sock.accept()
    except BlockingIOError:  # the other process was faster
        continue
    with client, contextlib.suppress(BrokenPipeError):  # a starter that asks who we are does not wait for an answer
        client.setblocking(True)
        client.sendall(role.encode())
if role == "old":
    send_descriptors(channel, b"here", bound.descriptors)
    assert receive_descriptors(channel, timeout=30) == (b"taken", [])
    bound.release()
else:
    bound.close()
"""


@pytest.fixture(params=["blocking", "non-blocking"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Two connected sockets, in both modes."""
    left, right = socket.socketpair()
    with left, right:
        left.setblocking(request.param == "blocking")
        right.setblocking(request.param == "blocking")
        yield left, right


def test_a_received_descriptor_is_the_same_file_and_is_not_inherited(pair: Pair) -> None:
    """The copy works after the sender closed its own, and a program we start does not get it."""
    left, right = pair
    reader, writer = os.pipe()
    send_descriptors(left, b"take this", [writer])
    os.close(writer)

    payload, fds = receive_descriptors(right)

    assert payload == b"take this"
    assert len(fds) == 1
    assert not os.get_inheritable(fds[0])
    os.write(fds[0], b"through")
    os.close(fds[0])
    assert os.read(reader, 100) == b"through"
    os.close(reader)


def test_several_descriptors_keep_their_order(pair: Pair) -> None:
    """The receiver can tell the socket from the lock by position."""
    left, right = pair
    mine = [os.open("/dev/null", os.O_RDONLY), os.open("/dev/zero", os.O_RDONLY)]
    send_descriptors(left, b"x", mine)

    _, fds = receive_descriptors(right, max_fds=2)

    assert [os.fstat(fd).st_rdev for fd in fds] == [os.fstat(fd).st_rdev for fd in mine]
    for fd in (*mine, *fds):
        os.close(fd)


def test_payload_larger_than_the_buffers_arrives_whole_with_descriptors_once(pair: Pair) -> None:
    """Short sends go on where they stopped, and the descriptors come with the first chunk only."""
    left, right = pair
    left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    payload = os.urandom(300_000)
    with open("/dev/null") as file:  # noqa: PTH123
        sender = threading.Thread(target=send_descriptors, args=(left, payload, [file.fileno()]))
        sender.start()
        chunk, fds = receive_descriptors(right)
        received = [chunk]
        late: list[int] = []
        while sum(map(len, received)) < len(payload):
            chunk, more = receive_descriptors(right)
            received.append(chunk)
            late += more
        sender.join()

    assert b"".join(received) == payload
    assert (len(fds), late) == (1, [])
    os.close(fds[0])


def test_payload_without_descriptors(pair: Pair) -> None:
    """An answer such as a refusal carries none."""
    left, right = pair
    send_descriptors(left, b"no", [])

    assert receive_descriptors(right) == (b"no", [])


def test_a_closed_peer_gives_an_empty_chunk(pair: Pair) -> None:
    """The end of the stream is told apart from a timeout."""
    left, right = pair
    left.close()

    assert receive_descriptors(right) == (b"", [])


def test_more_descriptors_than_expected_are_refused_and_none_leaks(pair: Pair) -> None:
    """A truncated message closes what did arrive and says what happened."""
    left, right = pair
    before = open_fds()
    send_descriptors(left, b"x", [left.fileno()] * 3)

    with pytest.raises(OSError, match="more than 1 were sent"):
        receive_descriptors(right, max_fds=1)

    assert open_fds() == before


def test_silence_times_out(pair: Pair) -> None:
    """A peer that never answers does not block us for ever."""
    with pytest.raises(TimeoutError, match="nothing was received"):
        receive_descriptors(pair[1], timeout=0.01)


def test_a_peer_that_does_not_read_times_out(pair: Pair) -> None:
    """Nor does one that never reads."""
    with pytest.raises(TimeoutError, match="does not read"):
        send_descriptors(pair[0], bytes(10_000_000), [], timeout=0.01)


def test_a_lost_peer_is_a_broken_pipe(pair: Pair) -> None:
    """Sending to a closed peer is an error, not a signal."""
    pair[1].close()
    with pytest.raises(BrokenPipeError):
        send_descriptors(pair[0], b"x", [])


def test_descriptors_need_payload(pair: Pair) -> None:
    """A stream socket drops descriptors without a byte; that is a mistake of the caller."""
    with pytest.raises(ValueError, match="at least one byte"):
        send_descriptors(pair[0], b"", [0])


def say(child: subprocess.Popen[str], text: str) -> None:
    """Send a child one line."""
    assert child.stdin is not None
    child.stdin.write(text + "\n")
    child.stdin.flush()


def hear(child: subprocess.Popen[str]) -> str:
    """The next line a child says."""
    assert child.stdout is not None
    return child.stdout.readline().strip()


def ask(path: str) -> str:
    """Connect and read until the server closes."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(WAIT_LIMIT)
        client.connect(path)
        answer = b""
        while chunk := client.recv(100):
            answer += chunk
        return answer.decode()


def test_take_over_refuses_no_connection(tmp_path: Path, spawn: Callable[..., subprocess.Popen[str]]) -> None:
    """A client that connects without pause gets every answer, first from the old process, then from the new one."""
    path = str(tmp_path / "cri.sock")
    left, right = socket.socketpair()
    with left, right:
        old = spawn(SERVER, "old", path, str(left.fileno()), pass_fds=[left.fileno()])
        new = spawn(SERVER, "new", path, str(right.fileno()), pass_fds=[right.fileno()])
    assert hear(old) == "serving"
    answers: list[str] = []
    failures: list[OSError] = []
    some, stop = threading.Event(), threading.Event()

    def connect() -> None:
        while not stop.is_set() and not failures:
            try:
                answers.append(ask(path))
            except OSError as error:
                failures.append(error)
            some.set()

    client = threading.Thread(target=connect)
    client.start()
    assert some.wait(WAIT_LIMIT)
    say(old, "hand over")
    assert hear(new) == "serving"
    # listen() was called again: whoever asks is told the new PID, even before the old process ends.
    with pytest.raises(SocketInUseError) as caught:
        bind_unix(path)
    assert caught.value.pid == new.pid
    assert old.wait(WAIT_LIMIT) == 0
    some.clear()
    assert some.wait(WAIT_LIMIT)
    stop.set()
    client.join()

    assert failures == []
    assert answers[0] == "old"
    assert answers[-1] == "new"
    assert set(answers) == {"old", "new"}
    say(new, "stop")
    assert new.wait(WAIT_LIMIT) == 0
    assert not Path(path).exists()
