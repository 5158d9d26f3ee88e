"""Asking a daemon over its admin socket, and what is said when that fails."""

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from interpose.cli.common.admin_client import RefusedError, ask, ask_optional, fetch_json
from interpose.errors import ConfigError
from interpose.net.httpd.routes import (
    RouteTable,
    ServerRequest,
    ServerResponse,
    error_response,
    json_response,
    text_response,
)

Serve = Callable[[RouteTable], str]


async def _echo(request: ServerRequest) -> ServerResponse:
    return json_response({"body": request.json() if request.body else None})


async def _refuse(request: ServerRequest) -> ServerResponse:
    return error_response(400, "no such level")


async def _text(request: ServerRequest) -> ServerResponse:
    return text_response("hello")


async def _empty(request: ServerRequest) -> ServerResponse:
    return ServerResponse(status=204)


ROUTES: RouteTable = {
    ("GET", "/echo"): _echo,
    ("PUT", "/echo"): _echo,
    ("GET", "/refuse"): _refuse,
    ("GET", "/text"): _text,
    ("GET", "/empty"): _empty,
}


def test_requests_and_answers_are_json(serve: Serve) -> None:
    """A body goes out as JSON, the answer comes back as values."""
    address = serve(ROUTES)
    assert ask(address, "GET", "/echo") == {"body": None}
    assert ask(f"unix://{address}", "PUT", "/echo", {"level": "debug"}) == {"body": {"level": "debug"}}


def test_an_empty_answer_is_an_empty_object(serve: Serve) -> None:
    """Success without a body is success."""
    assert ask(serve(ROUTES), "GET", "/empty") == {}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/refuse", "refused /refuse: no such level (400)"),
        ("/x", "there is nothing at /x (404)"),
        ("/text", "not JSON"),
    ],
)
def test_refusals_carry_the_reason_of_the_daemon(serve: Serve, path: str, message: str) -> None:
    """The words of the daemon reach the person who asked."""
    with pytest.raises(click.ClickException) as caught:
        ask(serve(ROUTES), "GET", path)
    assert message in caught.value.message


def test_without_a_daemon_the_message_names_the_address_and_what_to_check(tmp_path: Path) -> None:
    """No socket, a dead socket and a switched-off one are told apart from a refusal."""
    missing = str(tmp_path / "none.sock")
    with pytest.raises(click.ClickException, match="is the relay running") as caught:
        ask(missing, "GET", "/echo")
    assert missing in caught.value.message
    with pytest.raises(click.ClickException, match="without an admin socket"):
        ask("none", "GET", "/echo")
    with pytest.raises(ConfigError, match="--admin"):
        ask("0.0.0.0:1", "GET", "/echo")


def test_something_that_is_not_http_is_recognised(tmp_path: Path) -> None:
    """A mixed-up socket gets a hint instead of a traceback."""
    path = str(tmp_path / "other.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"\x00\x00\x12\x04 this is HTTP/2\n\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(click.ClickException, match="is it the admin socket"):
            ask(path, "GET", "/echo")
        thread.join()


def test_what_is_not_there_may_be_none(serve: Serve) -> None:
    """For commands that can go on without; any other refusal is one, and carries its answer."""
    address = serve(ROUTES)
    assert ask_optional(address, "/echo") == {"body": None}
    assert ask_optional(address, "/x") is None
    with pytest.raises(RefusedError) as caught:
        ask_optional(address, "/refuse")
    assert (caught.value.status, caught.value.answer) == (400, {"error": "no such level"})


def test_a_program_that_goes_on_without_looks_things_up(serve: Serve, tmp_path: Path) -> None:
    """What is not there is None; nobody there is the system's error, anything else no answer."""
    address = serve(ROUTES)
    assert fetch_json(address, "/echo") == {"body": None}
    assert fetch_json(address, "/x") is None
    with pytest.raises(ValueError, match="/refuse with status 400"):
        fetch_json(address, "/refuse")
    with pytest.raises(ValueError, match="Expecting value"):
        fetch_json(address, "/text")
    with pytest.raises(FileNotFoundError):
        fetch_json(str(tmp_path / "none.sock"), "/echo")
