"""Who was killed for want of memory."""

from pathlib import Path

import pytest

from interpose.node.runtime.shim.oom import OomKills, PodKills, oom_kills


@pytest.mark.parametrize(
    ("text", "kills"),
    [
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", 3),
        ("low 0\nhigh 0\nmax 5\noom 1\noom_kill 1\noom_group_kill 0\n", 1),
        ("oom_kill_disable 0\nunder_oom 0\n", 0),
        ("oom_kill many\n", None),
    ],
)
def test_kills_are_counted_by_the_kernel(tmp_path: Path, text: str, kills: int | None) -> None:
    """The files of cgroup v1 and v2, of old kernels, and a broken one."""
    path = tmp_path / "events"
    path.write_text(text)

    assert oom_kills(str(path)) == kills


def test_without_a_cgroup_nothing_is_known(tmp_path: Path) -> None:
    """It is not there yet, not there any more, or not known."""
    assert [oom_kills(str(tmp_path / "gone")), oom_kills(None)] == [None, None]


class Slice:
    """A pod's cgroup of v2, whose count has those of its containers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pod = PodKills()
        self.counts: dict[str, int] = {}
        self.all = 0
        self.kill("", 0)

    def start(self, name: str) -> OomKills:
        """A container; its cgroup comes after it was announced."""
        kills = OomKills(self.pod, str(self.folder / name / "memory.events"))
        (self.folder / name).mkdir()
        self.kill(name, 0)
        kills.started()
        return kills

    def kill(self, name: str, times: int = 1) -> None:
        """The kernel kills in a container, or elsewhere in the pod."""
        self.counts[name] = self.counts.get(name, 0) + times
        self.all += times
        if name:
            (self.folder / name / "memory.events").write_text(f"oom_kill {self.counts[name]}\n")
        (self.folder / "memory.events").write_text(f"oom_kill {self.all}\n")

    def vanish(self, name: str) -> None:
        """systemd was quicker than we are."""
        (self.folder / name / "memory.events").unlink()
        (self.folder / name).rmdir()


@pytest.mark.parametrize("gone", [True, False])
@pytest.mark.parametrize("kills", [0, 1])
def test_what_was_killed_in_a_cgroup(tmp_path: Path, kills: int, gone: bool) -> None:
    """Also in one that is gone when we look; what was killed before does not count."""
    one = Slice(tmp_path)
    one.kill("", 2)
    container = one.start("a")
    one.kill("a", kills)
    if gone:
        one.vanish("a")
    assert container.ended(137) is (kills > 0)


def test_an_end_of_its_own_is_none(tmp_path: Path) -> None:
    """Whatever the cgroup above says: it was not killed."""
    one = Slice(tmp_path)
    container = one.start("a")
    one.kill("a")
    one.vanish("a")
    assert not container.ended(1)


def test_others_of_the_pod_account_for_theirs(tmp_path: Path) -> None:
    """Those that run, those that ended, and one whose cgroup is gone as well."""
    one = Slice(tmp_path)
    stopped, running, ended, eaten = (one.start(name) for name in "abcd")
    one.kill("b")
    one.kill("c", 2)
    one.kill("d")
    assert ended.ended(137)
    one.vanish("d")
    assert eaten.ended(137)
    one.vanish("a")
    assert not stopped.ended(137)
    assert running.ended(0)
    one.vanish("b")
    again = one.start("e")
    one.vanish("e")
    assert not again.ended(137)


def test_version_one_has_only_the_file_itself(tmp_path: Path) -> None:
    """It stays until the runtime removes the cgroup. Without one nothing is known."""
    (tmp_path / "memory.oom_control").write_text("oom_kill 7\n")
    for path in (str(tmp_path / "a" / "memory.oom_control"), None):
        kills = OomKills(PodKills(), path)
        kills.started()
        assert not kills.ended(137)
