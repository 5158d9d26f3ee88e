"""Which document counts, what is asked of the machine, and that nothing wrong is lost or used in part."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from interpose.config.documents.amounts import CpuAmount
from interpose.config.documents.policy_objects import OBJECT_KEY
from interpose.config.relay.settings import PolicySettings
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.constraints import ExcludedCpus
from interpose.core.policy.static.options import StaticOptions
from interpose.core.policy.static_pools.options import Pool, PoolCpuList, PoolsOptions
from interpose.errors import ConfigError
from interpose.resmgr.config.configuration import AgentConfig, Configuration
from interpose.resmgr.config.sources import HostAccess, Sources

POOLS = {"shared": Pool(exclusive=False, lists=(PoolCpuList(cpus=CpuSet.of([1]), text="1", socket=0),))}
RELAXED = AgentConfig(node_name="n1", data={"policy": "Active: static\nReservedResources: {CPU: 1}"})


@dataclass
class Machine:
    """Cgroups and pool files; what is not there is a problem."""

    cgroups: dict[str, CpuSet] = field(default_factory=dict)
    pool_files: dict[str, Any] = field(default_factory=dict)

    def outside(self) -> HostAccess:
        """What is asked of it."""
        return HostAccess(
            resolve=self.resolve,
            load_pools=self.load_pools,
            pool_paths=self.pool_paths,
            pools_are_missing=self.pools_are_missing,
        )

    def resolve(self, amount: CpuAmount, where: str) -> CpuSet | ExcludedCpus | int:
        if amount.cgroup is not None:
            if amount.cgroup not in self.cgroups:
                raise ConfigError(f"{where}: cgroup {amount.cgroup} has no CPUs")
            return self.cgroups[amount.cgroup]
        if amount.excluded is not None:
            return ExcludedCpus(amount.excluded)
        return amount.cpus if amount.cpus is not None else amount.milli or 0

    def load_pools(self, options: PoolsOptions) -> PoolsOptions:
        """With the pools of the file."""
        if options.conf_file not in self.pool_files:
            raise ConfigError(f"file {options.conf_file}: cannot be read")
        return replace(options, pools=self.pool_files[options.conf_file])

    def pool_paths(self, options: PoolsOptions) -> tuple[str, ...]:
        return (options.conf_file,)

    def pools_are_missing(self, options: PoolsOptions) -> bool:
        """Unless there is one without a name."""
        return not (options.pools or options.conf_file or "" in self.pool_files)


def sources(machine: Machine | None = None, sent: AgentConfig | None = None, **given: Any) -> Sources:
    """With these settings on the command line."""
    origins = {f"policy.{key}": f"flag --{key}" for key in given}
    outside = (machine or Machine()).outside()
    texts: dict[str, Any] = {key: str(value) for key, value in given.items()}
    return Sources(PolicySettings(**texts), origins, sent=sent, host=outside)


def reading(kind: str, file: Path) -> Sources:
    """With a file that is forced or a fallback."""
    given: dict[str, Any] = {kind: file}
    return sources(**given)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.cfg"
    path.write_text("policy:\n  Active: static\n  ReservedResources: {CPU: 750m}\n  static: {RelaxedIsolation: true}\n")
    return path


# -- which document counts


def test_without_any_document_settings_are_all_there_is() -> None:
    """And no file is watched."""
    found = sources(name="static", reserved="cpu=0-1")
    assert found.current() == Configuration(
        policy="static", reserved=CpuSet.of([0, 1]), options=StaticOptions(), origin="settings"
    )
    assert found.watched == ()


@pytest.mark.parametrize("kind", ["config", "fallback"])
def test_a_file_counts(file: Path, kind: str) -> None:
    """Whatever its name ends in; it is watched."""
    found = reading(kind, file)
    assert found.current() == Configuration(
        policy="static", reserved=750, options=StaticOptions(relaxed_isolation=True), origin=f"file {file}"
    )
    assert found.watched == (str(file),)


OBJECT = """\
{"apiVersion": "config.nri/v1alpha1", "kind": "BalloonsPolicy", "metadata": {"namespace": "ns", "name": "default"},
 "spec": {"reservedResources": {"cpu": "exclude-cpuset:2-7"}}}
