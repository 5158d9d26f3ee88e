"""The fake of core scheduling keeps the kernel's rules."""

import errno

import pytest

from interpose.host.coresched import CoreSchedOperation, Scope
from tests.support.hooks.fake_core_sched import FakeCoreSched


def test_children_inherit_and_pids_are_used_again() -> None:
    """A process has the cookie of its parent, a new one with an old pid has none."""
    kernel = FakeCoreSched()
    kernel.spawn(10)
    kernel.create(10)
    kernel.fork(10, 11)
    kernel.kill(10)
    kernel.spawn(10)
    assert (kernel.cookie(10), kernel.cookie(11)) == (0, 1)


def test_numbers_of_cookies_are_used_again() -> None:
    """Once nobody has them any more, and not before."""
    kernel = FakeCoreSched()
    for pid in (10, 11, 12):
        kernel.spawn(pid)
    kernel.create(10)
    kernel.create(11)
    kernel.kill(10)
    kernel.create(12)
    assert (kernel.cookie(11), kernel.cookie(12)) == (2, 1)


@pytest.mark.parametrize("operation", [CoreSchedOperation.GET, CoreSchedOperation.SHARE_FROM])
def test_scopes_are_refused_as_the_kernel_does(operation: CoreSchedOperation) -> None:
    """A group of threads has no one cookie."""
    kernel = FakeCoreSched()
    kernel.spawn(10)
    with pytest.raises(OSError) as caught:
        kernel.prctl(operation, 10, Scope.THREAD_GROUP)
    assert caught.value.errno == errno.EINVAL


def test_something_can_happen_in_between() -> None:
    """Before each operation on a process."""
    kernel = FakeCoreSched()
    kernel.spawn(10)
    kernel.meanwhile = lambda _operation, pid: kernel.kill(pid)
    with pytest.raises(ProcessLookupError):
        kernel.create(10)
