"""Cookies for groups of containers: made once, handed on by the living, never mixed up."""

import errno
import os
from collections.abc import Callable

import pytest

from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter, Value
from interpose.hooks.server.actuators import core_sched as core_sched_actuator
from interpose.hooks.server.actuators.api import Actuator
from interpose.hooks.server.actuators.core_sched import MIXED, CoreSchedActuator
from interpose.hooks.server.targets import ActuatorTarget
from interpose.host.coresched import CoreSchedOperation
from tests.support.hooks.fake_core_sched import FakeCoreSched

GROUP = Parameter.CORE_SCHED


class FakeNode:
    """Containers with processes: the part of a cgroup tree that is needed, and the cookies."""

    def __init__(self) -> None:
        self.kernel = FakeCoreSched()
        self.cgroups: dict[str, list[int]] = {}
        self.failing: dict[str, int] = {}  # directory -> errno

    def start(self, directory: str, *pids: int) -> ActuatorTarget:
        """A container with processes that come from outside."""
        self.cgroups[directory] = list(pids)
        for pid in pids:
            self.kernel.spawn(pid)
        return ActuatorTarget(level=Level.CONTAINER, key=directory, directory=directory)

    def execute(self, directory: str, pid: int) -> None:
        """Somebody outside starts one more process in a container."""
        self.cgroups[directory].append(pid)
        self.kernel.spawn(pid)

    def fork(self, directory: str, parent: int, child: int) -> None:
        """A process of a container starts another."""
        self.cgroups[directory].append(child)
        self.kernel.fork(parent, child)

    def kill(self, pid: int) -> None:
        """A process ends."""
        self.kernel.kill(pid)
        for pids in self.cgroups.values():
            if pid in pids:
                pids.remove(pid)

    def stop(self, directory: str) -> None:
        """A container ends."""
        for pid in list(self.cgroups[directory]):
            self.kill(pid)
        del self.cgroups[directory]

    def once(self, operation: CoreSchedOperation, what: Callable[[], None]) -> None:
        """Let something happen just before the next operation of this kind."""

        def meanwhile(now: CoreSchedOperation, _pid: int) -> None:
            if now is operation:
                self.kernel.meanwhile = lambda _operation, _pid: None
                what()

        self.kernel.meanwhile = meanwhile

    def processes(self, directory: str) -> list[int]:
        """Of the tree."""
        if directory in self.failing:
            raise OSError(self.failing[directory], "it does not work", directory)
        try:
            return list(self.cgroups[directory])
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such cgroup", directory) from None

    def children(self, directory: str) -> list[str]:
        """Of the tree."""
        depth = directory.count("/") + 1
        below = [each for each in self.cgroups if each.startswith(f"{directory}/") and each.count("/") == depth]
        return [each.rpartition("/")[2] for each in below]

    threads = processes  # nobody here needs threads


@pytest.fixture
def node() -> FakeNode:
    """A node without containers."""
    return FakeNode()


@pytest.fixture
def actuator(node: FakeNode) -> CoreSchedActuator:
    """What is tested."""
    return CoreSchedActuator(node, node.kernel)


def put(actuator: Actuator, target: ActuatorTarget, value: Value) -> Value | None:
    """Write as the applier does it: what is found afterwards."""
    actuator.write(target, GROUP, value)
    return actuator.read(target, GROUP)


