"""`interpose simulate`: what a policy would give to pods on some machine. Needs no node, no relay and no root."""

import json
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from interpose.cli.topology import machine_of
from interpose.config.constraints import CpuAmount
from interpose.config.document import MAX_FILE_BYTES, parse_document, read_text
from interpose.config.manifests import read_manifest_file, read_manifests, repeated
from interpose.config.policy_document import PolicyDocument, read_policy_document
from interpose.config.settings import PolicySettings
from interpose.errors import ConfigError
from interpose.host.cpusets import resolve
from interpose.model.cpuset import CpuSet
from interpose.policy.names import NAMES
from interpose.policy.policy import Policy, Setup
from interpose.policy.registry import make
from interpose.policy.simulation import PlannedPod, Step, holdings, removing, simulate, starting
from interpose.policy.static_pools.options import PoolsOptions
from interpose.resmgr.combining import combine
from interpose.topology.topology import Topology
from interpose.views.assignments import simulation_text
from interpose.views.machine import summary

# Settings that are given by flags; an empty one says nothing.
_GIVEN: Final = {
    "policy.reserved": "flag --reserved-resources",
    "policy.available": "flag --available-resources",
    "policy.pools_file": "flag --static-pools-conf-file",
    "policy.pools_dir": "flag --static-pools-conf-dir",
}


@click.command("simulate")
@click.option(
    "--topology",
    "source",
    metavar="DIR|FILE|TEXT",
    help="The machine: a copy of a /sys, a .json or .yaml file, or a description such as "
    '"2 sockets x 2 numa x 8 cores x 2 threads". [default: this one]',
)
@click.option("--policy", type=click.Choice(list(NAMES)), help="The policy. [default: what --policy-config says]")
@click.option("--reserved-resources", "reserved", metavar="SPEC", default="", help="As for the relay: cpu=1, cpu=0-1.")
@click.option("--available-resources", "available", metavar="SPEC", default="", help="As for the relay: cpu=2-15.")
@click.option("--policy-config", "config", metavar="FILE", help="Policy document, as for the relay.")
@click.option("--static-pools-conf-file", "pools_file", metavar="FILE", default="", help="As for the relay.")
@click.option("--static-pools-conf-dir", "pools_dir", metavar="DIR", default="", help="As for the relay.")
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
@click.option("-v", "--verbose", is_flag=True, help="Show what else could have been chosen, and who was changed.")
@click.option("--allow-refusals", is_flag=True, help="End with 0 also if a container was refused.")
def simulate_command(
    source: str | None,
    policy: str | None,
    reserved: str,
    available: str,
    config: str | None,
    pools_file: str,
    pools_dir: str,
    files: Sequence[str],
    removed: Sequence[str],
    output: str,
    verbose: bool,
    allow_refusals: bool,
) -> int:
    """Show what a policy would give to pods on some machine.

    Pods start in the order in which they are given, each container when those before it have started or, if they are
    init containers, have ended. Ends with 1 if a container was refused.
    """
    pods = _pods(files)
    leaving = [_named(pods, title) for title in removed]
    machine = machine_of(source)
    settings = PolicySettings(
        name=NAMES[policy] if policy else "none",
        reserved=reserved,
        available=available,
        pools_file=pools_file,
        pools_dir=pools_dir,
    )
    chosen = _policy(machine, settings, {**_GIVEN, **({"policy.name": "flag --policy"} if policy else {})}, config)
    outcome = _outcome(machine, chosen, pods, leaving)
    click.echo(json.dumps(outcome, indent=2) if output == "json" else simulation_text(outcome, verbose=verbose))
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


def _policy(machine: Topology, settings: PolicySettings, origins: dict[str, str], config: str | None) -> Policy:
    """The policy as a relay would make it of the same flags and document."""
    draft = combine(settings, origins, _document(config), f"file {config}")
    for note in draft.notes:
        click.echo(f"warning: {note}", err=True)
    options = draft.options
    if isinstance(options, PoolsOptions):
        from interpose.resmgr.poolfiles import load_pools  # only one policy has pools in files

        options = load_pools(options)
    available = _cpus(draft.available, "available CPUs")
    setup = Setup(
        topology=machine,
        available=available if isinstance(available, CpuSet) else None,  # never an amount: `combine` refuses it
        reserved=_cpus(draft.reserved, "reserved CPUs"),
    )
    return make(draft.policy, setup, options)


def _document(path: str | None) -> PolicyDocument:
    if path is None:
        return PolicyDocument()
    where = f"file {path}"
    document = read_policy_document(parse_document(read_text(path, MAX_FILE_BYTES), where), where)
    for warning in document.warnings:
        click.echo(f"warning: {warning}", err=True)
    return document


def _cpus(amount: CpuAmount | None, where: str) -> CpuSet | int | None:
    return None if amount is None else resolve(amount, where)


def _outcome(
    machine: Topology, policy: Policy, pods: Sequence[PlannedPod], leaving: Sequence[PlannedPod]
) -> dict[str, Any]:
    steps: list[Step] = [step for pod in pods for step in starting(pod)]
    steps += [step for pod in leaving for step in removing(pod)]
    records = simulate(policy, steps)
    requests = [member.request for pod in pods for member in pod.members]
    return {
        "policy": policy.name,
        "machine": f"{machine.name}: {summary(machine)}" if machine.name else summary(machine),
        "records": records,
        "assignments": holdings(policy, requests),
        "pools": {name: str(cpus) for name, cpus in policy.pools().items()},
    }
