"""What a look at everything finds."""

import errno
from collections.abc import Callable, Iterator, Mapping

import pytest

from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter, Value
from interpose.hooks.server.actuators.api import Actuator
from interpose.hooks.server.reconcile.apply import Applier
from interpose.hooks.server.reconcile.diff import action_of, error_text, is_in_place, is_same
from interpose.hooks.server.reconcile.journal import Journal
from interpose.hooks.server.reconcile.plan import PlanAction, PlanItem
from interpose.hooks.server.targets import ActuatorTarget, DesiredValue

SHARES, QUOTA, IDLE, CPUS = Parameter.CPU_SHARES, Parameter.CPU_QUOTA, Parameter.CPU_IDLE, Parameter.CPUSET_CPUS
OOM = Parameter.OOM_SCORE_ADJ
POD = ActuatorTarget(level=Level.POD, key="p", directory="q/p", name="ns/p")
CONTAINER = ActuatorTarget(level=Level.CONTAINER, key="c", directory="q/p/c")
CREATED = ActuatorTarget(level=Level.CONTAINER, key="c", running=False)


class Table:
    """Values in a dictionary, or the error of reading them."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, Parameter], Value | Exception | None] = {}
        self.reads = 0

    def read(self, target: ActuatorTarget, parameter: Parameter) -> Value | None:
        """What was put there."""
        self.reads += 1
        value = self.values.get((target.key, parameter))
        if isinstance(value, Exception):
            raise value
        return value

    def write(self, target: ActuatorTarget, parameter: Parameter, value: Value) -> None:
        """A survey writes nothing."""
        raise AssertionError((target, parameter, value))

    def same(self, parameter: Parameter, found: Value | None, wanted: Value) -> bool:
        """No shades."""
        return found == wanted


class ConvertedTable(Table):
    """Values that a runtime converts: a tenth of them."""

    def same_by_runtime(self, parameter: Parameter, found: Value | None, wanted: Value) -> bool:
        """Whether it is the converted one."""
        return isinstance(wanted, int) and found == wanted // 10


@pytest.mark.parametrize(
    ("target", "parameter", "there"),
    [(CONTAINER, SHARES, True), (POD, SHARES, False), (CONTAINER, IDLE, False)],
)
def test_conversion_of_a_runtime_counts_for_what_it_writes(
    target: ActuatorTarget, parameter: Parameter, there: bool
) -> None:
    """In a container, for what CRI carries; elsewhere we write files ourselves."""
    assert is_in_place(ConvertedTable(), target, parameter, 10, 100, None) is there
    assert not is_in_place(Table(), target, parameter, 10, 100, None)


@pytest.fixture
def table() -> Table:
    """What is there."""
    return Table()


@pytest.fixture
def journal() -> Iterator[Journal]:
    """What was written before."""
    made = Journal(None, "boot")
    yield made
    made.close()


@pytest.fixture
def applier(table: Table, journal: Journal) -> Applier:
    """All parameters but one are in the table."""
    return make(table, journal)


def make(
    table: Table,
    journal: Journal,
    *,
    dry_run: bool = False,
    allowed: Callable[[Parameter, str], str] | None = None,
) -> Applier:
    """An applier whose kernel has no resctrl."""
    actuators: Mapping[Parameter, Actuator] = {one: table for one in Parameter if one is not Parameter.RESCTRL}
    return Applier(actuators, journal, now=lambda: 0.0, dry_run=dry_run, allowed=allowed)


def want(target: ActuatorTarget, parameter: Parameter, value: Value) -> DesiredValue:
    """Of a plugin."""
    return DesiredValue(target, parameter, value, "x", "because")


def told(items: list[PlanItem]) -> list[tuple[Parameter, PlanAction, Value | None, Value | None]]:
    """Items, as short as a test can read them."""
    return [(item.parameter, item.action, item.now, item.wanted) for item in items]


def test_what_is_as_wanted_is_only_counted(table: Table, applier: Applier) -> None:
    """Unless somebody wants to see it."""
    table.values["p", SHARES] = 5
    wants = [want(POD, SHARES, 5)]
    assert applier.diff(wants, [POD]) == []
    assert applier.unchanged == 1
    (item,) = applier.diff(wants, [POD], detail=True)
    assert (item.action, item.plugin, item.reason) == (PlanAction.KEEP, "x", "because")


def test_what_differs_is_to_be_set(table: Table, applier: Applier) -> None:
    """With what is there now."""
    table.values["p", SHARES] = 2
    assert told(applier.diff([want(POD, SHARES, 5)], [POD])) == [(SHARES, PlanAction.SET, 2, 5)]


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file"), PlanAction.GONE),
        (ProcessLookupError(errno.ESRCH, "No such process"), PlanAction.GONE),
        (OSError(errno.ENODEV, "No such device"), PlanAction.GONE),
        (OSError(errno.ENOTSUP, "Not supported"), PlanAction.UNSUPPORTED),
        (PermissionError(errno.EACCES, "Permission denied"), PlanAction.HELD),
        (KeyError("a mistake"), PlanAction.HELD),
    ],
)
def test_what_cannot_be_read_is_an_item(table: Table, applier: Applier, error: Exception, action: PlanAction) -> None:
    """And the others are looked at all the same, wanted or not."""
    table.values["p", SHARES] = error
    table.values["p", QUOTA] = 1
    items = applier.diff([want(POD, SHARES, 5), want(POD, QUOTA, 2)], [POD])
    assert told(items) == [(SHARES, action, None, 5), (QUOTA, PlanAction.SET, 1, 2)]
    assert items[0].note == error_text(error)


def test_what_nobody_can_set_is_unsupported(applier: Applier) -> None:
    """Though it is wanted."""
    items = applier.diff([want(POD, Parameter.RESCTRL, "L3:0=f")], [POD])
    assert told(items) == [(Parameter.RESCTRL, PlanAction.UNSUPPORTED, None, "L3:0=f")]


def test_the_last_of_two_wants_counts(table: Table, applier: Applier) -> None:
    """Whoever made the list has settled who is last."""
    table.values["p", SHARES] = 2
    wants = [want(POD, SHARES, 5), want(POD, SHARES, 2)]
    assert applier.diff(wants, [POD]) == []


# -- containers


def test_a_running_container_is_looked_at(table: Table, applier: Applier) -> None:
    """What is known of it elsewhere does not count."""
    table.values["c", SHARES] = 2
    items = applier.diff([want(CONTAINER, SHARES, 5)], [CONTAINER], known={("c", SHARES): 5})
    assert told(items) == [(SHARES, PlanAction.SET, 2, 5)]


@pytest.mark.parametrize(
    ("parameter", "known", "wanted", "action"),
    [
        (SHARES, 5, 5, PlanAction.KEEP),
        (SHARES, 2, 5, PlanAction.SET),
        (SHARES, None, 5, PlanAction.SET),
        (QUOTA, None, UNLIMITED, PlanAction.KEEP),
        (CPUS, None, CLEAR, PlanAction.KEEP),
        (CPUS, "0-1", CLEAR, PlanAction.SET),
    ],
)
def test_a_container_that_does_not_run_has_what_is_known(
    table: Table, applier: Applier, parameter: Parameter, known: Value | None, wanted: Value, action: PlanAction
) -> None:
    """There is no group to look at; nothing set is no limit."""
    items = applier.diff([want(CREATED, parameter, wanted)], [CREATED], known={("c", parameter): known}, detail=True)
    assert told(items) == [(parameter, action, known, wanted)]
    assert table.reads == 0


def test_a_container_of_which_nothing_is_known_is_as_good_as_gone(applier: Applier) -> None:
    """It gets its values when it is seen to run."""
    assert told(applier.diff([want(CREATED, SHARES, 5)], [CREATED])) == [(SHARES, PlanAction.GONE, None, 5)]


@pytest.mark.parametrize(
    ("found", "allowed", "action"),
    [
        ("0-7", "0-7", PlanAction.KEEP),
        ("0-3", "0-7", PlanAction.SET),
        ("0-3", "", PlanAction.SET),
        (CLEAR, "0-7", PlanAction.KEEP),
    ],
)
def test_a_containers_set_is_cleared_if_it_is_full(
    table: Table, journal: Journal, found: Value, allowed: str, action: PlanAction
) -> None:
    """CRI cannot take a set away, so all that can be had is written."""
    asked: list[tuple[Parameter, str]] = []

    def all_of(parameter: Parameter, directory: str) -> str:
        asked.append((parameter, directory))
        return allowed

    table.values["c", CPUS] = found
    applier = make(table, journal, allowed=all_of)
    (item,) = applier.diff([want(CONTAINER, CPUS, CLEAR)], [CONTAINER], detail=True)
    assert item.action is action
    assert set(asked) <= {(CPUS, "q/p")}


def test_a_full_set_elsewhere_is_not_cleared(table: Table, journal: Journal) -> None:
    """Files can be cleared, and a set that is wanted is not a cleared one."""
    table.values["p", CPUS] = table.values["c", CPUS] = "0-7"
    applier = make(table, journal, allowed=lambda *_: "0-7")
    wants = [want(POD, CPUS, CLEAR), want(CONTAINER, CPUS, "0-3")]
    assert [item.action for item in applier.diff(wants, [POD, CONTAINER])] == [PlanAction.SET, PlanAction.SET]


# -- what nobody wants any more


def test_what_nobody_wants_any_more_is_restored(table: Table, journal: Journal, applier: Applier) -> None:
    """To what was found; with the plugin that had wanted it."""
    table.values["p", SHARES] = 5
    journal.note(POD, SHARES, found=2, written=5, plugin="y")
    (item,) = applier.diff([], [POD])
    assert (item.action, item.now, item.wanted, item.plugin) == (PlanAction.RESTORE, 5, 2, "y")


def test_a_value_before_the_last_is_ours_too(table: Table, journal: Journal, applier: Applier) -> None:
    """The process before was killed between noting the next value and writing it."""
    table.values["p", SHARES] = 4
    journal.note(POD, SHARES, found=2, written=5, plugin="y", before=4)
    assert told(applier.diff([], [POD])) == [(SHARES, PlanAction.RESTORE, 4, 2)]


def test_what_is_as_it_was_is_forgotten(table: Table, journal: Journal, applier: Applier) -> None:
    """There is nothing to be done."""
    table.values["p", SHARES] = 2
    journal.note(POD, SHARES, found=2, written=5, plugin="y")
    assert applier.diff([], [POD]) == []
    assert len(journal) == 0
    assert applier.unchanged == 1


def test_what_somebody_else_has_set_is_left_to_him(
    table: Table, journal: Journal, applier: Applier, caplog: pytest.LogCaptureFixture
) -> None:
    """It is neither what we found nor what we wrote."""
    caplog.set_level("INFO")
    table.values["p", SHARES] = 77
    journal.note(POD, SHARES, found=2, written=5, plugin="y")
    assert told(applier.diff([], [POD], detail=True)) == [(SHARES, PlanAction.KEEP, 77, 2)]
    assert len(journal) == 0
    assert [record.getMessage() for record in caplog.records] == ["Value changed by another process, not restored"]


def test_newcomers_are_no_somebody_else(table: Table, journal: Journal, applier: Applier) -> None:
    """Processes that were born without the value do not make it another's."""
    table.values["c", OOM] = None
    journal.note(CONTAINER, OOM, found=0, written=900, plugin="y")
    assert told(applier.diff([], [CONTAINER])) == [(OOM, PlanAction.RESTORE, None, 0)]


