"""Another configuration at run time: as a whole or not at all, and only what is in force is remembered."""

import asyncio
import logging
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from interpose.config.relay.settings import PolicySettings
from interpose.errors import ConfigError
from interpose.resmgr.config.apply import ConfigApplier
from interpose.resmgr.config.configuration import AgentConfig, Configuration
from interpose.resmgr.config.sources import Sources
from interpose.testing.eventually import eventually

GOOD = {"policy": "Active: static\nReservedResources: {CPU: 1}"}
OTHER = {"policy": "Active: static\nReservedResources: {CPU: 2}"}


@dataclass
class Node:
    """Applies configurations, unless they reserve 13 or 14 CPUs, and keeps what it is told."""

    applied: list[Configuration] = field(default_factory=list)
    remembered: list[AgentConfig] = field(default_factory=list)
    watched: list[tuple[str, ...]] = field(default_factory=list)
    running: int = 0
    at_once: int = 0
    go: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Nothing stands at first."""
        self.go.set()

    async def apply(self, configuration: Configuration) -> None:
        """Put in force or refuse."""
        self.running += 1
        self.at_once = max(self.at_once, self.running)
        await self.go.wait()
        self.running -= 1
        if configuration.reserved == 13_000:
            raise ConfigError(["container a has no place", "container b has no place"])
        if configuration.reserved == 14_000:
            raise RuntimeError("oh")
        self.applied.append(configuration)

    @property
    def reserved(self) -> list[object]:
        """What was put in force, by what it reserves."""
        return [configuration.reserved for configuration in self.applied]

    def reconfiguring(self, sent: AgentConfig | None = None, **settings: str) -> ConfigApplier:
        """As it is after a start."""
        origins = {f"policy.{key}": f"flag --{key}" for key in settings}
        sources = Sources(PolicySettings(**settings), origins, sent=sent)  # type: ignore[arg-type]
        return ConfigApplier(
            sources,
            sources.load_initial(),
            self.apply,
            remember=self.remembered.append,
            watch=self.watched.append,
        )


@pytest.fixture
def node() -> Node:
    return Node()


def write(path: Path, reserved: int) -> None:
    """A document that reserves so many CPUs."""
    path.write_text(f"policy: {{Active: static, ReservedResources: {{CPU: {reserved}}}}}")


def spoil(path: Path) -> None:
    """A document with two mistakes."""
    path.write_text("policy: {Active: x, ReservedResources: {CPU: y}}")


def problems(changing: ConfigApplier) -> list[str]:
    """What is wrong with the files now."""
    return list(changing.problems)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A document that reserves one CPU."""
    path = tmp_path / "policy.yaml"
    write(path, 1)
    return path


async def test_what_the_agent_sends_is_put_in_force_and_remembered(node: Node) -> None:
    """It is the current one from then on."""
    changing = node.reconfiguring()
    await changing.apply_agent_config(GOOD, "n")
    assert node.reserved == [1000]
    assert changing.in_force.origin == "agent of node n"
    assert node.remembered == [AgentConfig(node_name="n", data=GOOD)]
    assert node.watched == [()]


async def test_what_is_in_force_already_is_not_applied_again(node: Node) -> None:
    """It may be said in other words; those are remembered."""
    changing = node.reconfiguring()
    await changing.apply_agent_config(GOOD, "n")
    await changing.apply_agent_config({**GOOD, "logger": "x"}, "n")
    assert node.reserved == [1000]
    assert len(node.remembered) == 2


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("Active: x\nReservedResources: {CPU: y}", 2),  # cannot be read
        ("Active: static\nReservedResources: {CPU: 13}", 2),  # cannot be applied
    ],
)
async def test_a_bad_one_of_the_agent_changes_nothing(node: Node, text: str, reasons: int) -> None:
    """Whoever sent it gets every reason."""
    changing = node.reconfiguring()
    await changing.apply_agent_config(GOOD, "n")
    with pytest.raises(ConfigError) as caught:
        await changing.apply_agent_config({"policy": text}, "n")
    assert len(caught.value.problems) == reasons
    assert changing.in_force.reserved == 1000
    assert problems(changing) == []
    assert node.remembered == [AgentConfig(node_name="n", data=GOOD)]
    await changing.reload_files()
    assert node.reserved == [1000]


async def test_a_forced_file_cannot_be_overruled(node: Node, file: Path) -> None:
    """The agent gets an error that names the file."""
    changing = node.reconfiguring(config=str(file))
    with pytest.raises(ConfigError, match=f"configuration is forced by {file}"):
        await changing.apply_agent_config(OTHER, "n")
    assert node.applied == []


async def test_a_changed_file_is_put_in_force(node: Node, file: Path) -> None:
    """One that says the same is not."""
    changing = node.reconfiguring(config=str(file))
    await changing.reload_files()
    write(file, 2)
    await changing.reload_files()
    assert node.reserved == [2000]
    assert changing.in_force.reserved == 2000
    assert node.watched == [(str(file),), (str(file),)]


