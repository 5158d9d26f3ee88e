"""`interpose simulate`: what a policy would give to pods on some machine. Needs no node, no relay and no root."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from interpose.cli.policy.flags import machine_option, policy_details
from interpose.cli.policy.make import chosen_policy
from interpose.cli.policy.topology import machine_of, write_drawing
from interpose.cli.render.assignments import simulation_text
from interpose.cli.render.machine import owners_of, summary
from interpose.cli.render.topology_svg import svg_text
from interpose.config.documents.pods import read_manifest_file, read_manifests, repeated
from interpose.core.policy.api import Policy
from interpose.core.policy.names import NAMES
from interpose.core.policy.simulate import (
    PlannedPod,
    SimulationStep,
    list_holdings,
    removal_steps,
    simulate,
    start_steps,
)
from interpose.core.topology.topology import Topology
from interpose.errors import ConfigError


@click.command("simulate")
@machine_option
@click.option("--policy", type=click.Choice(list(NAMES)), help="The policy. [default: what --policy-config says]")
@policy_details
@click.option(
    "-f",
    "--filename",
    "files",
    metavar="FILE",
    multiple=True,
    required=True,
    help="Pods, as YAML; - is standard input.",
)
@click.option(
    "--remove", "removed", metavar="NAMESPACE/POD", multiple=True, help="Remove this pod when all have started."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--svg",
    metavar="FILE",
    help="Write a drawing of the machine to this file, too: who has which CPUs in the end. - is standard output.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show what else could have been chosen, and who was changed.")
@click.option("--allow-refusals", is_flag=True, help="End with 0 also if a container was refused.")
def simulate_command(
    policy: str | None,
    topology: str | None,
    files: Sequence[str],
    removed: Sequence[str],
    output: str,
    svg: str | None,
    verbose: bool,
    allow_refusals: bool,
    **details: Any,
) -> int:
    """Show what a policy would give to pods on some machine.

    Pods start in the order in which they are given, each container when those before it have started or, if they are
    init containers, have ended. Ends with 1 if a container was refused.
    """
    pods = _pods(files)
    leaving = [_named(pods, title) for title in removed]
    machine = machine_of(topology)
    chosen = chosen_policy(machine, policy, **details)
    outcome = _outcome(machine, chosen, pods, leaving)
    if svg != "-":
        click.echo(json.dumps(outcome, indent=2) if output == "json" else simulation_text(outcome, verbose=verbose))
    if svg is not None:
        titled = replace(machine, name=f"Policy {chosen.name} on {machine.name or 'some machine'}")
        write_drawing(svg, svg_text(titled, owners_of(outcome["assignments"])), told=output == "text")
    refused = any(record["refusal"] for record in outcome["records"])
    return 1 if refused and not allow_refusals else 0


def _pods(files: Sequence[str]) -> list[PlannedPod]:
    pods: list[PlannedPod] = []
    problems: list[str] = []
    for path in files:
        try:
            pods += read_manifests(sys.stdin.read(), "standard input") if path == "-" else read_manifest_file(path)
        except ConfigError as error:
            problems += error.problems
    problems += [f"pod {title} is given twice" for title in repeated(pods)]
    if problems:
        raise ConfigError(problems)
    return pods


def _named(pods: Sequence[PlannedPod], title: str) -> PlannedPod:
    found = [pod for pod in pods if pod.title == title]
    if not found:
        known = ", ".join(pod.title for pod in pods)
        raise ConfigError(f"flag --remove: {title!r} is none of the pods, which are {known}")
    return found[0]


def _outcome(
    machine: Topology, policy: Policy, pods: Sequence[PlannedPod], leaving: Sequence[PlannedPod]
) -> dict[str, Any]:
    steps: list[SimulationStep] = [step for pod in pods for step in start_steps(pod)]
    steps += [step for pod in leaving for step in removal_steps(pod)]
    records = simulate(policy, steps)
    requests = [member.request for pod in pods for member in pod.members]
    return {
        "policy": policy.name,
        "machine": f"{machine.name}: {summary(machine)}" if machine.name else summary(machine),
        "records": records,
        "assignments": list_holdings(policy, requests),
        "pools": {name: str(cpus) for name, cpus in policy.pools().items()},
    }
