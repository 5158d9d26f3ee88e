"""`interpose pod stop` and `interpose pod rm`."""

import asyncio
from typing import Any, Final

import click

from interpose.cli.pod.options import (
    connection_options,
    files_option,
    namespace_option,
    pop_connection_options,
    selector_option,
)

_PATIENCE: Final = 60.0  # seconds until another process that is at work on a pod has to be done


def _grace(command: Any) -> Any:
    return click.option(
        "--grace",
        type=click.IntRange(0, 86400),
        default=None,
        metavar="SECONDS",
        help="Time to end by itself. [default: what the pod says, 30 if it says nothing]",
    )(command)


_all_option = click.option("--all", "everything", is_flag=True, help="All pods that `interpose pod` started.")
_files_option = files_option("The pods of these manifests, as far as they are there")


@click.command("stop")
@click.argument("names", nargs=-1, metavar="[POD...]")
@_files_option
@_all_option
@selector_option
@_grace
@namespace_option
@connection_options
def stop(**parameters: Any) -> int:
    """End pods; their containers, logs and volumes stay.

    A manager that watches manifests (`interpose pod run --watch`) leaves a stopped pod alone until its manifest is
    edited or `interpose pod run` is said again.

    \b
      interpose pod stop web
      interpose pod stop --grace 5 default/web default/db
    """
    return _end(parameters, remove=False)


@click.command("rm")
@click.argument("names", nargs=-1, metavar="[POD...]")
@_files_option
@_all_option
@selector_option
@click.option("--keep-logs", is_flag=True, help="Leave the logs of containers where they are.")
@_grace
@namespace_option
@connection_options
def rm(**parameters: Any) -> int:
    """End pods and remove all that is left of them: containers, sandboxes, volumes, logs.

    Folders of the node that a pod uses (hostPath) stay as they are. A pod whose manifest is watched is started again
    when all of it is gone: remove the manifest instead. One that could not be removed stays stopped.

    \b
      interpose pod rm web
      interpose pod rm -f web.yaml
      interpose pod rm -l app=web
      interpose pod rm --all
    """
    return _end(parameters, remove=True)


def _titles(files: tuple[str, ...]) -> frozenset[str]:
    from interpose.cli.pod.run_loop import read_pods

    return frozenset(pod.title for pod in read_pods(files))


def _end(parameters: dict[str, Any], *, remove: bool) -> int:
    connection = pop_connection_options(parameters)
    names = tuple(parameters["names"])
    files = parameters["files"]
    selections = [bool(names), bool(files), parameters["everything"], bool(parameters["selector"].requirements)].count(
        True
    )
    if selections != 1:
        raise click.UsageError(
            "names, -f, -l and --all exclude each other"
            if selections
            else "name pods, give their manifests with -f, their labels with -l, or say --all"
        )
    titles = _titles(files) if files else frozenset()
    from interpose.cli.pod.connect import PodRuntime, describe_error, run_with_runtime
    from interpose.cli.pod.manager import open_manager
    from interpose.cli.pod.select import pod_title, select_pod
    from interpose.cli.render.text import or_dash
    from interpose.net.grpc.status import RpcError
    from interpose.node.pods.locks import BusyPodError
    from interpose.node.pods.status.pod_index import known_pods
    from interpose.node.pods.status.runtime_pod import RuntimePod
    from interpose.node.pods.sync.manager import RuntimeManager
    from interpose.node.pods.sync.result import SyncResult

    async def end(manager: RuntimeManager, pod: RuntimePod) -> SyncResult:
        grace = parameters["grace"]
        # As it is now: more of it may have been started since the list.
        # All are listed, for those without labels to be found by: they may have been made with crictl.
        everything = {listed.uid: listed for listed in await manager.get_pods(all=True)}
        there = everything.get(pod.uid, RuntimePod(uid=pod.uid, complete=True))
        if remove:
            return await manager.remove_pod(there, grace=grace, keep_logs=parameters["keep_logs"])
        return await manager.kill_pod(there, grace=grace)

    async def end_and_report(manager: RuntimeManager, pod: RuntimePod, ours: bool) -> list[str]:
        """The errors; empty if the pod has ended."""
        try:
            if not ours:
                result = await end(manager, pod)
            else:
                # Before anything ends: a manager that watches would start it again. One that is just doing so sees the
                # mark and lets go of the pod.
                await asyncio.to_thread(manager.dirs.mark_stopped, pod.uid)
                async with manager.locks.held(pod.uid, patience=_PATIENCE):
                    result = await end(manager, pod)
        except RpcError as error:
            return [describe_error(error)]
        except (BusyPodError, OSError) as error:
            return [str(error)]
        return [f"{step.act}: {step.error}" for step in result.errors]

    async def work(runtime: PodRuntime) -> int:
        manager = await open_manager(runtime, connection)
        known = await known_pods(manager)
        namespace = parameters["namespace"]
        if names:
            found = list({pod.uid: pod for pod in (select_pod(known.pods, name, namespace) for name in names)}.values())
        else:
            found = [pod for pod in known.pods if pod.uid in known.ours and namespace in (None, pod.namespace)]
            found = [pod for pod in found if parameters["selector"].matches(pod.labels)]
        if files:
            # By name: a manifest that was edited since wants another pod than the one that is there.
            found = [pod for pod in found if pod.title in titles]
        results = await asyncio.gather(*(end_and_report(manager, pod, pod.uid in known.ours) for pod in found))
        code = 0
        for pod, errors in zip(found, results, strict=True):
            title = or_dash(pod_title(pod))
            for error in errors:
                click.echo(f"error: pod {title}: {or_dash(error)}", err=True)
            if not errors:
                click.echo(f"{'Removed' if remove else 'Stopped'} {title}")
            else:
                code = 1
        if not found:
            click.echo("No pods.")
        return code

    return run_with_runtime(connection, work)
