"""What is noted of a container whose last update may have been cut off."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from interpose.core.model.cgroup import CLEAR, Level, Parameter, Value
from interpose.hooks.server.context import Wish
from interpose.hooks.server.evaluate import PluginResults
from interpose.hooks.server.node.rules import PluginRules, make_rules
from interpose.hooks.server.plugin import NodeInputs
from interpose.hooks.server.proxy.side_effects import ProxyEffects
from interpose.hooks.server.targets import ActuatorTarget
from interpose.testing.qospods import ls_pod
from tests.support.hooks.parts import HookParts

QUOTA, CPUS = Parameter.CPU_QUOTA, Parameter.CPUSET_CPUS


class Hooked:
    """Effects around a node with one LS pod."""

    def __init__(self) -> None:
        self.parts = HookParts()
        self.sandbox = ls_pod(self.parts.node, "web")
        self.key = self.sandbox.containers[0]

    def effects(self, looked_at: Callable[[str], bool]) -> ProxyEffects:
        """With this said about which records are of just now."""
        parts = self.parts
        return ProxyEffects(
            plugins=parts.plugins,
            rules=lambda: make_rules(parts.plugins, NodeInputs(), PluginRules()),
            runner=parts.runner,
            inventory=parts.inventory,
            applier=parts.applier,
            journal=parts.journal,
            sync=parts.sync,
            remove_pod_state=lambda _uid: None,
            pools_changed=lambda: None,
            is_refreshed=looked_at,
        )

    async def update(self, parameter: Parameter, value: Value, *, looked_at: bool) -> Value | None:
        """An update that gives the container something else; what is noted as the value before."""
        store = self.parts.store
        container = store.containers[self.key]
        verdict = PluginResults(values={parameter: ("toy", Wish(value, "told so"))})
        await self.effects(lambda key: looked_at and key == self.key).on_update(
            store.pods[self.sandbox.id], container, verdict
        )
        entry = self.parts.journal.get(Level.CONTAINER, self.key, parameter)
        assert entry is not None
        return entry.before

    def note(self, parameter: Parameter, *, written: Value, before: Value) -> None:
        """What it was given the last time, and the time before."""
        target = ActuatorTarget(level=Level.CONTAINER, key=self.key)
        self.parts.journal.note(target, parameter, found=None, written=written, plugin="toy", before=before)

    def remember(self, **resources: int | str) -> None:
        """What the runtime says of it."""
        record = self.parts.store.containers[self.key]
        has = replace(record.resources, **resources)  # type: ignore[arg-type]
        self.parts.store.put_container(replace(record, resources=has))


@pytest.fixture
async def hooked() -> AsyncIterator[Hooked]:
    """In step with the runtime."""
    made = Hooked()
    await made.parts.sync.resync()
    yield made
    await made.parts.close()


async def test_what_the_container_has_is_noted_if_it_was_just_looked_at(hooked: Hooked) -> None:
    """The last update was taken back: what is there is from the time before."""
    hooked.note(QUOTA, written=50_000, before=90_000)
    hooked.remember(cpu_quota=90_000)
    assert await hooked.update(QUOTA, 40_000, looked_at=True) == 90_000


async def test_nothing_of_its_own_is_noted_as_such(hooked: Hooked) -> None:
    """The runtime's word for a cleared set is none."""
    hooked.note(CPUS, written="0", before=CLEAR)
    hooked.remember(cpuset_cpus="")
    assert await hooked.update(CPUS, "1", looked_at=True) is CLEAR


async def test_an_old_record_says_nothing(hooked: Hooked) -> None:
    """The update of a kubelet comes at any time: the last one is taken to have come to be."""
    hooked.note(QUOTA, written=50_000, before=90_000)
    hooked.remember(cpu_quota=90_000)
    assert await hooked.update(QUOTA, 40_000, looked_at=False) == 50_000


async def test_a_value_of_somebody_else_is_not_ours(hooked: Hooked) -> None:
    """What it has now is neither of both."""
    hooked.note(QUOTA, written=50_000, before=90_000)
    hooked.remember(cpu_quota=70_000)
    assert await hooked.update(QUOTA, 40_000, looked_at=True) == 50_000
