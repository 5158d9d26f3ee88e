"""Updates that were cut off: the kernel has the new value, and the runtime remembers another one."""

from types import MappingProxyType

import pytest

from interpose.core.model.cgroup import CLEAR, Level, Parameter, Value
from interpose.hooks.server.reconcile.apply import Applier
from interpose.hooks.server.reconcile.journal import Journal
from interpose.hooks.server.reconcile.plan import PlanAction
from interpose.hooks.server.targets import ActuatorTarget, DesiredValue

QUOTA, CPUS = Parameter.CPU_QUOTA, Parameter.CPUSET_CPUS
CONTAINER = ActuatorTarget(level=Level.CONTAINER, key="c", directory="q/p/c")


class Now:
    """A kernel in which everything has one value."""

    def __init__(self, value: Value | None) -> None:
        self.value = value

    def read(self, _target: ActuatorTarget, _parameter: Parameter) -> Value | None:
        """That value."""
        return self.value

    def write(self, target: ActuatorTarget, parameter: Parameter, value: Value) -> None:
        """A survey writes nothing."""
        raise AssertionError((target, parameter, value))

    def same(self, _parameter: Parameter, found: Value | None, wanted: Value) -> bool:
        """No shades."""
        return found == wanted


def actions(
    parameter: Parameter,
    now: Value | None,
    *,
    wanted: Value | None,
    noted: tuple[Value | None, Value, Value | None] | None,
    remembered: Value | None,
    known: bool = True,
) -> list[PlanAction]:
    """What is to be done about a container with this value, of which this is noted, and which the runtime takes for."""
    journal = Journal(None, "boot")
    if noted is not None:
        found, written, before = noted
        journal.note(CONTAINER, parameter, found=found, written=written, plugin="x", before=before)
    applier = Applier(MappingProxyType({parameter: Now(now)}), journal, now=lambda: 0.0)
    wants = [] if wanted is None else [DesiredValue(CONTAINER, parameter, wanted, "x", "because")]
    told = {(CONTAINER.key, parameter): remembered} if known else {}
    return [item.action for item in applier.diff(wants, [CONTAINER], known=told)]


def test_a_value_that_the_runtime_has_taken_back_is_set_again() -> None:
    """Or its next update, of whatever, would write the old one."""
    assert actions(QUOTA, 500, wanted=500, noted=(None, 500, 900), remembered=900) == [PlanAction.SET]
    assert actions(CPUS, "0", wanted="0", noted=(None, "0", CLEAR), remembered=None) == [PlanAction.SET]


@pytest.mark.parametrize(
    ("noted", "remembered"),
    [
        ((None, 500, 900), 500),  # it came to be
        ((None, 500, 900), 700),  # somebody else's, seen by whoever asks what is wanted
        ((None, 500, 500), 500),
        ((None, 500, None), None),
        (None, 900),
    ],
)
def test_what_the_runtime_knows_is_kept(
    noted: tuple[Value | None, Value, Value | None] | None, remembered: int
) -> None:
    """Whatever else it says: only a value of ours from before is a sign of an update that was cut off."""
    assert actions(QUOTA, 500, wanted=500, noted=noted, remembered=remembered) == []


def test_without_word_of_the_runtime_the_kernel_counts() -> None:
    """As in every round but the first."""
    assert actions(QUOTA, 500, wanted=500, noted=(None, 500, 900), remembered=None, known=False) == []


def test_a_restored_value_that_the_runtime_has_not_taken_in_is_restored_again() -> None:
    """The kernel has what was found, the runtime still has ours."""
    assert actions(QUOTA, 1000, wanted=None, noted=(1000, 500, None), remembered=500) == [PlanAction.RESTORE]
    assert actions(QUOTA, 1000, wanted=None, noted=(1000, 500, None), remembered=1000) == []
    assert actions(QUOTA, 1000, wanted=None, noted=(1000, 500, None), remembered=None, known=False) == []
