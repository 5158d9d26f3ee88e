"""The fake has the kernel's rules, so that tests fail where the kernel would."""

import errno

import pytest

from tests.support.hooks.fake_resctrl import FakeResctrl

ROOT = "/sys/fs/resctrl"


def made(**settings: int) -> FakeResctrl:
    """One with a group."""
    fake = FakeResctrl(**settings)  # type: ignore[arg-type]
    fake.make_directory(f"{ROOT}/a")
    return fake


def test_new_group_restricts_nothing() -> None:
    """And looks as the kernel shows it."""
    assert made().read(f"{ROOT}/a/schemata") == "    L3:0=7ff;1=7ff\n    MB:0=100;1=100\n"


@pytest.mark.parametrize(
    "text", ["L3:0=5\n", "L3:0=0\n", "L3:0=fff\n", "L3:2=f\n", "MB:0=0\n", "MB:0=101\n", "L2:0=f\n", "what\n", "L3:0=f"]
)
def test_values_the_kernel_refuses(text: str) -> None:
    """Holes, nothing, too much, unknown caches and resources, no newline; with a reason, and without a change."""
    fake = made()
    before = fake.read(f"{ROOT}/a/schemata")
    with pytest.raises(OSError) as caught:
        fake.write(f"{ROOT}/a/schemata", text)
    assert caught.value.errno == errno.EINVAL
    assert fake.read(f"{ROOT}/a/schemata") == before
    assert fake.read(f"{ROOT}/info/last_cmd_status") != "ok\n"


def test_processors_may_want_several_bits() -> None:
    """Some take no mask of one way."""
    with pytest.raises(OSError):
        made(min_bits=2).write(f"{ROOT}/a/schemata", "L3:0=1\n")


def test_one_cache_can_be_changed_alone() -> None:
    """The others keep what they have."""
    fake = made()
    fake.write(f"{ROOT}/a/schemata", "L3:1=3;\n")
    assert fake.read(f"{ROOT}/a/schemata").startswith("    L3:0=7ff;1=3\n")
    assert fake.read(f"{ROOT}/info/last_cmd_status") == "ok\n"


def test_children_are_born_into_the_group_of_their_parent() -> None:
    """Removing the group sends everybody to the root."""
    fake = made()
    fake.spawn(1)
    fake.write(f"{ROOT}/a/tasks", "1\n")
    fake.spawn(2, parent=1)
    assert (fake.read(f"{ROOT}/a/tasks"), fake.read(f"{ROOT}/tasks")) == ("1\n2\n", "")
    fake.remove_directory(f"{ROOT}/a")
    assert fake.read(f"{ROOT}/tasks") == "1\n2\n"


def test_root_group_takes_a_class_of_service() -> None:
    """Two are one for others."""
    with pytest.raises(OSError) as caught:
        made(closids=2).make_directory(f"{ROOT}/b")
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize("name", ["info", "a/b", "mon_data"])
def test_groups_are_made_at_the_top_only(name: str) -> None:
    """And not where the kernel has something."""
    with pytest.raises(PermissionError):
        made().make_directory(f"{ROOT}/{name}")


def test_unmounted_there_is_nothing() -> None:
    """No file, no directory."""
    fake = made()
    fake.mounted = False
    assert not any(fake.exists(path) for path in (ROOT, f"{ROOT}/a", f"{ROOT}/schemata", f"{ROOT}/info/L3/cbm_mask"))
    for call in (fake.read, fake.directories, fake.make_directory, fake.remove_directory):
        with pytest.raises(FileNotFoundError):
            call(f"{ROOT}/b")


def test_directories_and_files_exist() -> None:
    """As far as they do."""
    fake = made()
    assert all(fake.exists(path) for path in (ROOT, f"{ROOT}/a", f"{ROOT}/a/tasks", "/proc/cpuinfo"))
    assert not any(fake.exists(path) for path in (f"{ROOT}/b", f"{ROOT}/a/nothing", "/etc"))


def test_paths_of_others_go_to_the_other() -> None:
    """So that one kernel has both."""
    inner = FakeResctrl(root="/other")
    fake = FakeResctrl(other=inner)
    fake.make_directory("/other/a")
    fake.write("/other/a/schemata", "L3:0=1\n")
    assert fake.read("/other/a/schemata").startswith("    L3:0=1;")
    assert "a" in fake.directories("/other")
    assert fake.exists("/other/a")
    fake.remove_directory("/other/a")
    assert inner.groups() == []


def test_without_another_they_do_not_exist() -> None:
    """Neither for reading nor for writing."""
    with pytest.raises(FileNotFoundError):
        FakeResctrl().write("/proc/1/oom_score_adj", "5")
