"""Groups of pods on a resctrl file system with the kernel's rules."""

import errno
from dataclasses import replace

import pytest

from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter
from interpose.hooks.server.actuators.resctrl import ResctrlActuator
from interpose.hooks.server.targets import ActuatorTarget
from interpose.host.resctrl import ResctrlTree
from tests.support.hooks.fake_resctrl import FakeResctrl

PARAMETER = Parameter.RESCTRL
GROUP = "koordlet-uid-1"
TARGET = ActuatorTarget(level=Level.POD, key="s1", directory="pod", name="default/web", pod_uid="uid-1")
WANTED = "L3:0=f;1=f;\nMB:0=20;1=20;\n"


class Node(FakeResctrl):
    """A pod of two containers with a thread each. A move may be followed by another thread somewhere."""

    def __init__(self, *, closids: int = 8) -> None:
        super().__init__(closids=closids)
        self.members: dict[str, list[int]] = {"pod": [], "pod/a": [], "pod/b": []}
        self.later: list[tuple[str, int]] = []
        self.start("pod/a", 1)
        self.start("pod/b", 2)

    def start(self, directory: str, tid: int, parent: int | None = None) -> None:
        """A thread starts in a container."""
        self.members[directory].append(tid)
        self.spawn(tid, parent)

    def write(self, path: str, text: str) -> None:
        """The kernel's rules, then life goes on."""
        super().write(path, text)
        if path.endswith("/tasks") and self.later:
            self.start(*self.later.pop(0))

    def children(self, directory: str) -> list[str]:
        """The containers of the pod."""
        return ["a", "b"] if directory == "pod" else []

    def processes(self, directory: str) -> list[int]:
        """Nobody asks."""
        raise NotImplementedError

    def threads(self, directory: str) -> list[int]:
        """Threads of one container."""
        if directory not in self.members:
            raise FileNotFoundError(errno.ENOENT, "gone", directory)
        return list(self.members[directory])


def actuator(node: Node) -> ResctrlActuator:
    """On this node."""
    return ResctrlActuator(node, ResctrlTree(node))


def test_pod_without_a_group_has_no_value() -> None:
    """That is what everybody begins with, and what clearing leads to."""
    tried = actuator(Node())
    assert tried.read(TARGET, PARAMETER) is None
    assert tried.same(PARAMETER, None, CLEAR)
    assert not tried.same(PARAMETER, None, WANTED)


def test_group_is_made_restricted_and_filled() -> None:
    """Under the name koordlet gives it, with the threads of all containers."""
    node = Node()
    tried = actuator(node)
    tried.write(TARGET, PARAMETER, WANTED)
    assert node.groups() == [GROUP]
    assert [node.group_of(1), node.group_of(2)] == [GROUP, GROUP]
    assert tried.read(TARGET, PARAMETER) == WANTED


def test_what_was_written_is_found_the_same() -> None:
    """Masks are compared, not texts."""
    tried = actuator(Node())
    tried.write(TARGET, PARAMETER, WANTED)
    assert tried.same(PARAMETER, tried.read(TARGET, PARAMETER), "MB:1=20;0=20\nL3:0=00f;1=F\n")


def test_changed_annotation_changes_the_group() -> None:
    """In place: the threads stay where they are."""
    node = Node()
    tried = actuator(node)
    tried.write(TARGET, PARAMETER, WANTED)
    moves = [path for path, _ in node.writes if path.endswith("/tasks")]
    other = "L3:0=3;1=f;\nMB:0=20;1=20;\n"
    assert not tried.same(PARAMETER, tried.read(TARGET, PARAMETER), other)
    tried.write(TARGET, PARAMETER, other)
    assert tried.same(PARAMETER, tried.read(TARGET, PARAMETER), other)
    assert [path for path, _ in node.writes if path.endswith("/tasks")] == moves


def test_part_that_is_no_longer_named_is_free_again() -> None:
    """A mask of an older annotation must not stay for ever."""
    tried = actuator(Node())
    tried.write(TARGET, PARAMETER, WANTED)
    only_bandwidth = "MB:0=20;1=20;\n"
    assert not tried.same(PARAMETER, tried.read(TARGET, PARAMETER), only_bandwidth)
    tried.write(TARGET, PARAMETER, only_bandwidth)
    assert tried.read(TARGET, PARAMETER) == "L3:0=7ff;1=7ff;\nMB:0=20;1=20;\n"
    assert tried.same(PARAMETER, tried.read(TARGET, PARAMETER), only_bandwidth)


