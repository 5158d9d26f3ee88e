"""A policy put together: what is wrong with it is found before the relay has its sockets."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interpose.cli.relay.policy import make_policy_service
from interpose.cli.relay.policy_wanted import state_path
from interpose.config.relay.settings import PolicySettings, RelaySettings
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Grant
from interpose.core.policy.request import Amounts, Key
from interpose.errors import ConfigError
from interpose.net.grpc.transport import Hub
from interpose.resmgr.config.configuration import Configuration
from interpose.resmgr.service import PolicyService, make_policy
from interpose.resmgr.state.state import SavedEntry, State, encode
from tests.support.policy.machines import machine
from tests.support.policy.sysfs_tree import write_sysfs

ENTRY = SavedEntry(key=Key("p", "c"), container_id="i", grant=Grant(exclusive=CpuSet.parse("2")), amounts=Amounts())
STATIC: dict[str, Any] = {"name": "static", "reserved": "cpu=1"}


def settings_of(folder: Path, **said: Any) -> PolicySettings:
    """Settings of a relay whose machine and state are in a folder."""
    return PolicySettings(state_dir=str(folder / "state"), host_root=str(folder / "host"), **said)


def part(folder: Path, **said: Any) -> PolicyService:
    """The policy of a relay with these settings, as said on its command line."""
    settings = replace(RelaySettings(), policy=settings_of(folder, **said))
    origins = {f"policy.{name}": f"--{name}" for name in said}
    return make_policy_service(settings, _Said(origins), Hub())


class _Said(dict[str, str]):
    """Where settings come from."""

    def __missing__(self, key: str) -> str:
        return "default"


def remember(folder: Path, state: State) -> Path:
    """An earlier run left this."""
    path = state_path(settings_of(folder))
    path.parent.mkdir(mode=0o700)
    path.write_bytes(encode(state))
    path.chmod(0o600)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a machine of 16 CPUs."""
    write_sysfs(machine("n4c16"), tmp_path / "host")
    return tmp_path


def test_a_machine_that_cannot_be_read_is_told_by_setting(tmp_path: Path) -> None:
    """There is nothing to decide about without CPUs."""
    with pytest.raises(ConfigError, match=r"policy\.host_root: the machine cannot be read"):
        part(tmp_path, **STATIC)


def test_a_policy_that_cannot_work_here_is_told(folder: Path) -> None:
    """Before anything is in force."""
    with pytest.raises(ConfigError, match="reserved resources: CPUs 99 of 99 do not exist"):
        part(folder, name="static", reserved="cpu=cpuset:99")
    with pytest.raises(ConfigError, match="reserved resources"):
        part(folder, name="static")


def test_a_policy_that_may_not_be_switched(folder: Path) -> None:
    """Containers run under another one; allowed, it takes over."""
    remember(folder, State(policy="static-plus", fingerprint=machine("n4c16").fingerprint, entries=(ENTRY,)))
    with pytest.raises(ConfigError, match=r"policy\.switch: containers run under policy static-plus"):
        part(folder, **STATIC, switch=False)
    part(folder, **STATIC)


def test_state_of_another_machine_is_set_aside(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The file is kept; what an agent sent still counts."""
    config = {"policy": "Active: static\nReservedResources: {CPU: 2}"}
    path = remember(folder, State(policy="static", fingerprint="x", entries=(ENTRY,), config=config, config_node="n"))
    with caplog.at_level(logging.WARNING, "interpose"):
        made = part(folder)
    assert "Saved policy state set aside" in caplog.text
    assert not path.exists()
    assert [one.name for one in path.parent.iterdir()] != []
    assert made._configuration.policy == "static"


def test_a_damaged_state_file_does_not_stop_a_relay(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The runtime is believed instead."""
    path = remember(folder, State())
    path.write_bytes(b"{")
    with caplog.at_level(logging.ERROR, "interpose"):
        part(folder, **STATIC)
    assert "Saved policy state set aside" in caplog.text


def test_what_an_agent_sent_and_does_not_fit_any_more_does_not_stop_a_start(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The node goes on with its settings, and says so."""
    config = {"policy": "Active: static\nReservedResources: {CPU: 99}"}
    remember(folder, State(config=config, config_node="n"))
    with caplog.at_level(logging.ERROR, "interpose"):
        made = part(folder)
    assert "Agent configuration" in caplog.text
    assert made._configuration.policy == "none"


def test_a_file_that_does_not_fit_stops_the_start(folder: Path) -> None:
    """It is for the operator to see, whatever an agent sent."""
    remember(folder, State(config={"policy": "Active: none"}, config_node="n"))
    file = folder / "policy.cfg"
    file.write_text("policy: {Active: static, ReservedResources: {CPU: 99}}\n")
    with pytest.raises(ConfigError, match="99000m CPUs cannot be reserved"):
        part(folder, config=str(file))


def test_the_interceptor_is_there_once_it_has_a_place(folder: Path) -> None:
    """Not before."""
    with pytest.raises(RuntimeError, match="no place in the chain"):
        _ = part(folder, **STATIC).interceptor


def test_of_what_a_predecessor_left_counts_what_is_of_this_machine(folder: Path) -> None:
    """Anything else is as good as nothing."""
    state = State(policy="static", fingerprint=machine("n4c16").fingerprint, entries=(ENTRY,))
    made = part(folder, **STATIC)
    for memory in (None, {"state": "x"}, {"state": encode(State(fingerprint="x")).decode(), "pending": []}):
        made.inherit(memory)
        assert made._state == State()
    made.inherit({"state": encode(state).decode(), "pending": []})
    assert made._state == state


def test_a_configuration_makes_its_policy() -> None:
    """On a machine."""
    made = make_policy(Configuration(policy="none"), machine("laptop"))
    assert made.fallback == CpuSet.parse("0-1")