async def test_a_broken_file_leaves_the_last_good_one(node: Node, file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Everything wrong with it is shown, and logged once; when it is good again nothing is."""
    changing = node.reconfiguring(config=str(file))
    spoil(file)
    await changing.reload_files()
    await changing.reload_files()
    assert len(problems(changing)) == 2
    assert changing.in_force.reserved == 1000
    (record,) = caplog.records
    assert all(problem in record.__dict__["kv"]["problems"] for problem in changing.problems)
    write(file, 1)
    with caplog.at_level(logging.INFO):
        await changing.reload_files()
    assert problems(changing) == []
    assert node.applied == []
    assert caplog.records[-1].getMessage() == "Configuration is valid again"


async def test_a_file_that_cannot_be_applied_leaves_the_last_good_one(node: Node, file: Path) -> None:
    """The reasons are shown."""
    changing = node.reconfiguring(config=str(file))
    write(file, 13)
    await changing.reload_files()
    assert problems(changing) == ["container a has no place", "container b has no place"]
    assert changing.in_force.reserved == 1000


async def test_a_mistake_of_ours_is_shown_too(node: Node, file: Path) -> None:
    """And the next version is looked at."""
    changing = node.reconfiguring(config=str(file))
    write(file, 14)
    await changing.reload_files()
    assert problems(changing) == [f"file {file}: RuntimeError: oh"]
    write(file, 2)
    await changing.reload_files()
    assert (problems(changing), node.reserved) == ([], [2000])


async def test_the_fallback_does_not_come_back(node: Node, file: Path) -> None:
    """Once the agent has sent something, changes to the fallback file mean nothing."""
    changing = node.reconfiguring(fallback=str(file))
    await changing.apply_agent_config(OTHER, "n")
    write(file, 3)
    await changing.reload_files()
    assert node.reserved == [2000]
    assert node.watched == [(), ()]


async def test_problems_of_the_fallback_end_with_the_agent(node: Node, file: Path) -> None:
    """What is wrong with a file that does not count is of no interest."""
    changing = node.reconfiguring(fallback=str(file))
    spoil(file)
    await changing.reload_files()
    assert problems(changing) != []
    await changing.apply_agent_config(OTHER, "n")
    assert problems(changing) == []


async def test_an_agent_that_takes_it_back_brings_the_fallback(node: Node, file: Path) -> None:
    """Which is watched again."""
    changing = node.reconfiguring(fallback=str(file))
    await changing.apply_agent_config(OTHER, "n")
    await changing.apply_agent_config({}, "n")
    assert node.reserved == [2000, 1000]
    assert node.watched[-1] == (str(file),)


async def test_agent_and_files_do_not_meet(node: Node, file: Path) -> None:
    """A fallback that was read before the agent sent something is not applied after it."""
    changing = node.reconfiguring(fallback=str(file))
    write(file, 3)
    node.go.clear()
    async with asyncio.TaskGroup() as group:
        group.create_task(changing.reload_files())
        await eventually(lambda: node.running, "the file to be applied")
        group.create_task(changing.apply_agent_config(OTHER, "n"))
        group.create_task(changing.reload_files())
        await asyncio.sleep(0)
        node.go.set()
    assert node.reserved == [3000, 2000]
    assert node.at_once == 1
    assert changing.in_force.origin == "agent of node n"


# -- another machine


async def test_the_machine_changes_under_what_is_in_force(node: Node) -> None:
    """It is brought there; what cannot be is told."""
    changing = node.reconfiguring()
    await changing.apply_agent_config(GOOD, "n")
    await changing.follow_machine(node.apply)
    assert node.reserved == [1000, 1000]

    async def refuse(_configuration: Configuration) -> None:
        raise ConfigError("no")

    with pytest.raises(ConfigError, match="no"):
        await changing.follow_machine(refuse)
    assert changing.in_force.reserved == 1000


async def test_what_the_agent_sent_is_tried_again_on_another_machine(
    node: Node, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Something else stood in for it. It is in force if it fits, and else what stands in is."""
    group = tmp_path / "group"
    data = {"policy": f"Active: static\nReservedResources: {{CPU: 'cgroup:{group}'}}"}
    changing = node.reconfiguring(AgentConfig(node_name="n", data=data))
    assert changing.in_force.fallback_reasons != ()
    with caplog.at_level(logging.WARNING, "interpose"):
        await changing.follow_machine(node.apply)
        await changing.follow_machine(node.apply)
    assert caplog.text.count("still does not fit") == 1
    assert [configuration.policy for configuration in node.applied] == ["none", "none"]
    group.mkdir()
    (group / "cpuset.cpus").write_text("0")
    await changing.follow_machine(node.apply)
    assert changing.in_force.origin == "agent of node n"
    assert changing.in_force.fallback_reasons == ()
    assert node.applied[2:] == [changing.in_force]
    await changing.reload_files()
    assert len(node.applied) == 3
