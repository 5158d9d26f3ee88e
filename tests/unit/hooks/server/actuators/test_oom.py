"""One OOM score for all processes of a container."""

import errno

import pytest

from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter
from interpose.hooks.server.actuators.oom import OomActuator
from interpose.hooks.server.targets import ActuatorTarget
from interpose.host.processes import Processes

PARAMETER = Parameter.OOM_SCORE_ADJ
TARGET = ActuatorTarget(level=Level.CONTAINER, key="c1", directory="pod/c1", name="default/web/main")


class Node(Processes):
    """A container's processes with their scores. Each write may be followed by a fork."""

    def __init__(self, scores: dict[int, int]) -> None:
        self.scores = scores
        self.forks: list[tuple[int, int]] = []  # (pid, score) of a process that appears with the next write
        self.listed_but_gone: list[int] = []
        self.privileged = True
        self.written: list[tuple[int, int]] = []

    def children(self, directory: str) -> list[str]:
        """A container with no cgroups of its own."""
        return []

    def processes(self, directory: str) -> list[int]:
        """Everybody, and whoever ended since."""
        assert directory == "pod/c1"
        return [*self.scores, *self.listed_but_gone]

    def threads(self, directory: str) -> list[int]:
        """Nobody asks."""
        raise NotImplementedError

    def oom_score_adj(self, pid: int) -> int:
        """ESRCH or the score."""
        if pid not in self.scores:
            raise ProcessLookupError(errno.ESRCH, "gone")
        return self.scores[pid]

    def set_oom_score_adj(self, pid: int, value: int) -> None:
        """As the kernel does it."""
        if not self.privileged and value < self.scores[pid]:
            raise PermissionError(errno.EACCES, "Permission denied", f"/proc/{pid}/oom_score_adj")
        self.written.append((pid, value))
        self.scores[pid] = value
        if self.forks:
            self.scores.update([self.forks.pop(0)])


def actuator(node: Node) -> OomActuator:
    """On this node."""
    return OomActuator(node, node)


def test_value_is_the_one_all_processes_share() -> None:
    """And those that ended while they were looked at do not count."""
    node = Node({1: -500, 2: -500})
    node.listed_but_gone = [3]
    assert actuator(node).read(TARGET, PARAMETER) == -500


@pytest.mark.parametrize("scores", [{}, {1: 0, 2: -500}])
def test_without_a_common_value_there_is_none(scores: dict[int, int]) -> None:
    """No process, or different ones."""
    assert actuator(Node(scores)).read(TARGET, PARAMETER) is None


def test_mixed_values_are_not_what_is_wanted() -> None:
    """So that they are written."""
    assert not actuator(Node({})).same(PARAMETER, None, -500)


def test_only_processes_that_differ_are_written() -> None:
    """The others have it already."""
    node = Node({1: -500, 2: 0, 3: 100})
    actuator(node).write(TARGET, PARAMETER, -500)
    assert node.written == [(2, -500), (3, -500)]


def test_process_forked_meanwhile_gets_it_too() -> None:
    """It was born with the value its parent had before."""
    node = Node({1: 0})
    node.forks = [(2, 0), (3, 0)]
    actuator(node).write(TARGET, PARAMETER, 300)
    assert node.scores == {1: 300, 2: 300, 3: 300}


def test_forking_for_ever_does_not_hold_us() -> None:
    """After some rounds the caller's own look tells that it did not work."""
    node = Node({1: 0})
    node.forks = [(pid, 0) for pid in range(2, 50)]
    tried = actuator(node)
    tried.write(TARGET, PARAMETER, 300)
    assert len(node.written) == 5
    assert not tried.same(PARAMETER, tried.read(TARGET, PARAMETER), 300)


def test_process_that_ends_before_it_is_written_is_fine() -> None:
    """It went by itself."""

    class Ending(Node):
        def set_oom_score_adj(self, pid: int, value: int) -> None:
            if pid == 1:
                del self.scores[1]
                raise FileNotFoundError(errno.ENOENT, "gone")
            super().set_oom_score_adj(pid, value)

    node = Ending({1: 0, 2: 0})
    actuator(node).write(TARGET, PARAMETER, 300)
    assert node.scores == {2: 300}


def test_lowering_without_the_capability_is_told() -> None:
    """The system's own error, with the process."""
    node = Node({1: 0})
    node.privileged = False
    with pytest.raises(PermissionError, match="/proc/1/oom_score_adj"):
        actuator(node).write(TARGET, PARAMETER, -500)


def test_container_without_processes_is_gone() -> None:
    """There is nobody to give it to."""
    with pytest.raises(ProcessLookupError):
        actuator(Node({})).write(TARGET, PARAMETER, -500)


def test_container_without_a_cgroup_is_not_there() -> None:
    """An empty directory would be the root of the tree."""
    nowhere = ActuatorTarget(level=Level.CONTAINER, key="c1", name="default/web/main")
    with pytest.raises(FileNotFoundError):
        actuator(Node({1: 0})).read(nowhere, PARAMETER)


def test_clearing_leaves_processes_alone() -> None:
    """They differed before, and nobody knows how."""
    node = Node({1: 0, 2: 5})
    tried = actuator(node)
    tried.write(TARGET, PARAMETER, CLEAR)
    assert node.written == []
    assert tried.same(PARAMETER, tried.read(TARGET, PARAMETER), CLEAR)


def test_other_values_make_no_sense() -> None:
    """A score is a number."""
    with pytest.raises(OSError, match="oom_score_adj is a number, not unlimited"):
        actuator(Node({1: 0})).write(TARGET, PARAMETER, UNLIMITED)


def test_equal_values_are_the_same() -> None:
    """And others are not."""
    tried = actuator(Node({}))
    assert tried.same(PARAMETER, 0, 0)
    assert not tried.same(PARAMETER, 0, 1)
