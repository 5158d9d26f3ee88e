"""`interpose status` is pleasant to read and faithful as JSON."""

import json
from collections.abc import Callable

from click.testing import CliRunner

from interpose.cli.main import cli
from interpose.cli.status import status_text
from interpose.net.httpd.routes import RouteTable, ServerRequest, ServerResponse, json_response

ANSWER = {
    "version": "0.1.0",
    "uptime_seconds": 12.5,
    "backend": {"endpoint": "/run/c.sock", "connected": True, "last_error": None},
    "clients": [{"pid": 42, "streams": 3}, {"pid": 7, "streams": 0, "note": "x\x1b[31m"}],
    "hooks": [],
    "sockets": ["/run/a", "/run/b"],
}


async def _status(request: ServerRequest) -> ServerResponse:
    return json_response(ANSWER)


def test_the_text_aligns_values_groups_and_tables() -> None:
    """Plain values come first, groups are indented, lists of groups are tables, escapes are harmless."""
    assert status_text(ANSWER).splitlines() == [
        "version         0.1.0",
        "uptime seconds  12.5",
        "backend:",
        "  endpoint    /run/c.sock",
        "  connected   yes",
        "  last error  -",
        "clients:",
        "  PID  STREAMS  NOTE",
        "  42   3        -",
        "  7    0        x?[31m",
        "hooks: none",
        "sockets:",
        "  - /run/a",
        "  - /run/b",
    ]


def test_empty_groups_in_a_table_are_nothing() -> None:
    """As any other cell without a value."""
    assert status_text({"pods": [{"name": "a", "waiting": {}}]}) == "pods:\n  NAME  WAITING\n  a     -"


def test_strange_answers_are_still_shown() -> None:
    """A daemon of another version may answer anything."""
    assert status_text("fine") == "fine"
    assert status_text({"a": [1, {"b": 2}]}) == 'a:\n  - 1\n  - {"b": 2}'


def test_the_command_asks_the_daemon(serve: Callable[[RouteTable], str]) -> None:
    """The address comes from --admin or from the environment the daemon uses itself."""
    address = serve({("GET", "/v1/status"): _status})
    text = CliRunner().invoke(cli, ["status", "--admin", address])
    assert (text.exit_code, text.output) == (0, status_text(ANSWER) + "\n")
    as_json = CliRunner().invoke(cli, ["status", "--json"], env={"INTERPOSE_ADMIN_LISTEN": address})
    assert json.loads(as_json.output) == ANSWER


def test_without_a_daemon_the_code_is_1() -> None:
    """A script can rely on the exit code."""
    result = CliRunner().invoke(cli, ["status", "--admin", "/nonexistent/admin.sock"])
    assert result.exit_code == 1
    assert "/nonexistent/admin.sock" in result.stderr


def test_the_policy_has_a_block_of_its_own(serve: Callable[[RouteTable], str]) -> None:
    """In place of the short one; as JSON it is the answer and nothing else."""

    async def status(request: ServerRequest) -> ServerResponse:
        return json_response({"version": "1", "policy": {"name": "static"}})

    async def policy(request: ServerRequest) -> ServerResponse:
        return json_response({"policy": "static", "containers": 2, "exclusive": 1})

    address = serve({("GET", "/v1/status"): status, ("GET", "/v1/policy"): policy})
    assert CliRunner().invoke(cli, ["status", "--admin", address]).output.splitlines() == [
        "version  1",
        "policy: static",
        "  set by      -",
        "  containers  2, 1 with CPUs of their own",
    ]
    as_json = CliRunner().invoke(cli, ["status", "--json", "--admin", address])
    assert json.loads(as_json.output)["policy"] == {"name": "static"}
