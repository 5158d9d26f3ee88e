"""Finds the pod and the container that the words of a command line name."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from interpose.cli.render.text import or_dash
from interpose.node.pods.status.runtime_pod import RuntimePod

if TYPE_CHECKING:
    from interpose.node.pods.status.pod_index import PodRecord
    from interpose.node.pods.status.reader import PodReader

_UID: Final = re.compile(r"[0-9a-fA-F][0-9a-fA-F-]{3,}", re.ASCII)
DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"


def select_pod(pods: Sequence[RuntimePod], name: str, namespace: str | None = None) -> RuntimePod:
    """The pod that `name` means: NAME, NAMESPACE/NAME, or the beginning of a uid. ClickException if it is not one.

    Of several with the same name the one that runs counts, or the only one that the runtime has anything of.
    """
    where, slash, short = name.rpartition("/")
    if slash and namespace is not None and where != namespace:
        raise click.UsageError(f"pod {name!r} is not in --namespace {namespace}")
    wanted = where if slash else namespace
    found = [pod for pod in pods if pod.name == short and (wanted is None or pod.namespace == wanted)]
    if len({pod.title for pod in found}) == 1 and len(found) > 1:
        up = [pod for pod in found if pod.running or any(box.ready for box in pod.sandboxes)]
        begun = [pod for pod in found if pod.containers or pod.sandboxes]
        found = next((some for some in (up, begun) if len(some) == 1), found)
    if not found and not slash and _UID.fullmatch(name):
        found = [pod for pod in pods if pod.uid.startswith(name) and wanted in (None, pod.namespace)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise click.ClickException(f"there is no pod {or_dash(name)!r}{_list_titles(pods)}")
    listed = "\n".join(f"  {or_dash(pod_title(pod))}  uid {or_dash(pod.uid)}" for pod in found)
    raise click.ClickException(f"pod {or_dash(name)!r} is not the name of one pod alone:\n{listed}")


def pod_title(pod: RuntimePod) -> str:
    """`namespace/name`, or what else is known of a pod whose namespace is not."""
    return pod.title if pod.namespace else pod.name or pod.uid


def _list_titles(pods: Sequence[RuntimePod]) -> str:
    if not pods:
        return ": there are none at all"
    names = sorted(map(pod_title, pods))
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"; there are {', '.join(or_dash(name) for name in names[:8])}{more}"


def select_container(known: Sequence[str], wanted: str, pod: RuntimePod, mains: Sequence[str] = ()) -> str:
    """Which of the containers that are `known` is meant: the one asked for, the one that the pod names as its default,
    the first main one if the manifest was noted (`mains`), or the first."""
    if wanted:
        if wanted not in known:
            listed = f": it has {', '.join(map(or_dash, known))}" if known else ""
            raise click.ClickException(f"pod {or_dash(pod.title)} has no container {or_dash(wanted)!r}{listed}")
        return wanted
    if not known:
        raise click.ClickException(f"pod {or_dash(pod.title)} has no containers")
    default = pod.sandboxes[0].annotations.get(DEFAULT_CONTAINER, "") if pod.sandboxes else ""
    return next((name for name in (default, *mains) if name in known), known[0])


async def find_pod_record(reader: "PodReader", name: str, namespace: str | None) -> "PodRecord":
    """All that is known of the pod that `name` means: also of one that the runtime has nothing of."""
    from interpose.node.pods.status.pod_index import known_pod, known_pods

    known = await known_pods(reader)
    pod = select_pod(known.pods, name, namespace)
    return await known_pod(reader, pod, ours=pod.uid in known.ours)


def list_started_containers(known: "PodRecord", wanted: str) -> list[str]:
    """The containers that the runtime has, oldest first. ClickException with what is known about it if the one that is
    `wanted` was not started, or if none was."""
    summary = known.summary
    names = list(dict.fromkeys(container.name for container in reversed(summary.status.containers)))
    view = next((container for container in summary.containers if container.name == wanted), None)
    title = or_dash(pod_title(known.pod))
    if view is not None and wanted not in names:
        why = ": ".join(or_dash(part) for part in (view.reason, view.message) if part)
        raise click.ClickException(f"container {or_dash(wanted)} of pod {title} was not started: {why}")
    if not names and not wanted:
        why = ": ".join(or_dash(part) for part in (summary.word, summary.message) if part)
        raise click.ClickException(f"no container of pod {title} was started: {why}")
    return names