"""


def test_an_object_of_a_policy_counts_as_a_file(tmp_path: Path) -> None:
    """In the place of a document."""
    path = tmp_path / "policy.yaml"
    path.write_text(OBJECT)
    found = sources(config=path).current()
    assert (found.policy, found.reserved) == ("balloons", ExcludedCpus(CpuSet.parse("2-7")))


def test_an_object_of_a_policy_that_an_agent_sent_is_remembered() -> None:
    """At the next start it is read again, and mistakes name the object."""
    found = sources(sent=AgentConfig(node_name="n1", data={OBJECT_KEY: OBJECT})).load_initial()
    assert (found.policy, found.origin) == ("balloons", "agent of node n1")
    wrong = AgentConfig(node_name="n1", data={OBJECT_KEY: OBJECT.replace("reserved", "reservd")})
    with pytest.raises(ConfigError, match=r"BalloonsPolicy ns/default: spec\.reservdResources: is not a known key"):
        sources().preview_agent_config(wrong)


def test_settings_beat_the_file(file: Path) -> None:
    """A setting replaces its key of the file, and no other."""
    found = sources(config=file, reserved="cpu=2").current()
    assert (found.policy, found.reserved) == ("static", 2000)


def test_a_json_file_is_json(tmp_path: Path) -> None:
    """The name of the file decides about the format."""
    path = tmp_path / "policy.json"
    path.write_text("policy: {Active: static}")
    with pytest.raises(ConfigError, match="is not valid JSON"):
        sources(config=path).current()
    path.write_text('{"policy": {"Active": "static"}}')
    assert sources(config=path).current().policy == "static"


def test_what_the_agent_sent_beats_the_fallback(file: Path) -> None:
    """The fallback file is not even read, and is not watched."""
    file.write_text("{")
    found = sources(sent=RELAXED, fallback=file)
    assert found.current() == Configuration(
        policy="static", reserved=1000, options=StaticOptions(), origin="agent of node n1"
    )
    assert found.watched == ()


def test_a_forced_file_beats_the_agent(file: Path) -> None:
    """And is known by name."""
    found = sources(sent=RELAXED, config=file)
    assert found.forced == str(file)
    assert found.current().origin == f"file {file}"
    assert found.load_initial().origin == f"file {file}"


def test_what_is_tried_for_the_agent_is_not_remembered(file: Path) -> None:
    """Only what was accepted counts from then on."""
    found = sources(fallback=file)
    assert found.preview_agent_config(RELAXED).origin == "agent of node n1"
    assert found.current().origin == f"file {file}"
    found.accept(RELAXED)
    assert found.current().origin == "agent of node n1"


def test_an_agent_that_sends_nothing_takes_back_what_it_sent(file: Path) -> None:
    """The fallback counts again, now and after a restart."""
    found = sources(sent=RELAXED, fallback=file)
    assert found.preview_agent_config(AgentConfig(node_name="n1")).origin == f"file {file}"
    found.accept(AgentConfig(node_name="n1"))
    assert found.current().origin == f"file {file}"
    assert sources(sent=AgentConfig(node_name="n1"), fallback=file).sent is None


def test_keys_for_this_node_count() -> None:
    """By the name the agent has for it."""
    data = {"policy.static": "RelaxedIsolation: false", "policy.static.n1.example": "RelaxedIsolation: true"}
    found = sources(name="static")
    for node, relaxed in (("n1.example", True), ("n2.example", False)):
        assert found.preview_agent_config(AgentConfig(node_name=node, data=data)).options == StaticOptions(
            relaxed_isolation=relaxed
        )


# -- broken ones


def test_the_next_one_stands_in_for_what_the_agent_sent_and_is_broken(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What was sent is kept, files are followed, and the log and the configuration have every reason."""
    sent = AgentConfig(node_name="n1", data={"policy": "Active: x", "policy.static": "Relaxed: 1"})
    found = sources(sent=sent, fallback=file)
    for configuration in (found.load_initial(), found.current()):
        assert configuration.origin == f"file {file}"
        assert len(configuration.fallback_reasons) == 2
    assert found.sent == found.unfit_agent_config() == sent
    assert found.watched == (str(file),)
    (record,) = caplog.records
    assert "Active" in record.__dict__["kv"]["problems"]
    assert "Relaxed" in record.__dict__["kv"]["problems"]


