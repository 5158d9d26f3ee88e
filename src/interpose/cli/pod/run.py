"""`interpose pod run`: bring pods up from manifests, and with --watch keep them as they are wanted."""

from ipaddress import ip_address
from typing import Any

import click

from interpose.cli.pod.options import (
    STDIN,
    connection_options,
    files_option,
    is_on_command_line,
    pop_connection_options,
)
from interpose.config.values import duration
from interpose.errors import ConfigError
from interpose.host.cgroup.paths import check_confined

_DURATION = duration(0.0, 7 * 24 * 3600.0)


def _seconds(_ctx: click.Context, parameter: click.Parameter, text: str) -> float:
    try:
        value: float = _DURATION.parse(text, parameter.opts[0])
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    return value


def _address(_ctx: click.Context, parameter: click.Parameter, addresses: tuple[str, ...]) -> tuple[str, ...]:
    for address in addresses:
        try:
            ip_address(address)
        except ValueError:
            raise click.UsageError(f"{parameter.opts[0]}: {address!r} is not an IP address") from None
    return addresses


def _name(_ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    from interpose.node.pods.manifest.kinds import SUBDOMAIN

    if text and not SUBDOMAIN.fits(text):
        raise click.UsageError(f"{parameter.opts[0]}: {text!r} is not {SUBDOMAIN.what}")
    return text


def _cgroup(_ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    try:
        check_confined(text.strip("/") or "top")
    except ValueError:
        raise click.UsageError(
            f"{parameter.opts[0]}: {text!r} is not a directory below the root of the cgroups"
        ) from None
    return text


@click.command("run")
@files_option("Manifests", required=True)
@click.option("--watch", is_flag=True, help="Stay: restart what ends, probe, and follow the manifests as they change.")
@click.option("--stop-on-exit", is_flag=True, help="End and remove the pods before leaving.")
@click.option("--replace", is_flag=True, help="Remove the pods first, even those whose manifest is as it was.")
@click.option("--dry-run", is_flag=True, help="Check the manifests, list their pods, and do nothing.")
@click.option(
    "--timeout",
    default="2m",
    show_default=True,
    metavar="TIME",
    callback=_seconds,
    help="How long pods may take to become ready; 0 is without limit. Pods that fail stay, to be looked at.",
)
@click.option(
    "--min-ready",
    default="1s",
    show_default=True,
    metavar="TIME",
    callback=_seconds,
    help="How long a container without probes has to run before it counts as ready: many end at once.",
)
@click.option(
    "--wait",
    type=click.Choice(["ready", "end"]),
    default="ready",
    show_default=True,
    help="What to wait for with pods that are not restarted for ever: that they run, or that they have ended.",
)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but what went wrong.")
@click.option(
    "--node-name", metavar="NAME", default="", callback=_name, help="What the node is called. [default: its host name]"
)
@click.option(
    "--cluster-dns",
    metavar="IP",
    multiple=True,
    callback=_address,
    help="DNS server of pods with dnsPolicy ClusterFirst.",
)
@click.option(
    "--cluster-domain",
    metavar="NAME",
    default="cluster.local",
    show_default=True,
    callback=_name,
    help="Domain of pods.",
)
@click.option(
    "--cgroup-root",
    metavar="PATH",
    default="",
    callback=_cgroup,
    help="Cgroup below which pods are. [default: the top]",
)
@click.option(
    "--admin-listen",
    metavar="SOCKET",
    envvar="INTERPOSE_POD_ADMIN_LISTEN",
    default="none",
    show_default=True,
    help="With --watch: where health, metrics and status are told, a path or a loopback address. "
    "[env: INTERPOSE_POD_ADMIN_LISTEN]",
)
@click.option(
    "--metrics-listen",
    metavar="ADDRESS",
    envvar="INTERPOSE_POD_METRICS_LISTEN",
    default="none",
    show_default=True,
    help="With --watch: health and metrics for other machines, HOST:PORT or :PORT. [env: INTERPOSE_POD_METRICS_LISTEN]",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default=None,
    help="What is logged to stderr. [default: info with --watch and no terminal, else error]",
)
@connection_options
def run(**parameters: Any) -> int:
    """Bring pods up from standard manifests.

    \b
      interpose pod run -f web.yaml
      interpose pod run -f /etc/interpose/pods --watch
      interpose pod run -f job.yaml --wait end --timeout 10m --stop-on-exit
      kubectl get pod web -o yaml | interpose pod run -f -

    Exits with 0 when all pods are ready (or have done their work, where they are not restarted), with 1 when one failed
    or was not ready in time, with 78 when manifests are wrong. The pods go on; `interpose pod rm` ends them.

    Saying it again does no harm: what runs as it should is left alone. A pod whose manifest was edited is another pod:
    the one before it is ended first. ConfigMaps and Secrets that pods use stand in the same files.

    With --watch it stays, as a kubelet: containers that end are started again (with growing waits), probes are asked,
    logs are rotated, and pods come and go with their manifests. It may be stopped or killed at any time: pods go on,
    and the next one finds them.
    """
    connection = pop_connection_options(parameters)
    if parameters["watch"] and (STDIN in parameters["files"] or parameters["dry_run"]):
        raise click.UsageError("--watch needs files to look at again, and --dry-run looks once")
    if not parameters["watch"] and (is_on_command_line("admin_listen") or is_on_command_line("metrics_listen")):
        raise click.UsageError("--admin-listen and --metrics-listen are for --watch: without it nothing serves them")
    from interpose.cli.pod.run_loop import RunOptions, read_pods, run_pods
    from interpose.cli.pod.service import Listening

    if parameters["dry_run"]:
        for pod in read_pods(parameters["files"]):
            click.echo(pod.title)
        return 0
    node = {
        "name": parameters["node_name"],
        "cluster_dns": parameters["cluster_dns"],
        "cluster_domain": parameters["cluster_domain"],
        "cgroup_root": parameters["cgroup_root"],
    }
    options = RunOptions(
        files=parameters["files"],
        watch=parameters["watch"],
        stop_on_exit=parameters["stop_on_exit"],
        replace=parameters["replace"],
        timeout=parameters["timeout"] or None,
        min_ready=parameters["min_ready"],
        to_the_end=parameters["wait"] == "end",
        quiet=parameters["quiet"],
        log_level=parameters["log_level"],
        listening=Listening(admin=parameters["admin_listen"], metrics=parameters["metrics_listen"]),
    )
    return run_pods(connection, options, node)