def test_what_cannot_be_undone_is_an_item(table: Table, journal: Journal, applier: Applier) -> None:
    """Nothing of it is forgotten."""
    table.values["p", SHARES] = PermissionError(errno.EACCES, "Permission denied")
    journal.note(POD, SHARES, found=2, written=5, plugin="y")
    journal.note(POD, Parameter.RESCTRL, found=None, written="L3:0=f", plugin="y")
    items = applier.diff([], [POD])
    assert [item.action for item in items] == [PlanAction.HELD, PlanAction.UNSUPPORTED]
    assert len(journal) == 2


def test_entries_of_targets_that_are_gone_are_ended(table: Table, journal: Journal, applier: Applier) -> None:
    """Unless only a part was looked at."""
    table.values["p", SHARES] = FileNotFoundError(errno.ENOENT, "No such file")
    table.values["c", SHARES] = FileNotFoundError(errno.ENOENT, "No such file")
    journal.note(POD, SHARES, found=2, written=5, plugin="y")
    journal.note(CONTAINER, SHARES, found=2, written=5, plugin="y")
    assert applier.diff([], [], whole=False) == []
    assert len(journal) == 2
    assert applier.diff([], []) == []
    assert len(journal) == 0


@pytest.mark.parametrize("found", [5, PermissionError(errno.EACCES, "Permission denied")])
def test_entries_of_a_pod_that_is_about_to_run_stay(
    table: Table, journal: Journal, applier: Applier, found: Value | Exception
) -> None:
    """Its group is there and has its values, though the runtime does not tell of it yet."""
    table.values["p", SHARES] = found
    journal.note(POD, Parameter.RESCTRL, found=None, written="L3:0=f", plugin="y")
    journal.note(POD, SHARES, found=2, written=5, plugin="y")
    assert applier.diff([], []) == []
    assert len(journal) == 2