def test_the_next_one_stands_in_for_what_does_not_fit(file: Path) -> None:
    """Until the agent sends something that does."""

    def fits(configuration: Configuration) -> None:
        if configuration.reserved == 1000:
            raise ConfigError("this machine has no CPU to reserve")

    found = sources(sent=RELAXED, fallback=file)
    configuration = found.load_initial(fits)
    assert (configuration.origin, configuration.fallback_reasons) == (
        f"file {file}",
        ("this machine has no CPU to reserve",),
    )
    found.accept(RELAXED)
    assert found.unfit_agent_config() is None
    assert found.current().fallback_reasons == ()


def test_a_stand_in_has_to_fit_as_well(file: Path) -> None:
    """It is for the operator to see."""

    def fits(configuration: Configuration) -> None:
        raise ConfigError("no")

    with pytest.raises(ConfigError, match="no"):
        sources(sent=RELAXED, fallback=file).load_initial(fits)


def test_what_the_agent_sent_is_not_set_aside_later(file: Path) -> None:
    """Then the last good one stays in force, and the fallback is not the last good one."""
    sent = AgentConfig(node_name="n1", data={"policy": "Active: static\nReservedResources: {CPU: 'cgroup:/gone'}"})
    found = sources(sent=sent, fallback=file)
    with pytest.raises(ConfigError, match="reserved CPUs: cgroup /gone has no CPUs"):
        found.current()
    assert found.sent == sent


def test_a_good_one_of_the_agent_counts_at_the_start() -> None:
    """As it did before."""
    assert sources(sent=RELAXED).load_initial().origin == "agent of node n1"


@pytest.mark.parametrize("kind", ["config", "fallback"])
def test_a_broken_file_is_an_error_with_every_problem(file: Path, kind: str) -> None:
    """At the start as well: the operator shall see it. It is watched, so that it can be mended."""
    file.write_text("policy: {Active: x, ReservedResources: {CPU: y}}\nfoo: 1\n")
    found = reading(kind, file)
    with pytest.raises(ConfigError) as caught:
        found.load_initial()
    assert len(caught.value.problems) == 3
    assert all(problem.startswith(f"file {file} line ") for problem in caught.value.problems)
    assert found.watched == (str(file),)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """It is watched all the same."""
    found = sources(config=tmp_path / "x.yaml")
    with pytest.raises(ConfigError, match=r"file .*/x\.yaml: cannot be read: No such file or directory"):
        found.current()
    assert found.watched == (str(tmp_path / "x.yaml"),)


def test_a_file_that_others_can_write_is_refused(file: Path) -> None:
    """Whoever can write it rules over the CPUs of the node."""
    file.chmod(0o666)
    with pytest.raises(ConfigError, match="has mode 0666, everybody may write to it"):
        sources(config=file).current()


