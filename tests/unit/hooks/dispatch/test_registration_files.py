"""What is found in the directory of registration files, and what is refused."""

import os
import socket
import stat
from pathlib import Path

import pytest

from interpose.hooks.dispatch.registration_files import (
    RegistrationFile,
    RegistrationListing,
    list_registrations,
    read_registration,
)
from interpose.host.file_trust import Trust
from tests.support.process_cost import open_fds

GOOD = '{"remote-endpoint": "/run/a.sock", "runtime-hooks": ["PreRunPodSandbox"]}'
LONG_AGO = 1_000_000_000
TRUST = Trust()


@pytest.fixture
def hooks(tmp_path: Path) -> Path:
    """The directory."""
    folder = tmp_path / "hooks.d"
    folder.mkdir(mode=0o755)
    return folder


def settle(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the file an old one: the change time cannot be set, so the clock is."""
    os.utime(path, (LONG_AGO, LONG_AGO))
    later = path.stat().st_ctime_ns + 5_000_000_000
    monkeypatch.setattr("time.time_ns", lambda: later)


def scan(directory: Path, before: RegistrationListing | None = None) -> dict[str, RegistrationFile]:
    """The files found."""
    listing = list_registrations(str(directory), (before.files if before else None) or {}, TRUST)
    assert listing.files is not None
    return dict(listing.files)


def only_problem(directory: Path) -> str:
    """What is wrong with the one file there."""
    [reading] = scan(directory).values()
    assert reading.server is None
    [problem] = reading.problems
    return problem


def test_files_are_chosen_by_name(hooks: Path) -> None:
    """`.json` at the end, no dot at the beginning."""
    for name in ("a.json", ".b.json", ".json", "c.JSON", "d.json~", "ejson", "f.json.tmp", "g h.json"):
        (hooks / name).write_text(GOOD)
    found = scan(hooks)
    assert list(found) == ["a.json", "g h.json"]
    server = found["a.json"].server
    assert server is not None
    assert (server.name, server.file) == ("a", str(hooks / "a.json"))


def test_a_missing_directory_is_an_empty_one(tmp_path: Path) -> None:
    """Nothing is registered before somebody makes it."""
    assert list_registrations(str(tmp_path / "missing/hooks.d"), {}, TRUST) == RegistrationListing(files={})


def test_a_directory_that_is_none_is_a_problem(tmp_path: Path) -> None:
    """And not an empty one: what is in force stays."""
    (tmp_path / "file").touch()
    assert list_registrations(str(tmp_path / "file"), {}, TRUST) == RegistrationListing(
        problem=f"directory {tmp_path}/file: cannot be opened: Not a directory"
    )


def test_a_named_pipe_cannot_hang_us(hooks: Path) -> None:
    """Nobody will ever write to it."""
    os.mkfifo(hooks / "a.json")
    assert only_problem(hooks) == f"file {hooks}/a.json: is a named pipe, not a regular file"


def test_directories_and_sockets_are_problems(hooks: Path) -> None:
    """They have the name of a registration and cannot be one."""
    (hooks / "a.json").mkdir()
    assert only_problem(hooks) == f"file {hooks}/a.json: is a directory, not a regular file"
    (hooks / "a.json").rmdir()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(hooks / "a.json"))
        assert only_problem(hooks) == f"file {hooks}/a.json: is a socket, not a regular file"


def test_links_are_followed(hooks: Path, tmp_path: Path) -> None:
    """The name is that of the link; one that leads nowhere is a problem, not a missing file."""
    (hooks / "a.json").symlink_to(tmp_path / "real")
    assert only_problem(hooks) == f"file {hooks}/a.json: is a link to nothing"
    (tmp_path / "real").write_text(GOOD)
    server = scan(hooks)["a.json"].server
    assert server is not None
    assert server.name == "a"


def test_large_files_are_not_read(hooks: Path) -> None:
    """A mebibyte is a thousand times more than anybody needs."""
    (hooks / "a.json").write_text(GOOD + " " * (1 << 20))
    assert only_problem(hooks) == f"file {hooks}/a.json: is larger than 1048576 bytes, this is not a registration file"


def test_text_that_is_not_utf8_is_a_problem(hooks: Path) -> None:
    """A byte order mark is fine, other encodings are not."""
    (hooks / "a.json").write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert scan(hooks)["a.json"].server is not None
    (hooks / "a.json").write_bytes(b'{"\xff')
    assert only_problem(hooks) == f"file {hooks}/a.json: is not UTF-8 text (byte 2)"


def test_names_that_cannot_be_shown_are_refused(hooks: Path) -> None:
    """They would go to terminals, logs and metrics; their label there is plain text."""
    (hooks / os.fsdecode(b"a\xff\x1b.json")).write_text(GOOD)
    [(label, reading)] = scan(hooks).items()
    assert label == r"a\udcff\x1b.json"
    assert "cannot be printed" in reading.problems[0]
    assert reading.problems[0].isprintable()


def faked(mode: int, uid: int, gid: int) -> os.stat_result:
    """A file of somebody."""
    return os.stat_result((stat.S_IFREG | mode, 1, 1, 1, uid, gid, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("mode", "uid", "gid", "doubts"),
    [
        (0o644, 0, 0, None),
        (0o600, 1000, 50, None),
        (0o664, 0, 0, None),
        (0o664, 0, 1000, None),
        (0o664, 0, 50, "has mode 0664, group 50 may write to it (chmod g-w)"),
        (0o646, 0, 0, "has mode 0646, everybody may write to it (chmod o-w)"),
        (0o1777, 0, 0, "has mode 1777, everybody may write to it (chmod o-w)"),
        (0o600, 50, 0, "belongs to uid 50, it must belong to uid 0 or 1000"),
    ],
)
def test_only_files_nobody_else_can_write_are_trusted(mode: int, uid: int, gid: int, doubts: str | None) -> None:
    """Owner, others, and the group unless it is root's or ours."""
    assert Trust(uids={0, 1000}, gids={0, 1000}).doubts(faked(mode, uid, gid)) == doubts


def test_a_file_others_can_write_is_refused(hooks: Path) -> None:
    """Until its mode is put right."""
    (hooks / "a.json").write_text(GOOD)
    (hooks / "a.json").chmod(0o666)
    assert only_problem(hooks) == f"file {hooks}/a.json: has mode 0666, everybody may write to it (chmod o-w)"
    (hooks / "a.json").chmod(0o644)
    assert scan(hooks)["a.json"].server is not None


def test_a_directory_others_can_write_is_refused(hooks: Path) -> None:
    """Whole: whoever can write there can put files in others' places."""
    hooks.chmod(0o777)
    problem = f"directory {hooks}: has mode 0777, everybody may write to it (chmod o-w)"
    assert list_registrations(str(hooks), {}, TRUST) == RegistrationListing(problem=problem)


def test_the_folder_behind_a_link_is_asked_as_well(hooks: Path, tmp_path: Path) -> None:
    """A good file in a bad place is a bad file."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.json").write_text(GOOD)
    elsewhere.chmod(0o777)
    (hooks / "a.json").symlink_to(elsewhere / "a.json")
    assert only_problem(hooks) == (
        f"file {hooks}/a.json: leads to {elsewhere}, which has mode 0777, everybody may write to it (chmod o-w)"
    )


def test_a_check_reads_files_that_are_not_trusted(hooks: Path) -> None:
    """Who asks for that gets both the contents and the doubts."""
    path = hooks / "a.json"
    path.write_text(GOOD)
    path.chmod(0o666)
    reading = read_registration(str(path), TRUST, check_trust=False)
    assert reading is not None
    assert reading.server is not None
    assert len(reading.doubts) == 1


def test_an_unchanged_file_is_not_read_again(hooks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The very same reading comes back, unless the file was touched."""
    path = hooks / "a.json"
    path.write_text(GOOD)
    settle(path, monkeypatch)
    first = list_registrations(str(hooks), {}, TRUST)
    assert first.files is not None
    assert scan(hooks, first)["a.json"] is first.files["a.json"]
    path.write_text(GOOD)
    assert scan(hooks, first)["a.json"] is not first.files["a.json"]


def test_a_file_that_just_changed_is_read_again(hooks: Path) -> None:
    """Two edits in one step of the file system's clock look like one."""
    path = hooks / "a.json"
    path.write_text(GOOD)
    first = list_registrations(str(hooks), {}, TRUST)
    assert first.files is not None
    assert first.files["a.json"].stamp is None
    assert scan(hooks, first)["a.json"] is not first.files["a.json"]


def test_a_file_that_was_just_emptied_is_being_written(hooks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too early to complain; when it stays empty, it is a problem."""
    path = hooks / "a.json"
    path.touch()
    assert scan(hooks) == {"a.json": RegistrationFile()}
    settle(path, monkeypatch)
    assert only_problem(hooks) == f"file {hooks}/a.json: is empty"


def test_a_file_of_the_future_that_is_empty_is_a_problem(hooks: Path) -> None:
    """A clock that was put back is no excuse for ever."""
    path = hooks / "a.json"
    path.touch()
    os.utime(path, (2**32, 2**32))
    assert only_problem(hooks) == f"file {hooks}/a.json: is empty"


def test_no_descriptor_is_left_open(hooks: Path) -> None:
    """Whatever was found."""
    (hooks / "a.json").write_text(GOOD)
    (hooks / "b.json").write_text("{")
    (hooks / "c.json").mkdir()
    (hooks / "d.json").write_text(GOOD)
    (hooks / "d.json").chmod(0o666)
    before = open_fds()
    scan(hooks)
    hooks.chmod(0o777)
    list_registrations(str(hooks), {}, TRUST)
    assert open_fds() == before


def test_directory_with_absurdly_many_files_changes_nothing(hooks: Path) -> None:
    """Each registration costs something for ever; this is a mistake, not a wish."""
    for number in range(129):
        (hooks / f"{number}.json").write_text(GOOD)
    assert list_registrations(str(hooks), {}, TRUST) == RegistrationListing(
        problem=f"directory {hooks}: has 129 registration files, at most 128"
    )
