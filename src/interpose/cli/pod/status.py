"""`interpose pod status`: everything about one pod."""

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from interpose.cli.common.terminal import output_width
from interpose.cli.pod.options import connection_options, namespace_option, output_option, pop_connection_options

if TYPE_CHECKING:
    from fractions import Fraction

    from interpose.cli.pod.connect import PodRuntime
    from interpose.node.pods.status.phase import ContainerView
    from interpose.node.pods.status.runtime_pod import RuntimePod
    from interpose.node.pods.status.summary import LastStatus
    from interpose.node.pods.status.types import ContainerStatus, PodStatus, SandboxStatus


@click.command("status")
@click.argument("name", metavar="POD")
@namespace_option
@output_option("json")
@connection_options
def status(**parameters: Any) -> None:
    """Show everything about a pod: its containers with states, exit codes, last words, resources and images, its
    addresses, cgroup and folders.

    It is what the runtime knows now. Why a container waits is what the manager of the pod last noted, also after that
    has ended; whether probes succeed is known to a manager that asks them, and is in `interpose pod events`.

    \b
      interpose pod status web
      interpose pod status default/web -o json
    """
    connection = pop_connection_options(parameters)
    from interpose.cli.pod.connect import run_with_runtime
    from interpose.cli.pod.select import select_pod
    from interpose.node.pods.status.pod_index import known_pods

    async def work(runtime: "PodRuntime") -> dict[str, Any]:
        known = await known_pods(runtime.pods)
        pod = select_pod(known.pods, parameters["name"], parameters["namespace"])
        return await _document(runtime, pod, ours=pod.uid in known.ours)

    document = run_with_runtime(connection, work)
    if parameters["output"] == "json":
        click.echo(json.dumps(document, indent=2))
        return
    from interpose.cli.render.pods import describe_pod

    click.echo(describe_pod(document, now=time.time(), width=output_width()))


async def _document(runtime: "PodRuntime", pod: "RuntimePod", *, ours: bool) -> dict[str, Any]:
    from interpose.node.pods.status.pod_index import known_pod
    from interpose.node.pods.status.pod_state import STOPPED

    pods = runtime.pods
    known = await known_pod(pods, pod, ours=ours)
    summary, origin = known.summary, known.origin
    found = summary.status
    phase = STOPPED if summary.word == STOPPED else summary.phase.value
    newest = found.sandboxes[0] if found.sandboxes else None
    document: dict[str, Any] = {
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
        "status": phase,
        "reason": summary.word if summary.word != phase else "",
        "message": summary.message,
        "stoppedByHand": summary.stopped or None,
        "ips": list(found.ips),
        "hostNetwork": newest.host_network if newest is not None else None,
        "created": time_text(known.began),
        "manifest": origin.source if origin is not None else "",
        "folder": pods.dirs.folder(pod.uid) if ours else "",
        "cgroupParent": await _cgroup_parent(runtime, newest),
        "runtime": runtime.where,
        "labels": dict(pod.labels),
        "annotations": dict(newest.annotations) if newest is not None else {},
        "containers": [_describe_container(view, found, summary.noted) for view in summary.containers],
        "sandboxes": [_sandbox(sandbox) for sandbox in found.sandboxes],
    }
    # Lists are always there: a reader need not ask whether one is.
    return {key: value for key, value in document.items() if value not in (None, "", {})}


def _describe_container(view: "ContainerView", found: "PodStatus", noted: "LastStatus | None") -> dict[str, Any]:
    """A container with its instance before; for one that waits to be started that is the newest instance."""
    from interpose.node.pods.status.phase import ContainerRole, ContainerViewState

    instances = [_container(instance) for instance in found.containers if instance.name == view.name]
    waits = view.state is ContainerViewState.WAITING
    document: dict[str, Any] = {"name": view.name}
    if view.role is not ContainerRole.MAIN:
        document["role"] = view.role.value
    if instances and not waits:
        document |= instances.pop(0)
        document["image"] = view.image
    else:
        waiting = {
            "state": view.state.value,
            "reason": view.reason,
            "message": view.message,
            "exitCode": None if waits else view.exit_code,
            "since": time_text(noted.since) if noted is not None else "",
            "restarts": view.restart_count,
            "image": view.image,
        }
        document |= {key: value for key, value in waiting.items() if value not in (None, "")}
    if instances:
        kept = ("id", "state", "exitCode", "reason", "message", "started", "finished", "log")
        document["before"] = {key: instances[0][key] for key in kept if key in instances[0]}
    return document


def _container(status: "ContainerStatus") -> dict[str, Any]:
    from interpose.core.model.pod import ContainerState

    exited = status.state is ContainerState.EXITED
    document: dict[str, Any] = {
        "name": status.name,
        "state": status.state.name.capitalize(),
        "reason": status.reason,
        "exitCode": status.exit_code if exited else None,
        "message": status.message,
        "restarts": status.restart_count,
        "started": time_text(status.started_at),
        "finished": time_text(status.finished_at),
        "image": status.image,
        "imageId": status.image_id or status.image_ref,
        "id": status.id,
        "log": status.log_path,
    }
    if status.resources is not None:
        for kind in ("requests", "limits"):
            amounts = getattr(status.resources, kind)
            document[kind] = {name: _amount(name, value) for name, value in sorted(amounts.items())}
    return {key: value for key, value in document.items() if value not in (None, "", {})}


def _amount(name: str, value: "Fraction") -> str:
    """An amount of a resource as text: bytes in powers of 1024 where possible."""
    from interpose.core.model.quantity import format_bytes
    from interpose.node.pods.labels import amount_text

    return amount_text(value) if name == "cpu" or value.denominator != 1 else format_bytes(int(value))


def _sandbox(sandbox: "SandboxStatus") -> dict[str, Any]:
    document = {
        "attempt": sandbox.attempt,
        "id": sandbox.id,
        "state": "Ready" if sandbox.ready else "NotReady",
        "created": time_text(sandbox.created_at),
        "runtimeHandler": sandbox.runtime_handler,
    }
    return {key: value for key, value in document.items() if value != ""}


async def _cgroup_parent(runtime: "PodRuntime", sandbox: "SandboxStatus | None") -> str:
    """The cgroup of the pod from the verbose status, which containerd and our runtime have; else empty."""
    from interpose.net.grpc.status import RpcError

    if sandbox is None:
        return ""
    try:
        answer = await runtime.services.pod_sandbox_status(sandbox.id, verbose=True)
        info = json.loads(answer.info.get("info", "{}"))
        return str(info["config"]["linux"]["cgroup_parent"])
    except (RpcError, ValueError, KeyError, TypeError):
        return ""


def time_text(nanoseconds: int) -> str:
    """A time in the form of Kubernetes; empty for zero."""
    if nanoseconds <= 0:
        return ""
    return f"{datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC):%Y-%m-%dT%H:%M:%SZ}"
