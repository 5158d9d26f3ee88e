"""`interpose agent status`: what a running agent knows and does, for people or (-o json) for programs."""

import json

import click

from interpose.cli.common.admin_client import ask
from interpose.cli.render.agent_status import agent_status_text
from interpose.config.agent.settings import AgentSettings


@click.command("status")
@click.option(
    "-o",
    "--output",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Form of the answer.",
)
@click.option(
    "--admin",
    metavar="ADDRESS",
    envvar="INTERPOSE_AGENT_ADMIN_LISTEN",
    default=AgentSettings().admin.listen,
    show_default=True,
    show_envvar=True,
    help="Admin socket of the agent: a path or a loopback address.",
)
def status(output: str, admin: str) -> None:
    """Show what a running agent knows and does: which ConfigMap counts, whether the relay has it, what is wrong."""
    answer = ask(admin, "GET", "/v1/status", who="agent")
    click.echo(json.dumps(answer, indent=2) if output == "json" else agent_status_text(answer))
