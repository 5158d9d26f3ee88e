"""Core scheduling cookies of processes, through prctl.

Only tasks with the same cookie run on the threads of one core at the same time; 0 is no cookie. The kernel hands a
cookie from task to task, there is no way to name one. So a thread that passes a cookie on has it for a moment, and that
is never one of our lasting threads: they keep cookie 0, and clearing others is passing on that 0.

Errors are OSErrors. ProcessLookupError: the process is gone. ENOTSUP: no core scheduling here. EPERM: we may not trace
that process.
"""

import ctypes
import errno
import os
import threading
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, Protocol

_PR_SCHED_CORE = 62
_SELF = 0  # as a pid: the calling thread


class CoreSchedOperation(IntEnum):
    """An operation of prctl for core scheduling."""

    GET = 0
    CREATE = 1
    SHARE_TO = 2  # from the caller to others
    SHARE_FROM = 3  # from another to the caller


class Scope(IntEnum):
    """The tasks of an operation; GET and SHARE_FROM take single threads only."""

    THREAD = 0
    THREAD_GROUP = 1


# (operation, pid, scope) -> the cookie for GET, else 0.
Prctl = Callable[[CoreSchedOperation, int, Scope], int]


class CoreSched(Protocol):
    """Operations on cookies. The cookie of a process is that of its main thread."""

    def cookie(self, pid: int) -> int:
        """The cookie of a process; 0 if it has none."""

    def create(self, pid: int) -> None:
        """Give a process, with all its threads, a cookie of its own."""

    def assign(self, source: int, pids: Iterable[int], cookie: int) -> None:
        """Give processes the cookie of another one; those that are gone are passed over.

        ProcessLookupError, and nothing changed, if the source is gone or does not have the cookie expected of it: its
        pid may be another process by now.
        """

    def clear(self, pids: Iterable[int]) -> None:
        """Take the cookies of processes away; those that are gone are passed over."""


class KernelCoreSched:
    """Core scheduling of the running kernel."""

    def __init__(self, prctl: Prctl | None = None) -> None:
        self._prctl: Prctl = _kernel_prctl() if prctl is None else prctl

    def cookie(self, pid: int) -> int:
        """The cookie of a process; 0 if it has none."""
        return self._prctl(CoreSchedOperation.GET, _checked(pid), Scope.THREAD)

    def create(self, pid: int) -> None:
        """Give a process, with all its threads, a cookie of its own."""
        self._prctl(CoreSchedOperation.CREATE, _checked(pid), Scope.THREAD_GROUP)

    def assign(self, source: int, pids: Iterable[int], cookie: int) -> None:
        """Give processes the cookie of another one, if it has the cookie expected of it."""
        receivers = [_checked(pid) for pid in pids]

        def pass_on() -> None:
            self._prctl(CoreSchedOperation.SHARE_FROM, _checked(source), Scope.THREAD)
            # Now that we hold it, it cannot change any more: what is compared is what is passed on.
            if self._prctl(CoreSchedOperation.GET, _SELF, Scope.THREAD) != cookie:
                raise ProcessLookupError(errno.ESRCH, "the process has another cookie than expected", str(source))
            self._share(receivers)

        _in_fresh_thread(pass_on)

    def clear(self, pids: Iterable[int]) -> None:
        """Take the cookies of processes away."""
        receivers = [_checked(pid) for pid in pids]

        def pass_on() -> None:
            if self._prctl(CoreSchedOperation.GET, _SELF, Scope.THREAD) != 0:
                raise OSError(errno.EPERM, "this program has a cookie itself, so it cannot take those of others away")
            self._share(receivers)

        _in_fresh_thread(pass_on)

    def _share(self, receivers: Iterable[int]) -> None:
        for pid in receivers:
            try:
                self._prctl(CoreSchedOperation.SHARE_TO, pid, Scope.THREAD_GROUP)
            except ProcessLookupError:
                continue


def is_supported(prctl: Prctl | None = None) -> bool:
    """Whether processes can have cookies here: the kernel is built for it and the CPUs have SMT."""
    try:
        (_kernel_prctl() if prctl is None else prctl)(CoreSchedOperation.GET, _SELF, Scope.THREAD)
    except OSError:
        return False
    return True


def _checked(pid: int) -> int:
    """The pid, if it is one. 0 would be the calling thread: a cgroup lists processes of other pid namespaces so."""
    if pid <= 0:
        raise ProcessLookupError(errno.ESRCH, "there is no such process", str(pid))
    return pid


def _in_fresh_thread(work: Callable[[], None]) -> None:
    """Run in a thread that ends with it, and with that thread the cookie it had. Errors are raised here."""
    caught: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # raised again in the caller's thread
            caught.append(error)

    thread = threading.Thread(target=run, name="core-sched")
    thread.start()
    thread.join()
    if caught:
        raise caught[0]


def _kernel_prctl() -> Prctl:
    library: Any = ctypes.CDLL(None, use_errno=True)
    function = library.prctl
    # The C function reads its variable arguments as unsigned long, whatever is passed.
    function.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    function.restype = ctypes.c_int

    def prctl(operation: CoreSchedOperation, pid: int, scope: Scope) -> int:
        found = ctypes.c_uint64(0)
        address = ctypes.addressof(found) if operation is CoreSchedOperation.GET else 0
        if function(_PR_SCHED_CORE, operation, pid, scope, address) == 0:
            return found.value
        code = ctypes.get_errno()
        # EINVAL is a kernel built without it, all our arguments being valid; ENODEV a machine without SMT.
        if code in (errno.EINVAL, errno.ENODEV):
            raise OSError(errno.ENOTSUP, f"no core scheduling here ({os.strerror(code)})")
        raise OSError(code, os.strerror(code), str(pid))

    return prctl
