"""`interpose log-level` changes the level of a running daemon."""

from collections.abc import Callable

from click.testing import CliRunner

from interpose.cli.main import cli
from interpose.net.httpd.routes import RouteTable, ServerRequest, ServerResponse, json_response


def test_the_level_is_put_to_the_daemon(serve: Callable[[RouteTable], str]) -> None:
    """The chosen level arrives as JSON, and the person is told."""
    bodies: list[object] = []

    async def put(request: ServerRequest) -> ServerResponse:
        bodies.append(request.json())
        return json_response({})

    address = serve({("PUT", "/v1/log-level"): put})
    result = CliRunner().invoke(cli, ["log-level", "debug", "--admin", address])
    assert (result.exit_code, result.output) == (0, "Log level is debug now\n")
    assert bodies == [{"level": "debug"}]


def test_unknown_levels_are_refused_before_anyone_is_asked() -> None:
    """A wrong word is a usage error that lists the right ones."""
    result = CliRunner().invoke(cli, ["log-level", "loud", "--admin", "/nonexistent"])
    assert result.exit_code == 2
    assert "debug" in result.stderr
