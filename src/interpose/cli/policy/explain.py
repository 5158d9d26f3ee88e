"""`interpose explain`: why a container has the CPUs it has, or what all of them have."""

import json
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import click

from interpose.cli.common.admin_client import RefusedError, admin_option, ask, ask_optional
from interpose.cli.render.assignments import NOT_LISTED, assignments_text
from interpose.cli.render.explain import explain_text
from interpose.cli.render.text import group, groups, or_dash, words


@click.command("explain")
@click.argument("container", required=False)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@admin_option
def explain(container: str | None, output: str, admin: str) -> None:
    """Show why a container has the CPUs it has; without CONTAINER, what all of them have.

    CONTAINER is the beginning of an id, or NAMESPACE/POD/CONTAINER, or as much of its end as is needed. It may be one
    that was refused lately. With the name or the id of a pod, what its containers have.
    """
    if container is not None and not container.strip("/ "):
        raise click.BadParameter("is empty; leave it out to see all containers", param_hint="CONTAINER")
    answer = _all(admin) if container is None else _one(admin, container)
    of_pod = group(answer).get("containers")
    if output == "json":
        click.echo(json.dumps(answer, indent=2))
    elif container is None or of_pod is not None:
        click.echo(assignments_text(groups(answer if container is None else of_pod)))
    else:
        click.echo(explain_text(answer))


def _all(admin: str) -> list[Any]:
    answer = ask_optional(admin, "/v1/policy")
    if answer is None:
        raise _no_policy(admin)
    found = groups(group(answer).get("assignments"))
    if group(answer).get("ready") is False:
        if not found:
            raise click.ClickException(NOT_LISTED)
        click.echo(f"warning: {NOT_LISTED}; this is what was remembered", err=True)
    return found


def _one(admin: str, container: str) -> Any:
    try:
        # The slashes of a name are those of the path.
        return ask(admin, "GET", f"/v1/policy/containers/{quote(container, safe='/')}")
    except RefusedError as refused:
        if refused.status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise click.ClickException(or_dash(group(refused.answer).get("error"))) from None
        if refused.status != HTTPStatus.NOT_FOUND:
            raise
        answer = group(refused.answer)
        if "matches" not in answer:
            raise _no_policy(admin) from None
        lines = [or_dash(answer.get("error")), *(f"  {match}" for match in words(answer["matches"]))]
        raise click.ClickException("\n".join(lines)) from None


def _no_policy(admin: str) -> click.ClickException:
    return click.ClickException(f"the relay at {admin} has no policy, so no container was assigned anything")
