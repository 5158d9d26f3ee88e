"""`interpose pod events`: what happened with pods, from the files that managers keep in their folders. No runtime is
asked."""

import json
import time
from typing import TYPE_CHECKING, Any, Final

import click

from interpose.cli.common.stdio import is_output_closed
from interpose.cli.common.terminal import output_width
from interpose.cli.pod.options import (
    connection_options,
    namespace_option,
    output_option,
    pop_connection_options,
    selector_option,
)

if TYPE_CHECKING:
    from interpose.cli.render.pods import EventRow
    from interpose.node.pods.events.events import PodEvent
    from interpose.node.pods.status.runtime_pod import RuntimePod

_EVERY: Final = 0.5  # seconds between two reads of the files
_pause = time.sleep


@click.command("events")
@click.argument("names", nargs=-1, metavar="[POD...]")
@click.option(
    "--types",
    metavar="Normal|Warning",
    type=click.Choice(["Normal", "Warning"], case_sensitive=False),
    help="Only such events.",
)
@click.option("-w", "--watch", is_flag=True, help="Stay, and add a line for each event that comes, until Ctrl-C.")
@namespace_option
@selector_option
@output_option("json")
@connection_options
def events(**parameters: Any) -> None:
    """Show what happened with pods that `interpose pod` started: images pulled, containers started and ended,
    back-offs, failures, probes that failed. Equal events are one line with a count. Without names it is all pods.

    The events of a pod are kept in its folder below --root, the newest 200, and removed with it; no runtime is asked.

    \b
      interpose pod events
      interpose pod events web --types Warning
      interpose pod events web -w
    """
    parameters["root"] = pop_connection_options(parameters).root
    if not parameters["watch"]:
        _show(_find_events(parameters), parameters)
        return
    printed: dict[tuple[str, ...], PodEvent] = {}
    first = True
    while True:
        fresh = []
        for pod, event in _find_events(parameters, strict=first):
            kind = (pod.uid, *event.kind)
            if printed.get(kind) != event:
                printed[kind] = event
                fresh.append((pod, event))
        if fresh or first:
            _show(fresh, parameters, first=first)
        first = False
        if is_output_closed():
            raise BrokenPipeError
        _pause(_EVERY)


def _find_events(parameters: dict[str, Any], *, strict: bool = True) -> "list[tuple[RuntimePod, PodEvent]]":
    """The events of the selected pods, the latest last. With `strict` each name must be that of a pod."""
    from interpose.cli.pod.select import select_pod
    from interpose.node.pods.events.file import read_events
    from interpose.node.pods.status.origin import pods_of
    from interpose.node.pods.volumes.pod_folders import PodFolders

    dirs = PodFolders(parameters["root"])
    pods = pods_of(dirs, dirs.uids())
    namespace, names = parameters["namespace"], parameters["names"]
    if names and strict:
        parameters["uids"] = {select_pod(pods, name, namespace).uid for name in names}
    selected = [
        pod
        for pod in pods
        if namespace in (None, pod.namespace)
        and (not names or pod.uid in parameters["uids"])
        and parameters["selector"].matches(pod.labels)
    ]
    found = [(pod, event) for pod in selected for event in read_events(dirs.folder(pod.uid))]
    of_type = [(pod, event) for pod, event in found if parameters["types"] in (None, event.type)]
    return sorted(of_type, key=lambda pair: pair[1].last)


def _show(found: "list[tuple[RuntimePod, PodEvent]]", parameters: dict[str, Any], *, first: bool = True) -> None:
    from interpose.cli.render.pods import event_table

    if parameters["output"] == "json":
        documents = [_document(pod, event) for pod, event in found]
        if not parameters["watch"]:
            click.echo(json.dumps(documents, indent=2))
        for document in documents if parameters["watch"] else ():
            click.echo(json.dumps(document))
        return
    if not found:
        click.echo("No events.", err=parameters["watch"])
        return
    lines = event_table([_row(pod, event) for pod, event in found], output_width()).splitlines()
    click.echo("\n".join(lines if first else lines[1:]))


def _row(pod: "RuntimePod", event: "PodEvent") -> "EventRow":
    from interpose.cli.pod.select import pod_title
    from interpose.cli.render.pods import EventRow

    now = time.time()
    return EventRow(
        object=f"{pod_title(pod)}/{event.container}" if event.container else pod_title(pod),
        type=event.type.value,
        reason=event.reason,
        message=event.message,
        last=now - event.last / 1e9,
        first=now - event.first / 1e9,
        count=event.count,
    )


def _document(pod: "RuntimePod", event: "PodEvent") -> dict[str, Any]:
    from interpose.cli.pod.status import time_text

    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "container": event.container,
        "type": event.type.value,
        "reason": event.reason,
        "message": event.message,
        "count": event.count,
        "firstTimestamp": time_text(event.first),
        "lastTimestamp": time_text(event.last),
    }
