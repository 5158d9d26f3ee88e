"""`interpose agent status` asks the admin socket of an agent."""

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner

from interpose.cli.main import cli
from interpose.net.httpd.routes import RouteTable, ServerRequest, ServerResponse, json_response


async def answer(_request: ServerRequest) -> ServerResponse:
    """What an agent says."""
    return json_response({"node": "n1", "group": "", "reports": {"kinds": ["event"]}})


def test_the_answer_is_a_page_or_json(serve: Callable[[RouteTable], str]) -> None:
    """For people and for programs."""
    where = serve({("GET", "/v1/status"): answer})
    page = CliRunner().invoke(cli, ["agent", "status", "--admin", where])
    assert page.exit_code == 0
    assert page.output.startswith("Node ")
    document = CliRunner().invoke(cli, ["agent", "status", "-o", "json", "--admin", where])
    assert json.loads(document.output)["node"] == "n1"


def test_an_agent_that_is_not_there(tmp_path: Path) -> None:
    """The message is about the agent, not about a relay."""
    result = CliRunner().invoke(cli, ["agent", "status", "--admin", str(tmp_path / "x.sock")])
    assert result.exit_code == 1
    assert "is the agent running" in result.output
