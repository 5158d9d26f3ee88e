"""The format of the journal's file."""

import json

import pytest

from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter, Value
from interpose.hooks.server.reconcile.journal_format import JournalEntry, forget_line, header_line, line_of, parse
from interpose.hooks.server.targets import ActuatorTarget

POD = ActuatorTarget(level=Level.POD, key="p", directory="kubepods/p", name="ns/p", pod_uid="u")
SHARES, QUOTA = Parameter.CPU_SHARES, Parameter.CPU_QUOTA
HEADER = header_line("boot")
GOOD = JournalEntry(found=1, written=2, plugin="p")


def changed(**fields: object) -> bytes:
    """A good line with some fields replaced."""
    line = json.loads(line_of(POD, SHARES, JournalEntry(found=2, written=3, plugin="x")))
    return json.dumps(line | fields).encode() + b"\n"


@pytest.mark.parametrize("value", [0, -1, 1024, "", "0-3", "unlimited", "clear", UNLIMITED, CLEAR])
def test_values_keep_their_kind(value: Value) -> None:
    """The word and the text that looks like it are told apart."""
    entry = JournalEntry(found=value, written=value, plugin="x", before=value)
    content = parse(HEADER + line_of(POD, SHARES, entry), "boot")
    assert content.slots[Level.POD, "p"].entries == {SHARES: entry}


def test_a_target_can_be_made_again() -> None:
    """With directory, name and uid."""
    content = parse(HEADER + line_of(POD, SHARES, JournalEntry(found=None, written=3, plugin="x")), "boot")
    assert content.slots[Level.POD, "p"].target == POD
    assert content.lines == 1


def test_the_last_line_counts() -> None:
    """Each has the whole entry."""
    lines = line_of(POD, SHARES, JournalEntry(found=2, written=3, plugin="x")) + line_of(
        POD, SHARES, JournalEntry(found=2, written=4, plugin="y")
    )
    (entry,) = parse(HEADER + lines, "boot").slots[Level.POD, "p"].entries.values()
    assert entry == JournalEntry(found=2, written=4, plugin="y")


def test_entries_and_targets_end() -> None:
    """A target without entries is none; ending what is not there is nothing."""
    one, other = (line_of(POD, each, JournalEntry(found=2, written=3, plugin="x")) for each in (SHARES, QUOTA))
    data = HEADER + one + other + forget_line(Level.POD, "p", SHARES)
    assert list(parse(data, "boot").slots[Level.POD, "p"].entries) == [QUOTA]
    assert parse(data + forget_line(Level.POD, "p", QUOTA), "boot").slots == {}
    assert parse(data + forget_line(Level.POD, "p"), "boot").slots == {}
    assert parse(HEADER + forget_line(Level.POD, "p", SHARES) + forget_line(Level.POD, "p"), "boot").slots == {}


def test_half_a_line_at_the_end_is_none() -> None:
    """The size is where to go on."""
    good = HEADER + line_of(POD, SHARES, JournalEntry(found=2, written=3, plugin="x"))
    half = line_of(POD, QUOTA, JournalEntry(found=2, written=3, plugin="x"))[:-1]
    content = parse(good + half, "boot")
    assert list(content.slots[Level.POD, "p"].entries) == [SHARES]
    assert content.size == len(good)
    assert parse(HEADER[:-1], "boot").size == 0
    assert parse(b"", "boot").size == 0


@pytest.mark.parametrize("header", [header_line("other"), b'{"version":2,"boot":"boot"}\n', b"{}\n"])
def test_another_boot_or_version_is_foreign(header: bytes) -> None:
    """Its entries are about groups that are gone, or mean something else; they are not even looked at."""
    content = parse(header + b"whatever\n", "boot")
    assert content.foreign
    assert content.size == 0


@pytest.mark.parametrize(
    "line",
    [changed(more=1), changed(before=None), changed(level="galaxy"), changed(parameter="cpu.colour")],
)
def test_what_a_later_version_adds_is_ignored(line: bytes) -> None:
    """Keys, levels and parameters."""
    assert parse(HEADER + line, "boot").lines == 1


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"\n", "line 2: Expecting value"),
        (b"[]\n", "line 2: expected an object"),
        (b"\xff\n", "line 2: "),
        (b"[" * 100_000 + b"\n", "line 2: "),
        (b'{"level":"pod"}\n', "line 2: 'key' is missing"),
        (changed(key=1), "line 2: expected text, found 1"),
        (changed(parameter=None), "line 2: expected text, found None"),
        (changed(parameter=[]), "line 2: expected text"),
        (changed(level={}), "line 2: expected text"),
        (changed(written=None), "line 2: expected a value that was written"),
        (changed(written=1.5), "line 2: expected a value, found 1.5"),
        (changed(found=True), "line 2: expected a value, found True"),
        (changed(found={"special": "magic"}), "line 2: 'magic' is not a valid Special"),
        (changed(found={}), "line 2: 'special' is missing"),
    ],
)
def test_damage_names_its_line(line: bytes, problem: str) -> None:
    """Everything that no journal of ours has written; the other lines count."""
    content = parse(HEADER + line + line_of(POD, Parameter.CPU_SHARES, GOOD), "boot")
    (damage,) = content.damaged
    assert damage.startswith("line 2")
    assert problem in damage
    assert [slot.entries for slot in content.slots.values()] == [{Parameter.CPU_SHARES: GOOD}]
