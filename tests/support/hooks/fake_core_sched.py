"""Core scheduling of a kernel in memory: cookies of processes, with the kernel's rules for handing them on.

The code under test is the real one; only the system call is ours. Cookies are numbered from 1, and the number of a
cookie that nobody has any more is used again, as the kernel does with the memory behind it.
"""

import errno
import os
import threading
from collections.abc import Callable
from weakref import WeakKeyDictionary

from interpose.host.coresched import CoreSchedOperation, KernelCoreSched, Scope


class FakeCoreSched(KernelCoreSched):
    """Processes with cookies. `meanwhile` is called before each operation on a process: the place for a race."""

    def __init__(self, *, supported: bool = True) -> None:
        super().__init__(self.prctl)
        self.supported = supported
        self.cookies: dict[int, int] = {}  # of living processes
        self.forbidden: set[int] = set()  # processes we may not trace
        self.calls: list[tuple[CoreSchedOperation, int]] = []
        self.meanwhile: Callable[[CoreSchedOperation, int], None] = lambda _operation, _pid: None
        self._threads: WeakKeyDictionary[threading.Thread, int] = WeakKeyDictionary()  # of this program

    def spawn(self, pid: int, cookie: int = 0) -> None:
        """A process that comes from outside."""
        self.cookies[pid] = cookie

    def fork(self, parent: int, child: int) -> None:
        """A process starts another, which inherits its cookie."""
        self.cookies[child] = self.cookies[parent]

    def kill(self, pid: int) -> None:
        """A process ends. Its pid may be spawned again."""
        self.cookies.pop(pid, None)

    def own_cookie(self) -> int:
        """The cookie of the thread that asks."""
        return self._threads.get(threading.current_thread(), 0)

    def prctl(self, operation: CoreSchedOperation, pid: int, scope: Scope) -> int:
        """The system call."""
        if not self.supported:
            raise OSError(errno.ENOTSUP, "no core scheduling here")
        if pid != 0:
            self.meanwhile(operation, pid)
            self.calls.append((operation, pid))
        if scope is not Scope.THREAD and operation in (CoreSchedOperation.GET, CoreSchedOperation.SHARE_FROM):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        if pid != 0 and pid not in self.cookies:
            raise OSError(errno.ESRCH, os.strerror(errno.ESRCH), str(pid))
        if pid in self.forbidden:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM), str(pid))
        if operation is CoreSchedOperation.GET:
            return self._of(pid)
        if operation is CoreSchedOperation.SHARE_FROM:
            self._give(0, self._of(pid))
        else:
            self._give(pid, self._unused() if operation is CoreSchedOperation.CREATE else self.own_cookie())
        return 0

    def _of(self, pid: int) -> int:
        return self.own_cookie() if pid == 0 else self.cookies[pid]

    def _give(self, pid: int, cookie: int) -> None:
        if pid == 0:
            self._threads[threading.current_thread()] = cookie
        else:
            self.cookies[pid] = cookie

    def _unused(self) -> int:
        running = {cookie for thread, cookie in self._threads.items() if thread.is_alive()}
        used = running | set(self.cookies.values())
        return next(number for number in range(1, len(used) + 2) if number not in used)