def test_what_a_plugin_wrote_stays_while_nobody_knows_what_it_wants(
    table: Table, journal: Journal, applier: Applier
) -> None:
    """A plugin that failed has not changed its mind."""
    table.values["p", SHARES] = 5
    journal.note(POD, SHARES, found=2, written=5, plugin="y")
    assert applier.diff([], [POD], unsure={(Level.POD, "p", "y")}) == []
    others = {(Level.POD, "p", "z"), (Level.POD, "q", "y")}
    assert len(applier.diff([], [POD], unsure=others)) == 1


def test_a_dry_run_forgets_nothing(table: Table, journal: Journal) -> None:
    """It only says what would be."""
    table.values["p", SHARES] = 2
    journal.note(POD, SHARES, found=2, written=5, plugin="y")
    journal.note(CONTAINER, SHARES, found=2, written=5, plugin="y")
    assert make(table, journal, dry_run=True).diff([], [POD]) == []
    assert len(journal) == 2


# -- values that depend on others


def test_shares_are_held_while_a_pod_stays_idle(table: Table, applier: Applier) -> None:
    """The kernel would refuse them, and that is no error."""
    table.values |= {("p", SHARES): 3, ("p", IDLE): 1}
    items = applier.diff([want(POD, SHARES, 5), want(POD, IDLE, 1)], [POD])
    assert told(items) == [(SHARES, PlanAction.HELD, 3, 5)]
    assert items[0].note == "the kernel does not take it while cpu.idle is on"


