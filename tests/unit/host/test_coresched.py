"""Cookies of processes. The kernel of most machines has none, so the system call is a fake that knows its rules."""

import errno
import os
import subprocess
import threading
from collections.abc import Callable
from typing import TypeAlias

import pytest

from interpose.host.coresched import CoreSchedOperation, KernelCoreSched, Scope, is_supported
from tests.support.hooks.fake_core_sched import FakeCoreSched

Spawn: TypeAlias = "Callable[[str], subprocess.Popen[str]]"


def test_asking_the_kernel_of_this_machine_never_fails() -> None:
    """Whatever it is, the answer is yes or no, and operations agree with it."""
    if is_supported():
        assert KernelCoreSched().cookie(os.getpid()) >= 0
    else:
        with pytest.raises(OSError) as caught:
            KernelCoreSched().cookie(os.getpid())
        assert caught.value.errno == errno.ENOTSUP


@pytest.mark.skipif(not is_supported(), reason="this kernel has no core scheduling, or the CPUs have no SMT")
def test_the_kernel_hands_cookies_on(spawn: Spawn) -> None:
    """Where it has them: created, assigned, taken away, and never ours."""
    children = [spawn("input()").pid for _ in range(2)]
    kernel = KernelCoreSched()
    kernel.create(children[0])
    cookie = kernel.cookie(children[0])
    kernel.assign(children[0], children[1:], cookie)
    assert kernel.cookie(children[1]) == cookie != 0
    kernel.clear(children)
    assert [kernel.cookie(pid) for pid in (*children, os.getpid())] == [0, 0, 0]


def test_whether_it_is_there_is_asked_of_the_kernel() -> None:
    """By looking at our own cookie."""
    assert is_supported(FakeCoreSched().prctl)
    assert not is_supported(FakeCoreSched(supported=False).prctl)


def test_a_cookie_is_made_and_handed_on() -> None:
    """Those who get it have the same, others have none."""
    kernel = FakeCoreSched()
    for pid in (10, 11, 12, 13):
        kernel.spawn(pid)
    kernel.create(10)
    kernel.assign(10, [11, 12], kernel.cookie(10))
    assert [kernel.cookie(pid) for pid in (10, 11, 12, 13)] == [1, 1, 1, 0]


def test_all_threads_of_a_process_are_meant() -> None:
    """Only reading and taking are about single threads; the kernel refuses them for more."""
    scopes: list[tuple[CoreSchedOperation, Scope]] = []
    fake = FakeCoreSched()
    fake.spawn(10)
    fake.spawn(11)

    def prctl(operation: CoreSchedOperation, pid: int, scope: Scope) -> int:
        scopes.append((operation, scope))
        return fake.prctl(operation, pid, scope)

    kernel = KernelCoreSched(prctl)
    kernel.create(10)
    kernel.assign(10, [11], 1)
    assert scopes == [
        (CoreSchedOperation.CREATE, Scope.THREAD_GROUP),
        (CoreSchedOperation.SHARE_FROM, Scope.THREAD),
        (CoreSchedOperation.GET, Scope.THREAD),
        (CoreSchedOperation.SHARE_TO, Scope.THREAD_GROUP),
    ]


def test_our_own_threads_keep_cookie_0() -> None:
    """The thread that carries a cookie from one to the other is gone when the call returns."""
    kernel = FakeCoreSched()
    kernel.spawn(10)
    kernel.spawn(11)
    kernel.create(10)
    before = threading.enumerate()
    kernel.assign(10, [11], 1)
    assert kernel.own_cookie() == 0
    assert threading.enumerate() == before
    kernel.clear([11])
    assert kernel.cookie(11) == 0


def test_a_source_with_another_cookie_is_not_trusted() -> None:
    """Its pid is somebody else by now: nobody gets anything."""
    kernel = FakeCoreSched()
    kernel.spawn(10, cookie=7)
    kernel.spawn(11)
    with pytest.raises(ProcessLookupError, match="another cookie than expected"):
        kernel.assign(10, [11], 5)
    assert kernel.cookie(11) == 0


def test_a_source_that_is_gone_is_said() -> None:
    """There is nothing to hand on."""
    kernel = FakeCoreSched()
    kernel.spawn(11)
    with pytest.raises(ProcessLookupError):
        kernel.assign(10, [11], 1)


def test_receivers_that_are_gone_are_passed_over() -> None:
    """Processes end at any time; the others still get it."""
    kernel = FakeCoreSched()
    for pid in (10, 12):
        kernel.spawn(pid)
    kernel.create(10)
    kernel.assign(10, [11, 12], 1)
    assert kernel.cookie(12) == 1
    kernel.clear([11, 12])
    assert kernel.cookie(12) == 0


def test_a_process_we_may_not_trace_is_an_error() -> None:
    """It is a matter of our privileges, so it is not passed over."""
    kernel = FakeCoreSched()
    kernel.spawn(10)
    kernel.forbidden.add(10)
    with pytest.raises(PermissionError):
        kernel.clear([10])


@pytest.mark.parametrize("pid", [0, -1])
def test_what_is_no_pid_is_refused(pid: int) -> None:
    """0 would be ourselves."""
    kernel = FakeCoreSched()
    kernel.spawn(10)
    for operation in (kernel.cookie, kernel.create):
        with pytest.raises(ProcessLookupError):
            operation(pid)
    with pytest.raises(ProcessLookupError):
        kernel.assign(pid, [10], 0)
    with pytest.raises(ProcessLookupError):
        kernel.clear([pid])
    assert kernel.calls == []


def test_a_program_with_a_cookie_cannot_clear() -> None:
    """It would hand on its own; it says so instead."""

    def prctl(operation: CoreSchedOperation, pid: int, scope: Scope) -> int:
        assert operation is CoreSchedOperation.GET
        return 5

    with pytest.raises(PermissionError, match="has a cookie itself"):
        KernelCoreSched(prctl).clear([10])
