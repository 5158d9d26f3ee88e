"""`python -m interpose.testing.demo`: three pods on a node with relay, policy, hook server and agent, before your eyes.

The programs are the real ones, as processes; runtime and API server are fakes, with cgroups in files of a scratch
folder, so that neither root nor containers nor a cluster are needed. Everything shown was read from these files and is
held against a table of what must be there; exit code 1 if anything differs. All calls are recorded; with `--keep DIR`
the recording and a page of it stay there.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import uvloop

from interpose import __version__
from interpose.api import cri_pb2 as cri
from interpose.cli.admin_client import ask
from interpose.config.document import parse_document
from interpose.config.topology_document import read_topology_document
from interpose.errors import ConfigError
from interpose.testing.agentstack import Cluster
from interpose.testing.democluster import (
    NARROW,
    NARROWED,
    OPTIONS,
    SLIP,
    SOURCE,
    WIDE,
    condition_text,
    demo_cluster,
    publish,
    wrong_condition,
)
from interpose.testing.demokubelet import Kubelet, connected
from interpose.testing.demoparts import (
    AFTER,
    BEFORE,
    CONTAINER,
    CPUS,
    GUEST,
    MACHINE,
    NAMESPACE,
    PODS,
    RESIDENTS,
    DemoPod,
    Places,
    edit,
    forget_settings,
)
from interpose.testing.demorecording import CHANGED, PAGE, RECORDING, listed_calls, write_page
from interpose.testing.demoreport import (
    ARRIVED,
    ASKED,
    EDITED,
    LEFT,
    RESTORED,
    STARTED,
    Reasons,
    Running,
    Values,
    edited,
    explained,
    listed,
    measured,
    policy_reason,
    reasons,
    without_guest,
    wrong_calls,
    wrong_leftovers,
    wrong_order,
    wrong_request,
    wrong_status,
    wrong_values,
)
from interpose.testing.eventually import eventually
from interpose.testing.fakenode import FakeNode, PlainCgroups
from interpose.testing.lab.processes import Child, LabError, accepts
from interpose.testing.lab.relay import program
from interpose.testing.serve import serve_runtime
from interpose.views.explain import explain_text
from interpose.views.owners import owners_of
from interpose.views.topology_picture import picture

_POLICY = "static"
_PICTURE = """\
interpose {version}: three pods share a node of 16 CPUs

  kubelet --> interpose relay --policy static --> runtime (a fake, cgroups in
               ^     |                            plain files)
               |     '--> interpose hookserver <-- nodeslo.yaml
               |
               '--------- interpose agent <------- ConfigMap (a fake too)

