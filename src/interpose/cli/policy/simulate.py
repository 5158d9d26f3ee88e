"""`interpose simulate`: what a policy would give to pods on some machine. Needs no node, no relay and no root."""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import click

from interpose.cli.policy.flags import machine_option, policy_details
from interpose.cli.policy.make import make_policy
from interpose.cli.policy.topology import load_machine, write_drawing
from interpose.cli.render.assignments import simulation_text
from interpose.cli.render.machine import owners_of, summary
from interpose.cli.render.topology_svg import svg_text
from interpose.core.model.quantity import milli, whole
from interpose.core.policy.api import Policy
from interpose.core.policy.names import NAMES
from interpose.core.policy.pod_amounts import limited_by_pod
from interpose.core.policy.pool_report import pool_record, report_pools
from interpose.core.policy.request import Amounts, Key, Request, RequestSource
from interpose.core.policy.simulate import (
    Member,
    PlannedPod,
    Role,
    SimulationStep,
    list_holdings,
    removal_steps,
    simulate,
    start_steps,
)
from interpose.core.topology.topology import Topology
from interpose.errors import ConfigError
from interpose.node.pods.cri_config.qos import pod_qos
from interpose.node.pods.cri_config.resources import pod_limits, pod_requests
from interpose.node.pods.manifest.reader import read_pod_file, read_pods
from interpose.node.pods.spec import ContainerSpec, PodSpec, RestartPolicy


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
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show what else could have been chosen, who was changed, and who is in which pool.",
)
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
    pods = _read_pods(files)
    leaving = [_find_pod(pods, title) for title in removed]
    machine = load_machine(topology)
    chosen = make_policy(machine, policy, **details)
    outcome = _simulate(machine, chosen, pods, leaving)
    if svg != "-":
        click.echo(json.dumps(outcome, indent=2) if output == "json" else simulation_text(outcome, verbose=verbose))
    if svg is not None:
        titled = replace(machine, name=f"Policy {chosen.name} on {machine.name or 'some machine'}")
        write_drawing(svg, svg_text(titled, owners_of(outcome["assignments"])), announce=output == "text")
    refused = any(record["refusal"] for record in outcome["records"])
    return 1 if refused and not allow_refusals else 0


def _read_pods(files: Sequence[str]) -> list[PlannedPod]:
    pods: list[PodSpec] = []
    problems: list[str] = []
    for path in files:
        try:
            if path == "-":
                pods += read_pods(sys.stdin.read(), "standard input", resources_only=True)
            else:
                pods += read_pod_file(path, resources_only=True)
        except ConfigError as error:
            problems += error.problems
    counts = Counter(pod.title for pod in pods)
    problems += [f"pod {title} is given twice" for title, count in counts.items() if count > 1]
    if problems:
        raise ConfigError(problems)
    return [planned_pod(pod) for pod in pods]


def planned_pod(pod: PodSpec) -> PlannedPod:
    """The requests of a pod's containers, in the order in which the containers start."""
    init = (
        Member(
            request=_request(pod, container),
            role=Role.SIDECAR if container.restart_policy is RestartPolicy.ALWAYS else Role.INIT,
        )
        for container in pod.init_containers
    )
    main = (Member(request=_request(pod, container), role=Role.MAIN) for container in pod.containers)
    return PlannedPod(namespace=pod.namespace, name=pod.name, members=(*init, *main))


def _request(pod: PodSpec, container: ContainerSpec) -> Request:
    of_pod = None if pod.resources is None else _amounts(pod_requests(pod), pod_limits(pod))
    own = container.resources
    # What the API server would fill in is filled in: a request that is missing is the limit.
    return Request(
        key=Key(pod.title, container.name),
        namespace=pod.namespace,
        pod=pod.name,
        qos=pod_qos(pod),
        pod_labels=pod.labels,
        pod_annotations=pod.annotations,
        amounts=limited_by_pod(_amounts({**own.limits, **own.requests}, own.limits), of_pod),
        pod_amounts=of_pod,
        envs={variable.name: variable.value for variable in container.env},
        command=container.command,
        args=container.args,
    )


def _amounts(requests: Mapping[str, Fraction], limits: Mapping[str, Fraction]) -> Amounts:
    return Amounts(
        milli=milli(requests.get("cpu", Fraction())),
        limit_milli=milli(limits["cpu"]) if "cpu" in limits else None,
        memory=whole(requests["memory"]) if "memory" in requests else None,
        memory_limit=whole(limits["memory"]) if "memory" in limits else None,
        extended={name: whole(value) for name, value in requests.items() if "/" in name},
        quota="cpu" in limits,
        source=RequestSource.MANIFEST,
    )


def _find_pod(pods: Sequence[PlannedPod], title: str) -> PlannedPod:
    found = [pod for pod in pods if pod.title == title]
    if not found:
        known = ", ".join(pod.title for pod in pods)
        raise ConfigError(f"flag --remove: {title!r} is none of the pods, which are {known}")
    return found[0]


def _simulate(
    machine: Topology, policy: Policy, pods: Sequence[PlannedPod], leaving: Sequence[PlannedPod]
) -> dict[str, Any]:
    steps: list[SimulationStep] = [step for pod in pods for step in start_steps(pod)]
    steps += [step for pod in leaving for step in removal_steps(pod)]
    records = simulate(policy, steps)
    requests = [member.request for pod in pods for member in pod.members]
    titles = {request.key: request.title for request in requests}
    return {
        "policy": policy.name,
        "machine": f"{machine.name}: {summary(machine)}" if machine.name else summary(machine),
        "records": records,
        "assignments": list_holdings(policy, requests),
        "pools": {name: str(cpus) for name, cpus in policy.pools().items()},
        "pool_details": [pool_record(report, titles) for report in report_pools(policy)],
    }