def test_thread_outside_the_group_is_noted_and_fetched() -> None:
    """A container started later is born into the root group."""
    node = Node()
    tried = actuator(node)
    tried.write(TARGET, PARAMETER, WANTED)
    node.start("pod/b", 3)
    found = tried.read(TARGET, PARAMETER)
    assert found == f"{WANTED}# threads outside the group: 1\n"
    assert not tried.same(PARAMETER, found, WANTED)
    tried.write(TARGET, PARAMETER, WANTED)
    assert tried.same(PARAMETER, tried.read(TARGET, PARAMETER), WANTED)


def test_thread_that_ends_while_it_is_looked_for_is_not_outside() -> None:
    """It is in no list of tasks, because it is nowhere."""

    class Ending(Node):
        def tasks_are_read(self) -> None:
            if 3 in self.members["pod/a"]:
                self.members["pod/a"].remove(3)

        def read(self, path: str) -> str:
            if path.endswith(f"{GROUP}/tasks"):
                self.tasks_are_read()
            return super().read(path)

    node = Ending()
    tried = actuator(node)
    tried.write(TARGET, PARAMETER, WANTED)
    node.members["pod/a"].append(3)
    assert tried.read(TARGET, PARAMETER) == WANTED


def test_threads_started_while_others_are_moved_come_along() -> None:
    """Until nobody is outside."""
    node = Node()
    node.later = [("pod/a", 3), ("pod/b", 4)]
    tried = actuator(node)
    tried.write(TARGET, PARAMETER, WANTED)
    assert {node.group_of(tid) for tid in (1, 2, 3, 4)} == {GROUP}


def test_starting_threads_for_ever_does_not_hold_us() -> None:
    """The caller's own look tells that it did not work."""
    node = Node()
    node.later = [("pod/a", tid) for tid in range(3, 100)]
    tried = actuator(node)
    tried.write(TARGET, PARAMETER, WANTED)
    assert not tried.same(PARAMETER, tried.read(TARGET, PARAMETER), WANTED)


def test_thread_that_ends_before_it_is_moved_is_fine() -> None:
    """The others are moved."""
    node = Node()
    node.kill(1)
    actuator(node).write(TARGET, PARAMETER, WANTED)
    assert node.group_of(2) == GROUP


def test_clearing_removes_the_group() -> None:
    """Its threads are in the root group then."""
    node = Node()
    tried = actuator(node)
    tried.write(TARGET, PARAMETER, WANTED)
    tried.write(TARGET, PARAMETER, CLEAR)
    assert (node.groups(), node.group_of(1)) == ([], "")
    tried.write(TARGET, PARAMETER, CLEAR)
    assert tried.read(TARGET, PARAMETER) is None


def test_found_value_with_a_note_can_be_put_back() -> None:
    """The note is not a part of it."""
    node = Node()
    tried = actuator(node)
    tried.write(TARGET, PARAMETER, WANTED)
    node.start("pod/b", 3)
    found = tried.read(TARGET, PARAMETER)
    assert isinstance(found, str)
    tried.write(TARGET, PARAMETER, CLEAR)
    tried.write(TARGET, PARAMETER, found)
    assert tried.same(PARAMETER, tried.read(TARGET, PARAMETER), found)


def test_pod_without_a_cgroup_gets_its_group_all_the_same() -> None:
    """Before it is run it has no threads to move."""
    node = Node()
    tried = actuator(node)
    tried.write(replace(TARGET, directory=""), PARAMETER, WANTED)
    assert tried.read(replace(TARGET, directory=""), PARAMETER) == WANTED


def test_pod_whose_cgroup_is_gone_is_gone() -> None:
    """Its group is an orphan, which is another matter."""
    with pytest.raises(FileNotFoundError):
        actuator(Node()).read(replace(TARGET, directory="other"), PARAMETER)


