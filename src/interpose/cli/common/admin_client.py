"""Asks a running daemon on its admin socket, for the commands that show or change something.

`http.client` and not `net.http`: commands are synchronous, and one that asks a single question need not load asyncio.
Every failure is a click error that says which address was asked and what to do.
"""

import http.client
import json
import socket
from typing import Any, NoReturn

import click

from interpose.config.endpoint import TcpListen, UnixListen, parse_listen
from interpose.config.relay.settings import AdminSettings

# The daemon answers from memory; more than this means it hangs.
TIMEOUT = 5.0
# A status with thousands of calls stays below this; a wrong address could send anything.
MAX_ANSWER = 64 << 20

admin_option = click.option(
    "--admin",
    metavar="ADDRESS",
    envvar="INTERPOSE_ADMIN_LISTEN",
    default=AdminSettings().listen,
    show_default=True,
    show_envvar=True,
    help="Admin socket of the relay: a path or a loopback address.",
)


class RefusedError(click.ClickException):
    """The daemon answered with an error status; `answer` is its JSON."""

    def __init__(self, message: str, status: int, answer: Any) -> None:
        super().__init__(message)
        self.status = status
        self.answer = answer


class AdminConnection(http.client.HTTPConnection):
    """HTTP over the socket of an admin address."""

    def __init__(self, address: UnixListen | TcpListen) -> None:
        super().__init__("localhost", timeout=TIMEOUT)
        self._address = address

    def connect(self) -> None:
        """Open the socket, a unix socket or TCP, with `TIMEOUT` seconds for each step."""
        if isinstance(self._address, TcpListen):
            self.sock = socket.create_connection((self._address.host, self._address.port), TIMEOUT)
            return
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect(self._address.path)


def ask(address: str, method: str, path: str, body: object = None, *, who: str = "relay") -> Any:
    """Send one request and return the JSON answer; anything else is a message and exit code 1."""
    if address == "none":
        raise click.ClickException(f"--admin is none: the {who} runs without an admin socket")
    connection = AdminConnection(parse_listen(address, "--admin"))
    payload = None if body is None else json.dumps(body)
    try:
        connection.request(method, path, payload, {"content-type": "application/json"} if payload else {})
        response = connection.getresponse()
        data = response.read(MAX_ANSWER)
    except OSError as error:
        raise_unreachable(address, error, who)
    except http.client.HTTPException as error:
        raise click.ClickException(f"{address} does not speak HTTP ({error!r}): is it the admin socket?") from None
    finally:
        connection.close()
    return _decode(address, path, response.status, data)


def fetch_json(address: str, path: str) -> Any:
    """The JSON answer to a GET, for a program that goes on without one; None if this daemon has no such path.

    OSError if it cannot be reached, ValueError if what it says is no answer.
    """
    connection = AdminConnection(parse_listen(address, "admin socket"))
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        data = response.read(MAX_ANSWER)
    except http.client.HTTPException as error:
        raise ValueError(f"{address} does not speak HTTP ({error!r})") from None
    finally:
        connection.close()
    if response.status == http.client.NOT_FOUND:
        return None
    if response.status != http.client.OK:
        raise ValueError(f"{address} answered {path} with status {response.status}")
    return json.loads(data)


def ask_optional(address: str, path: str) -> Any:
    """The answer to a GET; None if this daemon has no such path."""
    try:
        return ask(address, "GET", path)
    except RefusedError as refused:
        if refused.status == http.client.NOT_FOUND:
            return None
        raise


def _decode(address: str, path: str, status: int, data: bytes) -> Any:
    try:
        answer = json.loads(data) if data.strip() else {}
    except ValueError:
        raise click.ClickException(f"{address} answered {path} with something that is not JSON ({status})") from None
    if status >= http.client.BAD_REQUEST:
        reason = answer.get("error", "no reason given") if isinstance(answer, dict) else "no reason given"
        raise RefusedError(f"{address} refused {path}: {reason} ({status})", status, answer)
    return answer


def raise_unreachable(address: str, error: OSError, who: str = "relay") -> NoReturn:
    """Raise the click error for a daemon that cannot be reached: why, and what may help."""
    reason = error.strerror or str(error) or type(error).__name__
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        hint = f"is the {who} running, and with this --admin-listen?"
    elif isinstance(error, PermissionError):
        hint = f"the socket is open to the {who}'s own user and root only"
    else:
        hint = f"the {who} did not answer properly"
    raise click.ClickException(f"cannot connect to {address}: {reason} ({hint})") from None
