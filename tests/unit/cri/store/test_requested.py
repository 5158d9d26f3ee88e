"""The annotation that keeps what was requested."""

import pytest

from interpose.core.model.resources import LinuxResources
from interpose.cri.store.requested import parent_note, refreshed, requested_parent, requested_resources, resources_note

ASKED = LinuxResources(cpu_shares=512, memory_limit_in_bytes=9, hugepage_limits=(("2MB", 1),))
SENT = LinuxResources(
    cpu_shares=7, memory_limit_in_bytes=9, cpuset_cpus="1", unified={"a": "b"}, hugepage_limits=(("1GB", 2),)
)


def test_note_has_only_what_differs() -> None:
    """Compact, and empty where nothing differs."""
    assert resources_note(LinuxResources(cpu_shares=2), LinuxResources()) == '{"cpu_shares":0}'
    assert resources_note(SENT, SENT) == parent_note("/a", "/a") == ""


def test_everything_comes_back() -> None:
    """Numbers, texts, pairs and maps, set or not set."""
    assert requested_resources(resources_note(SENT, ASKED), SENT, SENT) == ASKED
    assert requested_resources(resources_note(ASKED, SENT), ASKED, ASKED) == SENT
    assert requested_parent(parent_note("/a", "/b"), "/a") == "/b"


def test_updated_field_reports_what_it_is() -> None:
    """Only what is still as it was created counts."""
    current = LinuxResources(cpu_shares=100, cpuset_cpus="1")
    created = LinuxResources(cpu_shares=7, cpuset_cpus="1")
    note = resources_note(created, LinuxResources(cpu_shares=512))
    assert requested_resources(note, current, created) == LinuxResources(cpu_shares=100)


def test_unknown_creation_believes_the_note() -> None:
    """A runtime that does not show the create request."""
    note = resources_note(SENT, ASKED)
    assert requested_resources(note, SENT, None) == ASKED


@pytest.mark.parametrize(
    "note",
    [
        "",
        "{",
        "[]",
        "3",
        '{"cpu_shares":"x","cpuset_cpus":1,"unified":[],"hugepage_limits":{}}',
        '{"cpu_shares":true}',
        '{"cpu_shares":1e30}',
        '{"cpu_shares":99999999999999999999}',
        '{"hugepage_limits":[1]}',
        '{"hugepage_limits":[["2MB"]]}',
        '{"hugepage_limits":[["2MB","x"]]}',
        '{"unified":{"a":1}}',
        '{"unknown":1,"cgroup_parent":[]}',
        "[" * 100_000,
    ],
)
def test_damaged_note_is_ignored(note: str) -> None:
    """Whatever it says: nothing fails, nothing changes."""
    assert requested_resources(note, SENT, SENT) == SENT
    assert requested_parent(note, "/a") == "/a"


def test_change_behind_our_back_is_no_divergence() -> None:
    """Where a container had what was requested it still has; where it had not, the request stands."""
    old = LinuxResources(cpu_shares=2, cpuset_cpus="1")
    new = LinuxResources(cpu_shares=3, cpuset_cpus="2")
    assert refreshed(LinuxResources(cpu_shares=2), old, new) == LinuxResources(cpu_shares=3)
