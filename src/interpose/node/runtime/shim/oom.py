"""What the kernel killed for want of memory, container by container.

systemd removes the cgroup of a container as soon as nobody is in it, often before we can look. On v2 the cgroup above
counts what is killed below it, also in cgroups that are gone: what no other container of the pod accounts for was then
the one whose cgroup is gone.
"""

import os

_KILLED = 137  # by SIGKILL; a shell passes that on
_V2 = "memory.events"


class PodKills:
    """What containers of one pod account for."""

    def __init__(self) -> None:
        self.running: list[OomKills] = []
        self.ended = 0

    def accounted(self) -> int:
        """All kills that are known of, ever."""
        return self.ended + sum(one.known() for one in self.running)


class OomKills:
    """Of one container; `path` is the file of its cgroup that counts, None where there is none."""

    def __init__(self, pod: PodKills, path: "str | None") -> None:
        self._pod = pod
        self._path = path
        self._above = _above(path)
        self._before = oom_kills(path) or 0
        self._elsewhere = self._unaccounted()  # in the cgroup above, before this container
        self._known = 0

    def started(self) -> None:
        """From now on it counts among the others."""
        self._pod.running.append(self)

    def known(self) -> int:
        """How often so far, by its own file; what was last seen if that is gone."""
        found = oom_kills(self._path)
        if found is not None:
            self._known = found - self._before
        return self._known

    def ended(self, code: int) -> bool:
        """It ended with this exit code: whether something was killed in it."""
        self._pod.running.remove(self)
        kills = self.known()
        if code == _KILLED and kills == 0 and oom_kills(self._path) is None:
            kills = max(self._unaccounted() - self._elsewhere, 0)
        self._pod.ended += kills
        return kills > 0

    def _unaccounted(self) -> int:
        return (oom_kills(self._above) or 0) - self._pod.accounted()


def oom_kills(path: "str | None") -> "int | None":
    """How often the kernel killed for want of memory in a cgroup: the same line in v1 and v2. None without the file."""
    if not path:
        return None
    try:
        with open(path) as file:  # noqa: PTH123
            for line in file:
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count)
    except (OSError, ValueError):
        return None
    return 0


def _above(path: "str | None") -> "str | None":
    """The same file of the cgroup above. On v1 it says nothing of those below."""
    if not path or os.path.basename(path) != _V2:  # noqa: PTH119
        return None
    return f"{os.path.dirname(os.path.dirname(path))}/{_V2}"  # noqa: PTH120