@pytest.mark.parametrize("text", ["L3:0=5;\n", "L2:0=f;\n", "nonsense\n"])
def test_refused_text_leaves_no_group_behind(text: str) -> None:
    """A group that restricts nothing would take one of the few places."""
    node = Node()
    with pytest.raises(OSError) as caught:
        actuator(node).write(TARGET, PARAMETER, text)
    assert caught.value.errno == errno.EINVAL
    assert node.groups() == []


def test_refused_change_leaves_the_group_as_it_was() -> None:
    """The last good value stays in force."""
    node = Node()
    tried = actuator(node)
    tried.write(TARGET, PARAMETER, WANTED)
    with pytest.raises(OSError, match="The mask 5 cannot be used"):
        tried.write(TARGET, PARAMETER, "L3:0=5;\n")
    assert tried.read(TARGET, PARAMETER) == WANTED


def test_classes_of_service_can_run_out() -> None:
    """Which is said in words."""
    with pytest.raises(OSError, match=f"no class of service left for group {GROUP}") as caught:
        actuator(Node(closids=1)).write(TARGET, PARAMETER, WANTED)
    assert caught.value.errno == errno.ENOSPC


def test_without_resctrl_it_is_not_supported() -> None:
    """And what was found before is not what is wanted."""
    node = Node()
    node.mounted = False
    tried = actuator(node)
    with pytest.raises(OSError, match="resctrl is not mounted") as caught:
        tried.read(TARGET, PARAMETER)
    assert caught.value.errno == errno.ENOTSUP
    assert not tried.same(PARAMETER, WANTED, WANTED)
    assert tried.orphans([]) == frozenset()


def test_pod_without_a_uid_is_refused() -> None:
    """Its group would be nobody's."""
    with pytest.raises(OSError, match="pod default/web has no uid"):
        actuator(Node()).read(replace(TARGET, pod_uid=""), PARAMETER)


def test_other_values_make_no_sense() -> None:
    """Schemata are text."""
    with pytest.raises(OSError, match="resctrl is a text of schemata, not unlimited"):
        actuator(Node()).write(TARGET, PARAMETER, UNLIMITED)


def test_schemata_nobody_understands_are_shown_and_not_wanted() -> None:
    """A kernel may come with new kinds of lines."""

    class Strange(Node):
        def read(self, path: str) -> str:
            return "L9 what\n" if path.endswith("/schemata") and GROUP in path else super().read(path)

    node = Strange()
    ResctrlTree(node).make(GROUP)
    tried = actuator(node)
    found = tried.read(replace(TARGET, directory=""), PARAMETER)
    assert found == "L9 what\n"
    assert not tried.same(PARAMETER, found, WANTED)


def test_group_of_a_pod_that_is_over_is_dropped() -> None:
    """Success is success, also the second time."""
    node = Node()
    tried = actuator(node)
    tried.write(TARGET, PARAMETER, WANTED)
    assert tried.drop("uid-1")
    assert node.groups() == []
    assert not tried.drop("uid-1")


def test_orphans_are_groups_of_pods_nobody_knows() -> None:
    """Groups of others are not ours to judge."""
    node = Node()
    tree = ResctrlTree(node)
    for group in ("koordlet-a", "koordlet-b", "BE", "LS"):
        tree.make(group)
    assert actuator(node).orphans({"a"}) == {"koordlet-b"}


def test_orphan_is_removed_the_second_time_it_is_seen() -> None:
    """The first time its pod may be about to be known."""
    node = Node()
    tree = ResctrlTree(node)
    tree.make("koordlet-a")
    tree.make("koordlet-b")
    tried = actuator(node)
    assert tried.remove_orphans(()) == ()
    assert tried.remove_orphans({"a"}) == ("koordlet-b",)
    assert tried.remove_orphans(()) == ()
    assert tried.remove_orphans(()) == ("koordlet-a",)
    assert node.groups() == []


def test_orphan_that_somebody_else_removes_is_no_trouble() -> None:
    """It is gone, which is what was wanted."""

    class Hasty(Node):
        def remove_directory(self, path: str) -> None:
            super().remove_directory(path)
            super().remove_directory(path)

    node = Hasty()
    ResctrlTree(node).make("koordlet-a")
    tried = actuator(node)
    tried.remove_orphans(())
    assert tried.remove_orphans(()) == ()
    assert node.groups() == []