@pytest.mark.parametrize("wanted", [3, 5])
def test_shares_are_set_when_a_pod_stops_being_idle(table: Table, applier: Applier, wanted: int) -> None:
    """Also if they look right: an idle group shows the kernel's own, and another when it is none any more."""
    table.values |= {("p", SHARES): 3, ("p", IDLE): 1}
    items = applier.diff([want(POD, SHARES, wanted), want(POD, IDLE, 0)], [POD], detail=True)
    assert {(item.parameter, item.action) for item in items} == {(SHARES, PlanAction.SET), (IDLE, PlanAction.SET)}


def test_shares_of_a_pod_that_is_not_idle_are_set(table: Table, applier: Applier) -> None:
    """Even if nobody can say whether it is."""
    table.values |= {("p", SHARES): 3, ("p", IDLE): OSError(errno.ENOTSUP, "no cpu.idle here")}
    assert told(applier.diff([want(POD, SHARES, 5)], [POD])) == [(SHARES, PlanAction.SET, 3, 5)]


@pytest.mark.parametrize("detail", [False, True])
def test_shares_that_idling_replaced_wait_for_its_end(
    table: Table, journal: Journal, applier: Applier, detail: bool
) -> None:
    """They are restored with it, and not given up before, though they look like somebody else's."""
    table.values |= {("p", SHARES): 3, ("p", IDLE): 1}
    journal.note(POD, SHARES, found=2, written=CLEAR, plugin="y")
    journal.note(POD, IDLE, found=0, written=1, plugin="y")
    items = applier.diff([want(POD, IDLE, 1)], [POD], detail=detail)
    assert all(item.action is PlanAction.KEEP for item in items)
    assert len(items) == (2 if detail else 0)
    assert applier.unchanged == 2
    assert told(applier.diff([], [POD])) == [(SHARES, PlanAction.RESTORE, 3, 2), (IDLE, PlanAction.RESTORE, 1, 0)]
    assert len(journal) == 2


