"""OOM kills, by container.

systemd removes the cgroup of a container as soon as it is empty, often before we can read it. On v2 the parent cgroup
counts kills below it, also in cgroups that are gone: a kill that no other container of the pod accounts for belongs to
the one whose cgroup is gone.
"""

import os

_KILLED = 137  # SIGKILL; a shell returns it for its child
_V2 = "memory.events"


class PodKills:
    """The OOM kills that the containers of a pod account for."""

    def __init__(self) -> None:
        self.running: list[OomKills] = []
        self.ended = 0

    def accounted(self) -> int:
        """All known kills, of running and exited containers."""
        return self.ended + sum(kills.known() for kills in self.running)


class OomKills:
    """The OOM kills of a container; `path` is the counter file of its cgroup, None where there is none."""

    def __init__(self, pod: PodKills, path: "str | None") -> None:
        self._pod = pod
        self._path = path
        self._parent_path = _parent_file(path)
        self._before = oom_kills(path) or 0
        self._elsewhere = self._unaccounted()  # in the cgroup above, before this container
        self._known = 0

    def started(self) -> None:
        """Count this container among the running ones."""
        self._pod.running.append(self)

    def known(self) -> int:
        """Kills so far by its counter file; the last value if that is gone."""
        found = oom_kills(self._path)
        if found is not None:
            self._known = found - self._before
        return self._known

    def ended(self, code: int) -> bool:
        """The container exited with this code: True if it had an OOM kill."""
        self._pod.running.remove(self)
        kills = self.known()
        if code == _KILLED and kills == 0 and oom_kills(self._path) is None:
            kills = max(self._unaccounted() - self._elsewhere, 0)
        self._pod.ended += kills
        return kills > 0

    def _unaccounted(self) -> int:
        return (oom_kills(self._parent_path) or 0) - self._pod.accounted()


def oom_kills(path: "str | None") -> "int | None":
    """The number of OOM kills in a cgroup: the same line in v1 and v2. None without the file."""
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


def _parent_file(path: "str | None") -> "str | None":
    """The counter file of the parent cgroup; None on v1, where it does not count kills below it."""
    if not path or os.path.basename(path) != _V2:  # noqa: PTH119
        return None
    return f"{os.path.dirname(os.path.dirname(path))}/{_V2}"  # noqa: PTH120
