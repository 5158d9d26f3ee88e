"""`interpose topology` shows this machine or another."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interpose.cli.main import cli
from interpose.cli.render.pool_tree import owners_of_pools, pools_text
from interpose.cli.render.topology_picture import picture
from interpose.cli.render.topology_svg import svg_text
from interpose.cli.render.topology_tree import tree_text
from interpose.core.topology.document import topology_document
from interpose.net.httpd.routes import RouteTable, ServerRequest, ServerResponse, json_response
from tests.support.policy.machines import machine

TEXT = "2p1d2n2c2t"
POOLS = {
    "policy": "balloons",
    "pool_details": [{"name": "team[0]", "cpus": "2-3", "containers": ["a/b/c"]}, {"name": "idle", "cpus": "0-1,4-15"}],
    "assignments": [{"container": "a/b/c", "cpus": "2-3"}],
}


def run(*arguments: object) -> Result:
    """The command."""
    return CliRunner().invoke(cli, ["topology", *map(str, arguments)])


def test_a_machine_in_words_is_shown_as_tree_and_picture() -> None:
    """Or as one of the two; plain where there is no terminal."""
    topology = machine(TEXT)
    tree, drawn = tree_text(topology), picture(topology, 100)
    assert run("--from", TEXT, "-o", "tree").output == tree + "\n"
    assert run("--from", TEXT, "-o", "picture").output == drawn + "\n"
    both = run("--from", TEXT)
    assert (both.exit_code, both.output) == (0, f"{tree}\n\n{picture(topology, 100, titled=False)}\n")


def test_without_a_source_it_is_this_machine() -> None:
    """It has a name and CPUs."""
    document = json.loads(run("-o", "json").output)
    assert document["kind"] == "Topology"
    assert document["name"]
    assert document["cpus"]


def test_what_json_prints_is_a_source(tmp_path: Path) -> None:
    """So that a machine can be sent by mail."""
    path = tmp_path / "m.json"
    path.write_text(run("--from", TEXT, "-o", "json").output)
    assert run("--from", path).output == run("--from", TEXT).output


def test_a_drawing_is_written_to_a_file(tmp_path: Path) -> None:
    """Or to standard output."""
    path = tmp_path / "m.svg"
    assert run("--from", TEXT, "--svg", path).output == f"Drawing is in {path}\n"
    assert path.read_text() == svg_text(machine(TEXT)) == run("--from", TEXT, "--svg", "-").output


def test_a_drawing_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """That names the file."""
    result = run("--from", TEXT, "--svg", tmp_path / "no/m.svg")
    assert result.exit_code == 1
    assert "no/m.svg: cannot be written" in result.stderr


def test_a_source_that_is_none_is_an_error() -> None:
    """That names it."""
    result = run("--from", "two machines")
    assert result.exit_code == 78
    assert "two machines" in result.stderr


def test_assignments_come_from_the_relay(serve: Callable[[RouteTable], str]) -> None:
    """As does the machine they are about."""

    async def policy(request: ServerRequest) -> ServerResponse:
        return json_response({"assignments": [{"container": "a/b/c", "exclusive": "2-3", "cpus": "2-3"}]})

    async def of_relay(request: ServerRequest) -> ServerResponse:
        return json_response(topology_document(machine("n4c16")))

    address = serve({("GET", "/v1/policy"): policy, ("GET", "/v1/topology"): of_relay})
    shown = run("--show-assignments", "--admin", address, "-o", "picture").output
    assert shown.startswith("n4c16: ")
    assert shown.endswith("A a/b/c: 2-3\n")
    assert run("--show-assignments", "--admin", address, "-o", "json", "--svg", "-").output.startswith("<svg")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [(("--from", TEXT), "drop --from"), (("-o", "tree"), "-o tree has none"), (("-o", "json"), "-o json has none")],
)
def test_assignments_are_refused_where_they_would_mean_nothing(arguments: tuple[str, ...], why: str) -> None:
    """On another machine, and where nothing shows them. The relay is not even asked."""
    result = run("--show-assignments", *arguments, "--admin", "/nowhere")
    assert result.exit_code == 2
    assert why in result.stderr


@pytest.fixture
def with_pools(serve: Callable[[RouteTable], str]) -> str:
    """The address of a relay with two pools on a machine."""

    async def policy(request: ServerRequest) -> ServerResponse:
        return json_response({**POOLS, "refused": []})

    async def of_relay(request: ServerRequest) -> ServerResponse:
        return json_response(topology_document(machine("n4c16")))

    return serve({("GET", "/v1/policy"): policy, ("GET", "/v1/topology"): of_relay})


def test_pools_come_from_the_relay(with_pools: str) -> None:
    """Instead of the parts of the machine in the tree, as letters in the picture, as colours in the drawing."""
    owners = owners_of_pools(POOLS)
    tree, drawn = pools_text(POOLS), picture(machine("n4c16"), 100, owners=owners, titled=False)
    assert run("--show-pools", "--admin", with_pools).output == f"{tree}\n\n{drawn}\n"
    assert run("--show-pools", "--admin", with_pools, "-o", "tree").output == f"{tree}\n"
    assert drawn.endswith("A team[0]: 2-3\nB idle: 0-1,4-15")
    svg = run("--show-pools", "--admin", with_pools, "-o", "json", "--svg", "-").output
    assert svg == svg_text(machine("n4c16"), owners)


def test_pools_as_json(with_pools: str) -> None:
    """With who is in them, and nothing else that the relay tells of its policy."""
    assert json.loads(run("--show-pools", "--admin", with_pools, "-o", "json").output) == POOLS


@pytest.mark.parametrize(
    ("arguments", "why"), [(("--from", TEXT), "drop --from"), (("--show-assignments",), "use one of them")]
)
def test_pools_are_refused_where_they_would_mean_nothing(arguments: tuple[str, ...], why: str) -> None:
    """On another machine, and where CPUs are marked already. The relay is not even asked."""
    result = run("--show-pools", *arguments, "--admin", "/nowhere")
    assert result.exit_code == 2
    assert why in result.stderr


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_terminals_get_colours_unless_they_want_none(
    monkeypatch: pytest.MonkeyPatch, no_color: str, coloured: bool
) -> None:
    """And as many columns as there are."""
    monkeypatch.setenv("COLUMNS", "44")
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr("interpose.cli.policy.topology._on_terminal", lambda: True)
    result = CliRunner().invoke(
        cli, ["topology", "--from", "1 socket x 4 cores; isolated 1", "-o", "picture"], color=True
    )
    assert ("\x1b[33m" in result.output) is coloured
    assert result.output.splitlines()[1] == "NUMA node, 4 cores, 4 CPUs, 4 GiB"


def test_the_machine_has_the_flag_of_other_commands_too() -> None:
    """What is --topology for simulate and replay is understood here."""
    assert run("--topology", "2p1d2n4c2t").output == run("--from", "2p1d2n4c2t").output