The hook server sets CPU priorities and the limits of batch jobs, by the classes
of pods; which CPUs a container may use is up to the policy. The agent brings
the policy what the cluster wants of it.
"""
_GOOD = """\
All values were checked in their files; in the end every cgroup is as on a node
that has neither. The kubelet saw what it asked for all the time."""
_BAD = "Something is wrong, see above."
_START = 20.0  # seconds a program has to come up on a busy machine
_WIDEST = 100
_INDENT = 2  # of what commands print


@asynccontextmanager
async def running(places: Places, ready: Path, *command: str) -> AsyncIterator[Child]:
    """`interpose ...` inside the block, from the moment it listens on `ready`."""
    child = Child([str(program()), *command], log=places.folder / f"{command[0]}.log", env=places.environment())
    try:
        await eventually(lambda: accepts(ready) or not child.running, f"interpose {command[0]}", within=_START)
        if not child.running:
            raise child.error(f"ended with {child.exit_code}")
        yield child
    finally:
        await asyncio.to_thread(child.stop)


class Story:
    """What happens, one chapter after the other, and what was wrong with it."""

    def __init__(self, places: Places, node: FakeNode, kubelet: Kubelet, width: int) -> None:
        self.problems: list[str] = []
        self._places = places
        self._node = node
        self._kubelet = kubelet
        self._width = width
        self._pods: list[Running] = []

    async def begins(self) -> None:
        """Pods start, and have their values from the start."""
        print("1. Two pods start. Asked for -> in the cgroup, who wants it, and why:\n")
        await self._kubelet.call("Version", cri.VersionRequest())
        for pod in RESIDENTS:
            await self._start(pod)
        await self._shows("started", RESTORED, STARTED, await self._reasons())
        print("\n   What containers have was in CreateContainer, before a process ran.")

    async def has_a_guest(self) -> None:
        """A pod comes that gets CPUs of its own, and the others make room."""
        print("\n2. A Guaranteed pod comes. The others make room before it is created:\n")
        others = tuple(self._pods)
        await self._start(GUEST)
        self.problems += wrong_order(self._node.runtime.requests, others)
        await self._shows("arrived", {**ASKED, **STARTED}, ARRIVED, await self._reasons())
        name = f"{NAMESPACE}/{GUEST.name}/{CONTAINER}"
        print(f"\n  $ interpose explain {name}\n")
        _print_indented(explain_text(await self._asked_relay(f"/v1/policy/containers/{name}"), self._width - _INDENT))
        print("\n  $ interpose topology --show-assignments -o picture\n")
        machine = parse_document(json.dumps(await self._asked_relay("/v1/topology")), "the relay", json_only=True)
        owners = owners_of((await self._asked_relay("/v1/policy"))["assignments"])
        topology = read_topology_document(machine, "the relay")
        _print_indented(picture(topology, self._width - _INDENT, owners=owners))

    async def goes_on(self) -> None:
        """The node's policy is edited, and running pods follow."""
        print("\n3. nodeslo.yaml is edited while they run:\n")
        print("\n".join(edited(BEFORE, AFTER)))
        began = asyncio.get_running_loop().time()
        edit(self._places.nodeslo, AFTER)
        await self._come(EDITED)
        print(f"\n   {self._since(began)} ms later:\n")
        await self._shows("edited", ARRIVED, EDITED, await self._reasons())

    async def is_configured(self, cluster: Cluster) -> None:
        """The cluster's configuration is edited and reaches the relay; a slip does not."""
        print(f"\n4. ConfigMap {SOURCE} is edited: pods get half the node:\n")
        began = self._publish(cluster, WIDE, NARROW)
        await self._come(NARROWED)
        print(f"\n   {self._since(began)} ms later:\n")
        await self._shows("configured", EDITED, NARROWED, {})
        print("\n   The next edit has a slip. It is refused, and what was in force stays:\n")
        self._publish(cluster, NARROW, SLIP)
        await self._shows_refusal(cluster)
        print("\n   And back:\n")
        self._publish(cluster, SLIP, WIDE)
        print()
        await self._shows("configured back", NARROWED, EDITED, {})

    async def loses_the_guest(self) -> None:
        """Its CPUs go back to the others before the kubelet has its answer."""
        print(f"\n5. {NAMESPACE}/{GUEST.name} ends. When StopContainer is answered, the others have its CPUs:\n")
        guest = self._pods.pop()
        await self._kubelet.stop_container(guest)
        await self._shows("left", without_guest(EDITED), LEFT, {})
        await self._kubelet.end_pod(guest)

    async def ends(self, server: Child) -> None:
        """The hook server goes, and everything is as if it had never been there."""
        print("\n6. The hook server stops; `interpose hookserver --restore` puts it all back:\n")
        await asyncio.to_thread(server.stop)
        log = self._places.folder / "restore.log"
        with Child([str(program()), "hookserver", "--restore"], log=log, env=self._places.environment()) as restore:
            if (code := await asyncio.to_thread(restore.wait, _START)) != 0:
                self.problems.append(f"--restore ended with {code}: {restore.log_tail()}")
        await self._shows("restored", LEFT, RESTORED, {})
        untouched = FakeNode(cgroups(self._places.folder / "untouched"))
        for pod in RESIDENTS:
            config, container = pod.configs()
            untouched.add(config, [container])
        self.problems += wrong_leftovers(self._node, untouched)

    async def is_over(self) -> None:
        """Pods end; what passed is counted."""
        for one in self._pods:
            await self._kubelet.end_pod(one)
        left = (await self._kubelet.call("ListPodSandbox", cri.ListPodSandboxRequest())).items
        self.problems += [f"pod {item.metadata.name} was not removed" for item in left]
        self.problems += wrong_calls(await self._asked_relay("/v1/methods"), self._kubelet.calls)

    async def _start(self, pod: DemoPod) -> None:
        self._pods.append(await self._kubelet.run_pod(pod))
        self.problems += wrong_request(pod, self._node.runtime.requests_of("CreateContainer")[-1])

    async def _reasons(self) -> Reasons:
        # In a thread: both ask the runtime, which is here.
        found = reasons(await asyncio.to_thread(ask, str(self._places.admin), "GET", "/v1/values"))
        for one in self._pods:
            report = await self._asked_relay(f"/v1/policy/containers/{NAMESPACE}/{one.pod.name}/{CONTAINER}")
            found |= policy_reason(one.pod, _POLICY, report)
        return found

    async def _asked_relay(self, path: str) -> Any:
        return await asyncio.to_thread(ask, str(self._places.relay_admin), "GET", path)

    def _publish(self, cluster: Cluster, before: str, after: str) -> float:
        """Edit the ConfigMap; the moment."""
        print("\n".join(edited(before, after)))
        publish(cluster, after)
        return asyncio.get_running_loop().time()

    async def _shows_refusal(self, cluster: Cluster) -> None:
        with suppress(AssertionError):
            await cluster.reported("ConfigRejected")
        self.problems += wrong_condition(cluster.condition)
        self.problems += wrong_values("refused", await self._come(NARROWED), NARROWED)
        print("\n    Condition of the node:")
        _print(condition_text(cluster.condition, self._width))

    @staticmethod
    def _since(began: float) -> str:
        return f"{(asyncio.get_running_loop().time() - began) * 1000:.0f}"

    def _measured(self) -> Values:
        return measured(self._node, self._pods)

    async def _come(self, promised: Values) -> Values:
        """Wait for these values; what was found. On a busy machine one may be late; one that is missing is named."""
        found: Values = {}

        def there() -> bool:
            nonlocal found
            found = self._measured()
            return found == promised

        with suppress(AssertionError):
            await eventually(there, "the promised values")
        return found

    async def _shows(self, when: str, before: Values, promised: Values, why: Reasons) -> None:
        found = await self._come(promised)
        self.problems += wrong_values(when, found, promised)
        for one in self._pods:
            self.problems += wrong_status(when, one.pod, await self._kubelet.status(one.container))
        _print(explained(before, found, why, self._width) if why else listed(before, found))


