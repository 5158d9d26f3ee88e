"""The file with the events of a pod."""

from pathlib import Path

from interpose.node.pods.events.events import EventType, PodEvent, to_line
from interpose.node.pods.events.file import append_events, begin_events, event_file, read_events

FIRST = PodEvent(type=EventType.NORMAL, reason="Scheduled", message="m", first=1, last=1)


def warning(number: int, message: str = "probe failed") -> PodEvent:
    return PodEvent(
        type=EventType.WARNING, reason="Unhealthy", message=message, container="main", first=number, last=number
    )


def test_events_are_added_and_counted(tmp_path: Path) -> None:
    """The first is written once."""
    folder = str(tmp_path)
    begin_events(folder, FIRST)
    append_events(folder, [warning(2), warning(3)])
    begin_events(folder, FIRST)
    append_events(folder, [warning(4)])
    first, failed = read_events(folder)
    assert first == FIRST
    assert (failed.first, failed.last, failed.count) == (2, 4, 3)
    assert event_file(folder).stat().st_mode & 0o777 == 0o600


def test_a_pod_that_is_gone_does_not_come_back(tmp_path: Path) -> None:
    """What still happens to it is not written, and nothing is made."""
    append_events(str(tmp_path / "gone"), [FIRST])
    append_events(str(tmp_path), [FIRST])
    assert list(tmp_path.iterdir()) == []
    assert read_events(str(tmp_path)) == []


def test_a_file_that_grows_long_is_written_anew(tmp_path: Path) -> None:
    """With all that is known of it: equal events as one."""
    folder = str(tmp_path)
    begin_events(folder, FIRST)
    for number in range(2000):
        append_events(folder, [warning(number + 2)])
    before = event_file(folder).stat().st_size
    begin_events(folder, FIRST)
    after = event_file(folder).stat().st_size
    assert after < 1000 < before
    assert [one.count for one in read_events(folder)] == [1, 2000]


def test_a_file_that_nobody_shortens_is_bounded(tmp_path: Path) -> None:
    """Nothing is added to what is far too long."""
    folder = str(tmp_path)
    event_file(folder).write_bytes(to_line(warning(2)) * 20_000)
    size = event_file(folder).stat().st_size
    append_events(folder, [warning(3)])
    assert event_file(folder).stat().st_size == size > 1 << 20
    assert read_events(folder)[0].count > 1000


def test_a_bad_file_does_no_harm(tmp_path: Path) -> None:
    """What is understood of it is shown, and more is added."""
    folder = str(tmp_path)
    event_file(folder).write_bytes(b"\x00\xff{{{\n" + to_line(FIRST))
    begin_events(folder, FIRST)
    append_events(folder, [warning(2)])
    assert [one.reason for one in read_events(folder)] == ["Scheduled", "Unhealthy"]
