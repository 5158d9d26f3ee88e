"""`interpose pod status`: everything about one pod."""

import asyncio
import json
import shutil
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from interpose.cli.pod_options import namespace_option, output_option, reach_of, reach_options

if TYPE_CHECKING:
    from fractions import Fraction

    from interpose.cli.pod_runtime import Opened
    from interpose.kuberuntime.podstatus import ContainerStatus, PodStatus, SandboxStatus
    from interpose.kuberuntime.running import RunningPod


@click.command("status")
@click.argument("name", metavar="POD")
@namespace_option
@output_option("json")
@reach_options
def status(**parameters: Any) -> None:
    """Show everything about a pod: its containers with states, exit codes, last words, resources and images, its
    addresses, cgroup and folders.

    It is what the runtime knows. Whether probes succeed is known to the manager that asks them, and is in its log.

    \b
      interpose pod status web
      interpose pod status default/web -o json
    """
    reach = reach_of(parameters)
    from interpose.cli.pod_choice import chosen
    from interpose.cli.pod_runtime import run_with
    from interpose.kuberuntime.knownpods import known_pods

    async def work(runtime: "Opened") -> dict[str, Any]:
        known = await known_pods(runtime.manager)
        pod = chosen(known.pods, parameters["name"], parameters["namespace"])
        return await _document(runtime, pod, ours=pod.uid in known.ours)

    document = run_with(reach, work)
    if parameters["output"] == "json":
        click.echo(json.dumps(document, indent=2))
        return
    from interpose.views.pods import described
    from interpose.views.text import WIDTH

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    click.echo(described(document, now=time.time(), width=width))


async def _document(runtime: "Opened", pod: "RunningPod", *, ours: bool) -> dict[str, Any]:
    from interpose.kuberuntime.knownpods import known_phase
    from interpose.kuberuntime.origins import read_origin

    manager = runtime.manager
    found = await manager.get_pod_status(pod)
    folder = manager.dirs.folder(pod.uid) if ours else ""
    origin = await asyncio.to_thread(read_origin, folder) if ours else None
    stopped = ours and await asyncio.to_thread(manager.dirs.is_stopped, pod.uid)
    newest = found.sandboxes[0] if found.sandboxes else None
    created = [one.created_at for one in found.sandboxes] or ([origin.began] if origin is not None else [])
    document: dict[str, Any] = {
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
        "status": "Stopped" if stopped and not pod.running else known_phase(found, origin).value,
        "stoppedByHand": stopped or None,
        "ips": list(found.ips),
        "hostNetwork": newest.host_network if newest is not None else None,
        "created": _time(min(created, default=0)),
        "manifest": origin.source if origin is not None else "",
        "folder": folder,
        "cgroupParent": await _cgroup_parent(runtime, newest),
        "runtime": runtime.where,
        "labels": _own(newest.labels) if newest is not None else {},
        "annotations": dict(newest.annotations) if newest is not None else {},
        "containers": _containers(found),
        "sandboxes": [_sandbox(one) for one in found.sandboxes],
    }
    # Lists are always there: whoever goes through one need not ask whether it is.
    return {key: value for key, value in document.items() if value not in (None, "", {})}


def _own(labels: Any) -> dict[str, str]:
    return {key: value for key, value in labels.items() if not key.startswith("io.kubernetes.")}


def _containers(found: "PodStatus") -> list[dict[str, Any]]:
    names = list(dict.fromkeys(one.name for one in reversed(found.containers)))
    documents = []
    for name in names:
        instances = [one for one in found.containers if one.name == name]
        document = _container(instances[0])
        if len(instances) > 1:
            earlier = _container(instances[1])
            kept = ("id", "state", "exitCode", "reason", "message", "started", "finished")
            document["before"] = {key: earlier[key] for key in kept if key in earlier}
        documents.append(document)
    return documents


def _container(one: "ContainerStatus") -> dict[str, Any]:
    from interpose.model.pod import ContainerState

    exited = one.state is ContainerState.EXITED
    document: dict[str, Any] = {
        "name": one.name,
        "state": one.state.name.capitalize(),
        "reason": one.reason,
        "exitCode": one.exit_code if exited else None,
        "message": one.message,
        "restarts": one.restart_count,
        "started": _time(one.started_at),
        "finished": _time(one.finished_at),
        "image": one.image,
        "imageId": one.image_id or one.image_ref,
        "id": one.id,
        "log": one.log_path,
    }
    if one.resources is not None:
        for kind in ("requests", "limits"):
            amounts = getattr(one.resources, kind)
            document[kind] = {name: _amount(name, value) for name, value in sorted(amounts.items())}
    return {key: value for key, value in document.items() if value not in (None, "", {})}


def _amount(name: str, value: "Fraction") -> str:
    """As people write it: bytes in powers of 1024 where they are."""
    from interpose.kuberuntime.labels import amount_text

    for power, unit in enumerate(("Ti", "Gi", "Mi", "Ki")):
        size = 1 << (40 - 10 * power)
        if name != "cpu" and value and value % size == 0:
            return f"{value // size}{unit}"
    return amount_text(value)


def _sandbox(one: "SandboxStatus") -> dict[str, Any]:
    document = {
        "attempt": one.attempt,
        "id": one.id,
        "state": "Ready" if one.ready else "NotReady",
        "created": _time(one.created_at),
        "runtimeHandler": one.runtime_handler,
    }
    return {key: value for key, value in document.items() if value != ""}


async def _cgroup_parent(runtime: "Opened", sandbox: "SandboxStatus | None") -> str:
    """As far as the runtime shows it: containerd and ours do, in what they say to whoever asks for more."""
    from interpose.rpc.status import RpcError

    if sandbox is None:
        return ""
    try:
        answer = await runtime.services.pod_sandbox_status(sandbox.id, verbose=True)
        info = json.loads(answer.info.get("info", "{}"))
        return str(info["config"]["linux"]["cgroup_parent"])
    except (RpcError, ValueError, KeyError, TypeError):
        return ""


def _time(nanoseconds: int) -> str:
    if nanoseconds <= 0:
        return ""
    return f"{datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC):%Y-%m-%dT%H:%M:%SZ}"