def cgroups(root: Path) -> PlainCgroups:
    """Those of the demo: version 1, whose files are named as the values are, on a kernel that knows bvt."""
    return PlainCgroups(root, 1, CPUS, bvt=True)


def _print(lines: Iterable[str]) -> None:
    print("\n".join(lines))


def _print_indented(text: str) -> None:
    _print((" " * _INDENT + line).rstrip() for line in text.splitlines())


def _hooked(places: Places) -> bool:
    plugins = ask(str(places.relay_admin), "GET", "/v1/hooks")["plugins"]
    return any(one["state"] == "connected" for one in plugins)


def _configured(places: Places) -> bool:
    answer = ask(str(places.agent_admin), "GET", "/v1/status", who="agent")
    return bool(answer["configuration"]["state"] == "applied")


async def tell(folder: Path, recording: Path, width: int) -> list[str]:
    """The whole story; what was not as promised."""
    places = Places(folder)
    policy = ("--policy", _POLICY, "--reserved-resources", "cpu=1")
    places.prepare()
    node = FakeNode(cgroups(places.cgroups))
    print(_PICTURE.format(version=__version__))
    async with (
        serve_runtime(places.runtime, node.runtime),
        running(places, places.relay_admin, "relay", *policy, "--record", str(recording)),
        running(places, places.admin, "hookserver", "--mode", "both", "--no-cpuset") as server,
        demo_cluster(places.kubeconfig) as cluster,
        running(places, places.agent_admin, "agent", *OPTIONS),
        connected(places.cri, node) as kubelet,
    ):
        await eventually(lambda: _hooked(places), "the relay to know the hook server", within=_START)
        await eventually(lambda: _configured(places), "the relay to have the ConfigMap", within=_START)
        story = Story(places, node, kubelet, width)
        await story.begins()
        await story.has_a_guest()
        await story.goes_on()
        await story.is_configured(cluster)
        await story.loses_the_guest()
        await story.ends(server)
        await story.is_over()
    return story.problems


def show_recording(recording: Path, width: int) -> list[str]:
    """The last chapter, when the relay has ended; what was wrong with it."""
    print("\n7. The relay has recorded all calls. Containers that are not as asked for:\n")
    print(f"  $ interpose dump show {recording.name} '{CHANGED}'\n")
    head, *calls = listed_calls(recording, CHANGED, width - _INDENT)
    _print_indented("\n".join((head, *calls)))
    creates = sum("CreateContainer" in line for line in calls)
    return [] if creates == len(PODS) else [f"the recording shows {creates} changed containers of {len(PODS)}"]


def _keep(recording: Path, folder: Path) -> None:
    """Put recording and page there, and say what can be done with them."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = Path(shutil.copy(recording, folder / RECORDING))
    write_page(kept, folder / PAGE)
    print(f"\n  {folder / PAGE} is the same as a page for a browser. Or:\n")
    print(f"  $ interpose dump live {kept}")
    print(f"  $ interpose dump replay {kept} --policy static-plus \\")
    print(f'      --reserved-resources cpu=1 --topology "{MACHINE}"')


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="demo", description="Three pods share a node: who gets what, and why.")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="keep the recording of all calls, and a page of it")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] = ()) -> int:
    """Run in a scratch folder of its own."""
    keep: Path | None = _arguments(arguments).keep
    forget_settings()
    width = min(max(shutil.get_terminal_size().columns, 60), _WIDEST)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="interpose-") as folder,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            recording = Path(folder) / RECORDING
            problems = runner.run(tell(Path(folder), recording, width))
            problems += show_recording(recording, width)
            if keep is not None:
                _keep(recording, keep)
    except (AssertionError, LabError, ConfigError) as error:
        problems = [str(error)]
    for problem in problems:
        print(f"WRONG: {problem}")
    print(f"\n{_BAD if problems else _GOOD}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
