"""The options that all commands about pods share."""

import click
import pytest
from click.testing import CliRunner

from interpose.cli.pod.options import ConnectionOptions, connection_options, pop_connection_options


@click.command()
@connection_options
@click.pass_context
def shown(ctx: click.Context, /, **parameters: object) -> None:
    """Show what was understood."""
    ctx.obj.append(pop_connection_options(parameters))


def reached(*arguments: str, **env: str) -> ConnectionOptions:
    """What a command line means."""
    found: list[ConnectionOptions] = []
    result = CliRunner().invoke(shown, arguments, obj=found, env=env)
    if result.exit_code:
        raise click.UsageError(result.output)
    return found[0]


@pytest.mark.parametrize("flag", ["-r", "--runtime-endpoint", "--container-runtime-endpoint"])
def test_the_runtime_has_the_names_of_the_kubelet_and_crictl(flag: str) -> None:
    """All mean the same."""
    assert reached(flag, "/x.sock").endpoint == "/x.sock"


def test_the_environment_counts_where_no_flag_is() -> None:
    """Ours before crictl's."""
    both = {"INTERPOSE_POD_RUNTIME_ENDPOINT": "/a", "CONTAINER_RUNTIME_ENDPOINT": "/b"}
    assert reached(**both).endpoint == "/a"
    assert reached(CONTAINER_RUNTIME_ENDPOINT="/b").endpoint == "/b"
    assert reached("-r", "/c", **both).endpoint == "/c"
    assert reached(INTERPOSE_POD_ROOT="/r").root == "/r"


def test_local_and_a_socket_exclude_each_other() -> None:
    """A socket of the environment is put aside, one of the command line is a contradiction."""
    assert reached("--local", CONTAINER_RUNTIME_ENDPOINT="/b").local
    with pytest.raises(click.UsageError, match="exclude each other"):
        reached("--local", "-r", "/x.sock")
