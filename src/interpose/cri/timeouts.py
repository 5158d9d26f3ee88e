"""How long each call to a runtime may take: the deadlines of a kubelet. Pure; seconds, None is without a limit."""

from dataclasses import dataclass
from typing import Final

REQUEST: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """All of them follow from one: what an ordinary call may take."""

    request: float = REQUEST

    @property
    def run_pod_sandbox(self) -> float:
        """Networks take their time."""
        return 2 * self.request

    def stop_container(self, grace: int) -> float:
        """The runtime answers when the container has ended, at the latest after its grace."""
        return self.request + max(grace, 0)

    def exec_sync(self, timeout: int) -> float | None:
        """A command without a limit has none here either."""
        return self.request + timeout if timeout > 0 else None

    def checkpoint(self, timeout: int) -> float:
        """The longer one of what was asked for and what is usual."""
        return max(self.request, float(timeout))