def test_a_group_gets_one_cookie(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """All processes of its containers have it, other groups have others."""
    a, b, c = node.start("a", 10, 11), node.start("b", 20), node.start("c", 30)
    assert [put(actuator, a, "web"), put(actuator, b, "web"), put(actuator, c, "db")] == ["web", "web", "db"]
    assert node.kernel.cookies == {10: 1, 11: 1, 20: 1, 30: 2}
    assert dict(actuator.cookies) == {"web": 1, "db": 2}


def test_the_empty_text_is_a_group(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """Which is not the same as none."""
    target = node.start("a", 10)
    assert actuator.read(target, GROUP) is None
    assert put(actuator, target, "") == ""
    assert actuator.same(GROUP, "", "")
    assert not actuator.same(GROUP, None, "")
    assert not actuator.same(GROUP, "", CLEAR)


def test_what_is_as_wanted_is_left_alone(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """Writing twice changes nothing the second time."""
    target = node.start("a", 10, 11)
    put(actuator, target, "web")
    node.kernel.calls.clear()
    put(actuator, target, "web")
    assert {operation for operation, _ in node.kernel.calls} == {CoreSchedOperation.GET}


def test_clearing_leaves_no_cookies(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """Of this container; others of the group keep theirs."""
    a, b = node.start("a", 10, 11), node.start("b", 20)
    put(actuator, a, "web")
    put(actuator, b, "web")
    assert put(actuator, a, CLEAR) is None
    assert node.kernel.cookies == {10: 0, 11: 0, 20: 1}
    assert actuator.same(GROUP, None, CLEAR)


def test_processes_below_the_container_count(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """One with an init system inside has none of its own."""
    target = node.start("a")
    node.start("a/init.scope", 10)
    node.start("a/system.slice/x", 11)
    node.start("a/system.slice")
    assert put(actuator, target, "web") == "web"
    assert node.kernel.cookies == {10: 1, 11: 1}


def test_a_process_from_outside_is_noticed_and_put_in(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """Somebody runs a command in the container: it inherits nothing from it."""
    target = node.start("a", 10)
    put(actuator, target, "web")
    node.execute("a", 11)
    found = actuator.read(target, GROUP)
    assert found == MIXED
    assert not actuator.same(GROUP, found, "web")
    assert put(actuator, target, "web") == "web"
    assert node.kernel.cookies == {10: 1, 11: 1}


def test_a_mixed_container_can_be_cleared(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """Those that have a cookie lose it. As something to go back to, mixed means cleared."""
    target = node.start("a", 10)
    put(actuator, target, "web")
    node.execute("a", 11)
    assert put(actuator, target, MIXED) is None
    assert actuator.same(GROUP, None, MIXED)


def test_cookies_that_are_not_ours_are_none_of_ours(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """A program that protects itself is replaced when its container gets a group, and left alone before."""
    target = node.start("a", 10, 11)
    node.kernel.create(10)
    assert actuator.read(target, GROUP) is None
    assert put(actuator, target, "web") == "web"


def test_moving_to_another_group(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """Siblings stay where they are."""
    a, b = node.start("a", 10), node.start("b", 20)
    put(actuator, a, "web")
    put(actuator, b, "web")
    assert put(actuator, a, "db") == "db"
    assert actuator.read(b, GROUP) == "web"


def test_a_child_forked_while_we_write_is_caught(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """It was not in the list, and its parent had no cookie yet."""
    target = node.start("a", 10, 11)
    node.once(CoreSchedOperation.SHARE_TO, lambda: node.fork("a", 11, 12))
    actuator.write(target, GROUP, "web")
    assert set(node.kernel.cookies.values()) == {1}
    node.once(CoreSchedOperation.SHARE_TO, lambda: node.fork("a", 12, 13))
    actuator.write(target, GROUP, CLEAR)
    assert set(node.kernel.cookies.values()) == {0}


@pytest.mark.parametrize("value", ["web", CLEAR])
def test_it_gives_up_on_a_container_that_forks_faster(
    node: FakeNode, actuator: CoreSchedActuator, value: Value
) -> None:
    """After a few rounds, and a read says that not all is done: it stays ours."""
    target = node.start("a", 10)
    put(actuator, target, "old")
    rounds = 0

    def meanwhile(operation: CoreSchedOperation, _pid: int) -> None:
        nonlocal rounds
        if operation is CoreSchedOperation.SHARE_TO:
            rounds += 1
            pid = 100 + rounds
            node.cgroups["a"].append(pid)
            node.kernel.spawn(pid, cookie=77)

    node.execute("a", 11)
    node.kernel.meanwhile = meanwhile
    actuator.write(target, GROUP, value)
    assert rounds == 5
    node.kernel.meanwhile = lambda _operation, _pid: None
    assert actuator.read(target, GROUP) == MIXED


def test_a_dead_group_gets_a_new_cookie(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """Nobody is left who could hand the old one on."""
    a, other = node.start("a", 10), node.start("o", 90)
    put(actuator, a, "web")
    node.stop("a")
    node.kernel.create(90)  # a stranger gets the number of the old cookie
    b = node.start("b", 20)
    assert put(actuator, b, "web") == "web"
    assert node.kernel.cookies == {90: 1, 20: 2}
    assert actuator.read(other, GROUP) is None


def test_a_number_that_is_used_again_changes_hands(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """A group that had it before has no process left, and must not be taken for the new one."""
    a = node.start("a", 10)
    put(actuator, a, "web")
    node.stop("a")
    b, c = node.start("b", 20), node.start("c", 30)
    put(actuator, b, "db")
    assert dict(actuator.cookies) == {"db": 1}
    assert put(actuator, c, "web") == "web"
    assert node.kernel.cookies == {20: 1, 30: 2}


def test_a_reused_pid_is_not_trusted(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """Who hands on a cookie is looked up in the containers of the group, and has it at that moment."""
    a, b = node.start("a", 10), node.start("b", 20)
    put(actuator, a, "web")
    put(actuator, b, "db")
    node.kill(10)
    node.execute("b", 10)  # in another group, not even put into it yet
    c = node.start("c", 30)
    put(actuator, c, "web")
    assert node.kernel.cookie(30) != node.kernel.cookie(20)
    assert node.kernel.cookie(10) == 0


def test_a_source_that_changes_at_the_last_moment(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """Its pid becomes a process of another group between the look and the handing on."""
    a, b, c = node.start("a", 10), node.start("b", 20), node.start("c", 30)
    put(actuator, a, "web")
    put(actuator, b, "db")

    def swap() -> None:
        node.kill(10)
        node.fork("b", 20, 10)

    node.once(CoreSchedOperation.SHARE_FROM, swap)
    assert put(actuator, c, "web") == "web"
    assert node.kernel.cookie(30) not in (node.kernel.cookie(20), 0)


def test_the_first_process_ends_before_it_is_given_anything(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """Another one is taken."""
    target = node.start("a", 10, 11)
    node.once(CoreSchedOperation.CREATE, lambda: node.kill(10))
    assert put(actuator, target, "web") == "web"


def test_the_first_process_is_replaced_right_after(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """A new process with its pid has no cookie; 0 is never taken for a group's."""
    target = node.start("a", 10, 11)

    def replace() -> None:
        node.once(CoreSchedOperation.GET, lambda: node.kernel.spawn(10))

    node.once(CoreSchedOperation.CREATE, replace)
    assert put(actuator, target, "web") == "web"
    assert 0 not in actuator.cookies.values()


def test_a_process_that_ends_while_we_look_is_passed_over(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """The others decide."""
    target = node.start("a", 10, 11)
    put(actuator, target, "web")
    node.once(CoreSchedOperation.GET, lambda: node.kill(10))
    assert actuator.read(target, GROUP) == "web"


def test_our_own_process_keeps_cookie_0(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """Also when we run in a pod that has a group: clearing others depends on it."""
    target = node.start("a", os.getpid(), 10)
    assert put(actuator, target, "web") == "web"
    assert node.kernel.cookies[os.getpid()] == 0


def test_a_container_without_processes(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """Has no group, cannot get one, and can be cleared."""
    target = node.start("a")
    assert actuator.read(target, GROUP) is None
    with pytest.raises(ProcessLookupError):
        actuator.write(target, GROUP, "web")
    actuator.write(target, GROUP, CLEAR)


def test_a_container_that_is_gone(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """Or whose cgroup is not known: the same error."""
    for target in (
        ActuatorTarget(level=Level.CONTAINER, key="a", directory="a"),
        ActuatorTarget(level=Level.CONTAINER, key="a"),
    ):
        with pytest.raises(FileNotFoundError):
            actuator.read(target, GROUP)
        with pytest.raises(FileNotFoundError):
            actuator.write(target, GROUP, "web")


@pytest.mark.parametrize("value", [1, UNLIMITED])
def test_what_is_no_group_is_refused(node: FakeNode, actuator: CoreSchedActuator, value: Value) -> None:
    """As the kernel would."""
    with pytest.raises(OSError) as caught:
        actuator.write(node.start("a", 10), GROUP, value)
    assert caught.value.errno == errno.EINVAL


def test_the_kernels_refusal_is_passed_on(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """Somebody has to know."""
    target = node.start("a", 10)
    node.kernel.forbidden.add(10)
    with pytest.raises(PermissionError):
        actuator.write(target, GROUP, "web")


def test_a_sibling_that_cannot_be_looked_at_is_no_reason_to_stop(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """The next one has the cookie too."""
    a, b, c = node.start("a", 10), node.start("b", 20), node.start("c", 30)
    put(actuator, a, "web")
    put(actuator, b, "web")
    node.failing["a"] = errno.EIO
    assert put(actuator, c, "web") == "web"
    assert node.kernel.cookies == {10: 1, 20: 1, 30: 1}


# -- after a restart


def test_adopted_groups_are_known_again(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """Nothing is written, and new members get the cookie the old ones have."""
    a, b = node.start("a", 10), node.start("b", 20)
    put(actuator, a, "web")
    put(actuator, b, "web")
    again = CoreSchedActuator(node, node.kernel)
    assert again.read(a, GROUP) is None  # nobody told it anything
    again.adopt(a, "web")
    again.adopt(b, "web")
    assert [again.read(a, GROUP), again.read(b, GROUP)] == ["web", "web"]
    c = node.start("c", 30)
    assert put(again, c, "web") == "web"
    assert set(node.kernel.cookies.values()) == {1}


def test_adopting_a_mixed_container(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """The cookie that some have is the group's, and the rest is seen to be missing."""
    a = node.start("a", 10)
    put(actuator, a, "web")
    node.execute("a", 11)
    again = CoreSchedActuator(node, node.kernel)
    again.adopt(a, "web")
    assert again.read(a, GROUP) == MIXED
    put(again, a, "web")
    assert node.kernel.cookies == {10: 1, 11: 1}


def test_adopting_what_has_several_cookies_or_none_or_is_gone(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """Nobody can say which is the group's; it counts as ours, so that it gets a new one or loses them."""
    a, b = node.start("a", 10, 11), node.start("b", 20)
    node.kernel.create(10)
    node.kernel.create(11)
    actuator.adopt(a, "web")
    actuator.adopt(b, "web")
    actuator.adopt(ActuatorTarget(level=Level.CONTAINER, key="c", directory="c"), "web")
    assert dict(actuator.cookies) == {}
    assert (actuator.read(a, GROUP), actuator.read(b, GROUP)) == (MIXED, None)


def test_a_second_cookie_of_a_group_is_not_adopted(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """The first counts; who has another gets the first."""
    a, b = node.start("a", 10), node.start("b", 20)
    node.kernel.create(10)
    node.kernel.create(20)
    actuator.adopt(a, "web")
    actuator.adopt(b, "web")
    assert (actuator.read(a, GROUP), actuator.read(b, GROUP)) == ("web", MIXED)
    put(actuator, b, "web")
    assert node.kernel.cookies == {10: 1, 20: 1}


def test_two_groups_never_adopt_one_cookie(node: FakeNode, actuator: CoreSchedActuator) -> None:
    """It was noted that `b` moves to db, and then the process ended before it moved it."""
    a, b = node.start("a", 10), node.start("b", 20)
    put(actuator, a, "web")
    put(actuator, b, "web")
    again = CoreSchedActuator(node, node.kernel)
    again.adopt(b, "db")
    again.adopt(a, "web")
    assert [put(again, a, "web"), put(again, b, "db")] == ["web", "db"]
    assert node.kernel.cookie(10) != node.kernel.cookie(20)


# -- memory


def test_what_is_gone_is_forgotten(
    node: FakeNode, actuator: CoreSchedActuator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods with groups of their own come and go; what is remembered is about those that are there."""
    monkeypatch.setattr(core_sched_actuator, "_FORGET_FROM", 4)
    actuator = CoreSchedActuator(node, node.kernel)
    stays = node.start("stays", 1)
    put(actuator, stays, "web")
    node.start("odd", 2)
    put(actuator, ActuatorTarget(level=Level.SANDBOX, key="odd", directory="odd"), "odd")
    node.failing["odd"] = errno.EIO  # trouble with it is no proof that it is gone
    for number in range(10, 40):
        name = f"c{number}"
        put(actuator, node.start(name, number), f"uid-{number}")
        node.stop(name)
    assert {"web", "odd"} <= set(actuator.cookies)
    assert len(actuator.cookies) <= 6
    assert len(actuator._assignments) <= 6
    assert actuator.read(stays, GROUP) == "web"
