"""What happens to containers, with the words of dockerd."""

import json

import pytest

from tests.support.docker.fake.containers import Container
from tests.support.docker.fake.engine import Engine, signal_number
from tests.support.docker.fake.errors import DockerError


@pytest.fixture
def engine() -> Engine:
    """Without containers."""
    return Engine(now=lambda: 1000.0)


def create(engine: Engine, name: str = "web", **host: object) -> Container:
    """A container of the test image."""
    body = {"Image": "localhost/busybox:latest", "Labels": {"app": "web"}, "HostConfig": host}
    return engine.create(name, json.dumps(body).encode())


def actions(engine: Engine) -> list[str]:
    """What happened."""
    return [event["Action"] for event in engine.events]


def test_a_life(engine: Engine) -> None:
    """Each step once; a second time it is so already."""
    one = create(engine)
    assert engine.start(one)
    assert not engine.start(one)
    assert engine.stop(one)
    assert not engine.stop(one)
    engine.restart(one)
    engine.kill(one, "web", "")
    assert (one.status, one.exit_code, one.exits) == ("exited", 137, 2)
    engine.remove(one, force=False)
    assert engine.containers == {}
    assert actions(engine) == [
        *("create", "start", "kill", "die", "stop", "start", "restart", "kill", "die", "destroy"),
    ]


def test_finding(engine: Engine) -> None:
    """By id, name, name with a slash, and the beginning of an id that fits one only."""
    one, two = create(engine), create(engine, "db")
    for ref in (one.id, "web", "/web", one.id[:12]):
        assert engine.find(ref) is one
    with pytest.raises(DockerError, match="No such container: nope"):
        engine.find("nope")
    two_prefix = one.id[0]
    two.id = two_prefix + two.id[1:]
    engine.containers = {one.id: one, two.id: two}
    with pytest.raises(DockerError, match="Multiple IDs"):
        engine.find(two_prefix)


@pytest.mark.parametrize(
    ("name", "image", "status", "text"),
    [
        ("web", "localhost/busybox", 409, 'The container name "/web" is already in use by container'),
        ("-x", "localhost/busybox", 400, "Invalid container name"),
        ("new", "nope", 404, "No such image: nope:latest"),
    ],
)
def test_what_cannot_be_made(engine: Engine, name: str, image: str, status: int, text: str) -> None:
    """Nothing is left of it."""
    create(engine)
    with pytest.raises(DockerError, match=text) as refused:
        engine.create(name, json.dumps({"Image": image}).encode())
    assert (refused.value.status, len(engine.containers)) == (status, 1)


def test_updates_leave_what_they_do_not_name(engine: Engine) -> None:
    """Zero and empty are no values."""
    one = create(engine, CpuShares=100, CpusetCpus="0", Memory=100 << 20)
    engine.update(one, b'{"CpuShares":0,"CpuQuota":5000,"CpusetCpus":"","cpusetmems":"0"}')
    assert (one.host["CpuShares"], one.host["CpuQuota"], one.host["CpusetCpus"]) == (100, 5000, "0")
    assert one.host["CpusetMems"] == "0"
    with pytest.raises(DockerError, match="update the memoryswap at the same time"):
        engine.update(one, b'{"Memory":314572800}')
    engine.update(one, b'{"Memory":314572800,"MemorySwap":314572800}')
    assert one.host["Memory"] == 300 << 20
    with pytest.raises(DockerError, match="Minimum memory limit"):
        engine.update(one, b'{"Memory":1}')


def test_a_running_container_is_removed_by_force_only(engine: Engine) -> None:
    """Then it is killed first."""
    one = create(engine)
    engine.start(one)
    with pytest.raises(DockerError, match="You cannot remove a running container"):
        engine.remove(one, force=False)
    engine.remove(one, force=True)
    assert actions(engine)[-3:] == ["kill", "die", "destroy"]
    assert one.removed


def test_signals(engine: Engine) -> None:
    """Some end the process, others are just sent; one that does not run gets none."""
    one = create(engine)
    with pytest.raises(DockerError, match="Cannot kill container: web"):
        engine.kill(one, "web", "KILL")
    engine.start(one)
    engine.kill(one, "web", "SIGUSR1")
    assert one.running
    engine.kill(one, "web", "15")
    assert one.exit_code == 143
    assert (signal_number(""), signal_number("sigkill"), signal_number("9")) == (9, 9, 9)
    with pytest.raises(DockerError, match="Invalid signal: NOPE"):
        signal_number("NOPE")


def test_a_name_is_free_after_a_rename(engine: Engine) -> None:
    """And taken ones are not."""
    one, two = create(engine), create(engine, "db")
    with pytest.raises(DockerError, match="already in use"):
        engine.rename(two, "web")
    engine.rename(one, "old")
    engine.rename(two, "web")
    assert engine.find("web") is two
    assert engine.events[-1]["Actor"]["Attributes"]["oldName"] == "/db"


def test_containers_that_remove_themselves(engine: Engine) -> None:
    """Once they end."""
    one = create(engine, AutoRemove=True)
    engine.start(one)
    engine.exited(one.id, 2)
    assert engine.containers == {}


def test_a_crash_ends_what_runs_and_tells_nobody(engine: Engine) -> None:
    """As after a restart of dockerd."""
    one, two = create(engine), create(engine, "idle")
    engine.start(one)
    told = len(engine.events)
    engine.crash()
    assert (one.status, one.exit_code, two.status, len(engine.events)) == ("exited", 255, "created", told)


def test_processes_inside(engine: Engine) -> None:
    """Only in a container that runs, and with a command."""
    one = create(engine)
    with pytest.raises(DockerError, match="is not running"):
        engine.make_exec(one, b'{"Cmd":["true"]}')
    engine.start(one)
    with pytest.raises(DockerError, match="No exec command"):
        engine.make_exec(one, b"{}")
    inside = engine.make_exec(one, b'{"Cmd":["false"],"AttachStdout":true}')
    engine.begin_exec(inside)
    engine.end_exec(inside, 1)
    assert (inside.begun, inside.running, inside.exit_code) == (True, False, 1)
    assert engine.find_exec(inside.id) is inside
    engine.remove(one, force=True)
    with pytest.raises(DockerError, match="No such exec instance"):
        engine.find_exec(inside.id)