def test_shares_that_idling_replaced_are_restored_after_a_kill(
    table: Table, journal: Journal, applier: Applier
) -> None:
    """The process before ended idling, and was killed before it could restore the shares."""
    table.values |= {("p", SHARES): 1024, ("p", IDLE): 0}
    journal.note(POD, SHARES, found=2, written=CLEAR, plugin="y")
    assert told(applier.diff([], [POD])) == [(SHARES, PlanAction.RESTORE, 1024, 2)]


def test_shares_of_a_pod_that_somebody_else_made_idle_are_not_ours(
    table: Table, journal: Journal, applier: Applier
) -> None:
    """What we wrote is gone, and what was found would not be taken."""
    table.values |= {("p", SHARES): 3, ("p", IDLE): 1}
    journal.note(POD, SHARES, found=2, written=5, plugin="y")
    assert applier.diff([], [POD]) == []
    assert len(journal) == 0


def test_without_idling_there_are_no_switches(table: Table, journal: Journal) -> None:
    """Shares are shares."""
    table.values["p", SHARES] = 3
    applier = Applier({SHARES: table}, journal, now=lambda: 0.0)
    assert told(applier.diff([want(POD, SHARES, 5)], [POD])) == [(SHARES, PlanAction.SET, 3, 5)]


@pytest.mark.parametrize("detail", [False, True])
def test_copies_of_a_parents_set_follow_it(journal: Journal, detail: bool) -> None:
    """On cgroup v1 a cleared set is a text like others; the parent could not shrink while it stays."""

    class Copies(Table):
        def same(self, parameter: Parameter, found: Value | None, wanted: Value) -> bool:
            return found == "0-3" if wanted is CLEAR else found == wanted

    table = Copies()
    group = ActuatorTarget(level=Level.QOS, key="q", directory="q")
    other = ActuatorTarget(level=Level.POD, key="o", directory="o/p")
    table.values |= {(key, CPUS): "0-3" for key in ("q", "p", "c", "o")}
    applier = make(table, journal)
    wants = [
        want(CONTAINER, CPUS, CLEAR),
        want(POD, CPUS, CLEAR),
        want(other, CPUS, CLEAR),
        want(group, CPUS, "0-1"),
    ]
    items = applier.diff(wants, [group, POD, CONTAINER, other], detail=detail)
    changes = {item.target.key: item.now for item in items if item.action is PlanAction.SET}
    assert changes == {"q": "0-3", "p": "0-3", "c": "0-3"}
    assert applier.unchanged == 1
    assert len(items) == (4 if detail else 3)


def test_errors_in_words() -> None:
    """With the name that can be searched for."""
    assert error_text(OSError(errno.EINVAL, "Invalid argument", "/x")) == "Invalid argument (EINVAL)"
    assert error_text(OSError("odd")) == "OSError: odd"
    assert error_text(OSError(12345, "odd")) == "odd (12345)"
    assert action_of(OSError("odd")) is PlanAction.HELD


@pytest.mark.parametrize(
    ("parameter", "found", "wanted", "expected"),
    [
        (QUOTA, UNLIMITED, None, True),
        (QUOTA, None, UNLIMITED, True),
        (QUOTA, None, 5, False),
        (SHARES, None, None, True),
        (SHARES, None, UNLIMITED, False),
        (SHARES, CLEAR, None, True),
        (SHARES, 5, None, False),
        (SHARES, 5, 5, True),
    ],
)
def test_same(table: Table, parameter: Parameter, found: Value | None, wanted: Value | None, expected: bool) -> None:
    """Nothing is what clearing leads to, and no limit is none."""
    assert is_same(table, parameter, found, wanted) is expected
