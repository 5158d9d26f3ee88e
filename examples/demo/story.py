"""The demo's chapters: something happens on the node, is shown, and is held against the table."""

import asyncio
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from examples.demo.cluster import NARROW, NARROWED, SLIP, SOURCE, WIDE, condition_text, publish, wrong_condition
from examples.demo.node import Node, Seen
from examples.demo.parts import (
    AFTER,
    BEFORE,
    CONTAINER,
    EXIT_CODE,
    FAILING,
    GPU,
    GUEST,
    LAST_WORDS,
    NAMESPACE,
    PODS,
    RESIDENTS,
    edit,
)
from examples.demo.places import MANIFESTS, Places
from examples.demo.programs import START, Shell, until
from examples.demo.report import (
    ARRIVED,
    ASKED,
    EDITED,
    LEFT,
    RESTORED,
    STARTED,
    Reasons,
    Values,
    edited,
    explained,
    listed,
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
from interpose.cli.common.admin_client import ask
from interpose.core.model.cgroup import Parameter
from tests.support.kube.agent_stack import Cluster
from tests.support.lab.processes import Child
from tests.support.lab.relay import program

POLICY: Final = "static"
CREATED: Final = len(PODS) + 2  # the one that fails, twice; on a slow machine it comes to more
_WAIT: Final = re.compile(r'"Container restart delayed \(back-off\)" .* reason="(back-off \d+ s)')


class Story:
    """What happens, one chapter after the other, and what was wrong with it."""

    def __init__(self, places: Places, node: Node, shell: Shell, width: int) -> None:
        self.problems: list[str] = []
        self._places = places
        self._node = node
        self._shell = shell
        self._width = width
        self._pods: dict[str, Seen] = {}

    async def begins(self) -> None:
        """Pods start, and have their values from the start."""
        await self._run(pod.name for pod in RESIDENTS)
        await self._shell.run("interpose pod ls")
        print("\n   Asked for -> in the cgroup, from the creation of containers on, and why:")
        found = await self._checked("started", STARTED)
        _print(explained(RESTORED, found, await self._reasons(), self._width))
        for one in self._pods.values():
            self.problems += wrong_request(one.pod, self._node.told(one))

    async def sees_a_failure(self, manager: Child) -> None:
        """A pod that fails is started again, and then has to wait; with its manifest it goes."""
        print("\n2. One that fails is started again: at once, then after growing waits.")
        await self._shell.run(f"cp {FAILING}.yaml {MANIFESTS}")

        async def waits() -> str:
            return _waits(manager)

        said = await until(waits, "a container that waits")
        shown = await self._shell.run("interpose pod ls")
        if not re.search(rf"{FAILING} .* 1 ", shown):
            self.problems.append(f"{FAILING} was not started again: {shown}")
        logged = await self._shell.run(f"interpose pod logs {NAMESPACE}/{FAILING}")
        if LAST_WORDS not in logged:
            self.problems.append(f"{FAILING} did not say {LAST_WORDS!r} but {logged!r}")
        if set(codes := await self._node.exit_codes(FAILING)) != {EXIT_CODE}:
            self.problems.append(f"{FAILING} ended with {codes}, not {EXIT_CODE}")
        print(f"\n   Now it has to wait ({said}). It goes with its manifest:")
        await self._shell.run(f"rm {MANIFESTS}/{FAILING}.yaml")
        await self._gone(FAILING)

    async def has_a_guest(self) -> None:
        """A pod comes that gets CPUs of its own, and the others make room."""
        print("\n3. A Guaranteed pod comes. The others make room before it is created:")
        others = tuple(self._pods.values())
        await self._shell.run(f"cp {GUEST.name}.yaml {MANIFESTS}")
        await self._run(pod.name for pod in PODS)
        guest = self._pods[GUEST.name]
        created = (await self._node.status(guest)).created_at
        changed = {one.pod.name: self._node.changed_at(one, Parameter.CPUSET_CPUS) for one in others}
        self.problems += wrong_order(created, changed) + wrong_request(GUEST, self._node.told(guest))
        why = {spot: text for spot, text in (await self._reasons()).items() if spot.pod == GUEST.name}
        await self._shows("arrived", {**ASKED, **STARTED}, ARRIVED, why)
        print("\n   The scheduler chose a GPU for it. The hook server tells its process:")
        script = "echo $NVIDIA_VISIBLE_DEVICES"
        shown = await self._shell.run(f"interpose pod exec {NAMESPACE}/{GUEST.name} -- sh -c '{script}'")
        if shown.strip() != GPU:
            self.problems.append(f"{GUEST.name} has GPU {shown.strip()!r}, not {GPU}")
        await self._shell.run("interpose topology --show-assignments -o picture")

    async def goes_on(self) -> None:
        """The node's policy is edited, and running pods follow."""
        print("\n4. nodeslo.yaml is edited while they run:")
        print("\n".join(edited(BEFORE, AFTER)))
        began = asyncio.get_running_loop().time()
        edit(self._places.nodeslo, AFTER)
        await self._come(EDITED)
        print(f"   {_since(began)} ms later:")
        await self._shows("edited", ARRIVED, EDITED, await self._reasons())

    async def is_configured(self, cluster: Cluster) -> None:
        """The cluster's configuration is edited and reaches the relay; a slip does not."""
        print(f"\n5. ConfigMap {SOURCE} is edited: pods get half the node:")
        began = self._publish(cluster, WIDE, NARROW)
        await self._come(NARROWED)
        print(f"   {_since(began)} ms later:")
        await self._shows("configured", EDITED, NARROWED, {})
        print("\n   The next edit has a slip. It is refused, and what was in force stays:")
        self._publish(cluster, NARROW, SLIP)
        await self._shows_refusal(cluster)
        print("\n   It is put right, and they have all CPUs again:")
        self._publish(cluster, SLIP, WIDE)
        await self._come(EDITED)
        await self._shows("configured back", NARROWED, EDITED, {})

    async def loses_the_guest(self) -> None:
        """Its CPUs go back to the others when its container has ended."""
        print(f"\n6. {NAMESPACE}/{GUEST.name} ends, and the others have its CPUs:")
        await self._shell.run(f"rm {MANIFESTS}/{GUEST.name}.yaml")
        await self._gone(GUEST.name)
        await self._run(pod.name for pod in RESIDENTS)
        await self._shows("left", without_guest(EDITED), LEFT, {})

    async def ends(self, server: Child) -> None:
        """The hook server goes, and everything is as if it had never been there."""
        print("\n7. The hook server stops; `interpose hookserver --restore` puts it all back:")
        await asyncio.to_thread(server.stop)
        log = self._places.folder / "restore.log"
        with Child([str(program()), "hookserver", "--restore"], log=log, env=self._places.environment()) as restore:
            if (code := await asyncio.to_thread(restore.wait)) != 0:
                self.problems.append(f"--restore ended with {code}: {restore.log_tail()}")
        await self._shows("restored", LEFT, RESTORED, {})
        self.problems += wrong_leftovers(self._node.everything(), self._node.untouched(self._pods.values()))

    async def is_over(self, manager: Child) -> None:
        """The manager ends its pods; what passed is counted."""
        if (code := await asyncio.to_thread(manager.stop, START)) != 0:
            self.problems.append(f"pod run ended with {code}: {manager.log_tail()}")
        self.problems += [f"pod {name} was not removed" for name in await self._node.pods()]

        async def clean() -> bool:
            return not self._node.leftovers()

        with suppress(AssertionError):
            await until(clean, "everything to be removed")
        self.problems += [f"{path} was not removed" for path in self._node.leftovers()]
        self.problems += wrong_calls(await self._asked_relay("/v1/methods"), {"CreateContainer": CREATED})

    # -- parts of chapters

    async def _run(self, names: Iterable[str]) -> None:
        """Wait until these run, and no others of the table."""
        wanted = set(names)

        async def there() -> bool:
            self._pods = await self._node.seen()
            return set(self._pods) == wanted

        await until(there, f"pods {', '.join(sorted(wanted))}")

    async def _gone(self, name: str) -> None:
        async def away() -> bool:
            return name not in await self._node.pods()

        await until(away, f"pod {name} to be gone")

    async def _reasons(self) -> Reasons:
        found = reasons(await asyncio.to_thread(ask, str(self._places.admin), "GET", "/v1/values"))
        for one in self._pods.values():
            report = await self._asked_relay(f"/v1/policy/containers/{NAMESPACE}/{one.pod.name}/{CONTAINER}")
            found |= policy_reason(one.pod, POLICY, report)
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
        _print(condition_text(cluster.condition, self._width))

    async def _come(self, promised: Values) -> Values:
        """Wait for these values; what was found. On a busy machine one may be late; one that is missing is named."""
        found: Values = {}

        async def there() -> bool:
            nonlocal found
            found = self._node.measured(self._pods.values())
            return found == promised

        with suppress(AssertionError):
            await until(there, "the promised values")
        return found

    async def _checked(self, when: str, promised: Values) -> Values:
        """What there is in files, held against what must be there, and what the manager sees."""
        found = await self._come(promised)
        self.problems += wrong_values(when, found, promised)
        for one in self._pods.values():
            self.problems += wrong_status(when, one.pod, await self._node.status(one))
        return found

    async def _shows(self, when: str, before: Values, promised: Values, why: Reasons) -> None:
        found = await self._checked(when, promised)
        _print(listed(before, found, why, self._width))


def _waits(manager: Child) -> str:
    """What the manager says of one that has to wait."""
    found = _WAIT.search(manager.log_tail())
    return found[1] if found else ""


def _since(began: float) -> str:
    return f"{(asyncio.get_running_loop().time() - began) * 1000:.0f}"


def _print(lines: Iterable[str]) -> None:
    print("\n".join(lines), flush=True)