def test_parts_without_effect_are_said_once(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """However often the file is read."""
    file.write_text("policy: {Active: none}\nlogger: {Debug: [x]}\n")
    found = sources(config=file)
    for _ in range(3):
        found.current()
    (record,) = caplog.records
    assert record.__dict__["kv"]["warning"].startswith(f"file {file} line 2: logger: ")


def test_what_was_said_is_not_remembered_without_bound(file: Path) -> None:
    """A file that is made by a program may have anything in it."""
    found = sources()
    for number in range(400):
        found.preview_agent_config(AgentConfig(node_name="n", data={f"other{number}": ""}))
    assert len(found._reported) <= 257


# -- the machine


def test_cgroups_are_asked_for_their_cpus() -> None:
    """For both of them."""
    machine = Machine(cgroups={"/a": CpuSet.parse("0-7"), "/r": CpuSet.parse("0")})
    found = sources(machine, available="cpu=/a", reserved="cpu=cgroup:/r").current()
    assert (found.available, found.reserved) == (CpuSet.parse("0-7"), CpuSet.parse("0"))


def test_pools_are_read_from_files() -> None:
    """These files are watched as well."""
    machine = Machine(pool_files={"/pools.yaml": POOLS})
    found = sources(machine, name="static-pools", pools_file="/pools.yaml")
    assert found.current().options == PoolsOptions(pools=POOLS, conf_file="/pools.yaml")
    assert found.watched == ("/pools.yaml",)


def test_everything_wrong_with_the_machine_is_known_at_once(file: Path) -> None:
    """Files that are missing are watched besides the document."""
    file.write_text("policy: {Active: static-pools, static-pools: {ConfFilePath: /gone.yaml}}")
    found = sources(config=file, available="cpu=/a", reserved="cpu=/r")
    with pytest.raises(ConfigError) as caught:
        found.current()
    assert caught.value.problems == [
        "available CPUs: cgroup /a has no CPUs",
        "reserved CPUs: cgroup /r has no CPUs",
        "file /gone.yaml: cannot be read",
    ]
    assert found.watched == (str(file), "/gone.yaml")


def test_the_real_machine_is_asked_unless_another_is_given(tmp_path: Path) -> None:
    """The default answers come from real files."""
    group = tmp_path / "group"
    group.mkdir()
    (group / "cpuset.cpus").write_text("0-1\n")
    settings = PolicySettings(reserved=f"cpu={group}")
    found = Sources(settings, {"policy.reserved": "flag --reserved-resources"})
    assert found.current().reserved == CpuSet.of([0, 1])


def test_real_pool_files_are_read(tmp_path: Path) -> None:
    """By the policy that has some."""
    file = tmp_path / "pools.yaml"
    file.write_text("pools: {shared: {cpuLists: [{Cpuset: '1', Socket: 0}]}}")
    settings = PolicySettings(name="static-pools", pools_file=str(file))
    found = Sources(settings, {"policy.name": "flag --policy", "policy.pools_file": "flag --static-pools-conf-file"})
    assert found.current().options.pools == POOLS
    assert str(file) in found.watched


# -- pools that only an agent has


WAITING: dict[str, Any] = {"name": "static-pools", "config_socket": "/run/x.sock"}


def test_a_relay_starts_without_pools_if_an_agent_may_bring_them() -> None:
    """It decides nothing until then, and says why."""
    found = sources(**WAITING)
    configuration = found.load_initial()
    assert configuration.policy == "none"
    assert "waits for pools from the agent" in configuration.fallback_reasons[0]
    assert found.current() == configuration
    assert found.watched == ("",)
    sent = AgentConfig(
        node_name="n", data={"policy.static-pools": "pools: {shared: {cpuLists: [{Cpuset: 1, Socket: 0}]}}"}
    )
    found = sources(Machine(pool_files={"": POOLS}), **WAITING)
    assert found.preview_agent_config(sent).policy == "static-pools"


@pytest.mark.parametrize(
    "given",
    [
        {"config_socket": "none"},  # nobody can bring any
        {"pools_file": "/gone.yaml"},  # somebody says where they are
        {"pools_dir": "/etc/cmk"},
        {"reserved": "cpu=cgroup:/gone"},  # something else is wrong
    ],
)
def test_anything_else_that_is_missing_is_an_error(given: dict[str, Any]) -> None:
    """For the operator to see."""
    with pytest.raises(ConfigError):
        sources(**{**WAITING, **given}).load_initial()


def test_pools_that_come_and_go_are_not_waited_for_again() -> None:
    """Then the last good configuration stays in force."""
    machine = Machine()
    found = sources(machine, **WAITING)
    assert found.load_initial().policy == "none"
    machine.pool_files[""] = POOLS
    assert found.current().policy == "static-pools"
    machine.pool_files.clear()
    with pytest.raises(ConfigError, match="cannot be read"):
        found.current()


def test_nothing_is_waited_for_that_was_there_at_the_start() -> None:
    """Of files or of the agent."""
    for sent in (None, AgentConfig(node_name="n", data={"policy": "Active: static-pools"})):
        machine = Machine(pool_files={"": POOLS})
        found = sources(machine, sent, **WAITING)
        assert found.load_initial().policy == "static-pools"
        machine.pool_files.clear()
        with pytest.raises(ConfigError, match="cannot be read"):
            found.current()


def test_what_counts_before_a_document_is_said_once(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And is with the configuration."""
    found = sources(config=file, name="static-plus")
    for _ in range(2):
        assert found.current().notes == (f"file {file}: policy.Active: has no effect, flag --name counts before it",)
    (record,) = caplog.records
    assert record.__dict__["kv"]["warning"].startswith(f"file {file}: policy.Active: has no effect")


def test_the_real_directory_of_pools_is_looked_for() -> None:
    """There is none where CMK has it."""
    origins = {"policy.name": "flag --policy"}
    found = Sources(PolicySettings(**WAITING), origins)
    assert found.load_initial().policy == "none"
