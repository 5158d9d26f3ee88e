"""`python -m examples.demo`: pods from manifests on a node with relay, policy, hook server and agent.

The programs are the real ones, as processes, and so are the pods, which our own runtime starts. Its executor is the
plain one and cgroups are files of a scratch folder, so that neither root nor a container runtime is needed and a large
machine can be shown; the API server is a fake. Everything shown was read where it is and is held against a table of
what must be there; exit code 1 if anything differs. All calls are recorded; with `--keep DIR` the recording and a page
of it stay there.
"""

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import uvloop

from examples.demo.cluster import OPTIONS, demo_cluster
from examples.demo.node import Node, processes_of
from examples.demo.parts import MACHINE
from examples.demo.places import IMAGE_FILE, MANIFESTS, Places, forget_settings
from examples.demo.programs import Shell, complaints, running, until
from examples.demo.recording import CHANGED, PAGE, RECORDING, write_page
from examples.demo.story import CREATED, POLICY, Story
from interpose import __version__
from interpose.cli.common.admin_client import ask
from interpose.cri.client import RuntimeClient
from interpose.cri.remote import RemoteCaller
from interpose.errors import ConfigError
from interpose.net.grpc.status import RpcError
from tests.support.lab.daemon import unmount_below
from tests.support.lab.processes import LabError

_PICTURE: Final = """\
interpose {version}: pods from manifests on a node of 16 CPUs

 pods/ -> interpose pod run -> interpose relay -> interpose runtime -> processes
                                 ^   |
                                 |   '--> interpose hookserver <-- nodeslo.yaml
                                 '------- interpose agent <------- ConfigMap

Not as on a node: cgroups are plain files, so that any machine can show 16 CPUs;
the API server is a fake; the runtime's executor needs neither root nor runc.
"""
_GOOD: Final = """\
All values were checked where they are; in the end every cgroup was as on a node
that has neither relay nor hook server, and nothing is left of the pods."""
_BAD: Final = "Something is wrong, see above."
_STOPPING: Final = "\nStopping, pods first."
_STOPPED: Final = "Nothing of it runs any more."
_WIDEST: Final = 120
_NARROWEST: Final = 60
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def _ready(places: Places) -> None:
    """Until all know each other. They are asked in threads, because the agent's API server is here."""

    async def hooked() -> bool:
        answer = await asyncio.to_thread(ask, str(places.relay_admin), "GET", "/v1/hooks")
        return any(one["state"] == "connected" for one in answer["plugins"])

    async def configured() -> bool:
        answer = await asyncio.to_thread(ask, str(places.agent_admin), "GET", "/v1/status", who="agent")
        return bool(answer["configuration"]["state"] == "applied")

    await until(hooked, "the relay to know the hook server")
    await until(configured, "the relay to have the ConfigMap")


async def tell(folder: Path, width: int) -> list[str]:
    """The whole story; what was not as promised."""
    places = Places(folder)
    places.prepare()
    shell = Shell(places, width)
    print(_PICTURE.format(version=__version__), flush=True)
    policy = ("--policy", POLICY, "--reserved-resources", "cpu=1")
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        await enter(running(places, places.runtime, "runtime", "--executor", "plain"))
        stack.push_async_callback(clear, places)
        await enter(running(places, places.relay_admin, "relay", *policy, "--record", RECORDING))
        server = await enter(running(places, places.admin, "hookserver", "--mode", "both", "--no-cpuset", "--gpu-env"))
        cluster = await enter(demo_cluster(places.kubeconfig))
        await enter(running(places, places.agent_admin, "agent", *OPTIONS))
        await _ready(places)
        caller = RemoteCaller(str(places.cri))
        stack.push_async_callback(caller.close)
        await caller.start()
        story = Story(places, Node(places, RuntimeClient(caller)), shell, width)
        print("1. Two pods start from manifests:")
        await shell.run(f"interpose image import {IMAGE_FILE}")
        keeping = ("pod", "run", "-f", MANIFESTS, "--watch", "--stop-on-exit")
        shell.show(f"interpose {' '.join(keeping)} &")
        manager = await enter(running(places, lambda: True, *keeping))
        await story.begins()
        await story.sees_a_failure(manager)
        await story.has_a_guest()
        await story.goes_on()
        await story.is_configured(cluster)
        await story.loses_the_guest()
        await story.ends(server)
        await story.is_over(manager)
    story.problems += [f"still runs: {one}" for one in processes_of(folder)]
    return story.problems + await show_recording(shell)


async def clear(places: Places) -> None:
    """Whatever happened: no pod is left when the runtime ends, because processes of pods outlive it."""
    caller = RemoteCaller(str(places.runtime))
    try:
        await caller.start()
        services = RuntimeClient(caller)
        for one in await services.list_pod_sandbox():
            await services.stop_pod_sandbox(one.id)
            await services.remove_pod_sandbox(one.id)
    except RpcError as error:
        print(f"Pods could not be ended: {error}")
    finally:
        await caller.close()


async def show_recording(shell: Shell) -> list[str]:
    """The last chapter, when the relay has ended; what was wrong with it."""
    print("\n8. The relay has recorded all calls. Containers that are not as asked for:")
    shown = await shell.run(f"interpose dump show {RECORDING} '{CHANGED}'")
    creates = sum("CreateContainer" in line for line in shown.splitlines())
    return [] if creates >= CREATED else [f"the recording shows {creates} changed containers of {CREATED}"]


def _keep(recording: Path, folder: Path) -> None:
    """Put recording and page there, and say what can be done with them."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = Path(shutil.copy(recording, folder / RECORDING))
    write_page(kept, folder / PAGE)
    print(f"\n  {folder / PAGE} is the same as a page for a browser. Or:\n")
    print(f"  $ interpose dump live {kept}")
    print(f"  $ interpose dump replay {kept} --policy static-plus \\")
    print(f'      --reserved-resources cpu=1 --topology "{MACHINE}"')


async def _until_told(folder: Path, width: int) -> list[str]:
    """The story. The first signal ends it in good order, and others change nothing about that."""
    loop = asyncio.get_running_loop()
    telling = asyncio.current_task()
    assert telling is not None
    told: list[int] = []

    def stop(number: int) -> None:
        if not told:
            print(_STOPPING, flush=True)
            telling.cancel()
        told.append(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop, number)
    return await tell(folder, width)


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="demo", description="Pods share a node: who gets what, and why.")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="keep the recording of all calls, and a page of it")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] = ()) -> int:
    """Run in a scratch folder of its own."""
    keep: Path | None = _arguments(arguments).keep
    forget_settings()
    width = min(max(shutil.get_terminal_size().columns, _NARROWEST), _WIDEST)
    with tempfile.TemporaryDirectory(prefix="interpose-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                problems = runner.run(_until_told(folder, width))
            if keep is not None:
                _keep(folder / RECORDING, keep)
        except (AssertionError, LabError, ConfigError, RpcError) as error:
            problems = [str(error), *complaints(folder)]
        except asyncio.CancelledError:
            print(_STOPPED)
            return 130
        finally:
            unmount_below(folder)
    for problem in problems:
        print(f"WRONG: {problem}")
    print(f"\n{_BAD if problems else _GOOD}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
