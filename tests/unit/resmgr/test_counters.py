"""What is counted and told about calls."""

import logging

import pytest

from interpose.core.policy.decision import Action, Decision, Refusal, RefusalKind
from interpose.core.policy.request import Key, Request
from interpose.cri.methods import METHODS
from interpose.cri.parser import CriParser
from interpose.net.grpc.status import Code, RpcError
from interpose.relay.api import Body, Call
from interpose.resmgr.counters import PolicyCounters
from interpose.resmgr.request_edits import Override


@pytest.fixture
def counters() -> PolicyCounters:
    return PolicyCounters(lambda: 1.0)


def call() -> Call:
    """A create; a hook server has changed its CPU set."""
    made = Call(method=METHODS["CreateContainer"], path=b"/", body=Body(b"", CriParser("CreateContainerRequest")))
    made.claims = {"cpuset_cpus": "a hook"}
    return made


def refuse(counters: PolicyCounters, name: str, why: RefusalKind = RefusalKind.EXHAUSTED) -> int:
    """A container is refused: the code of the reply."""
    refusal = Refusal(kind=why, message="no CPUs left")
    request = Request(key=Key(name, "app"), namespace="default", pod=name)
    decision = Decision(action=Action.ALLOCATE, key=request.key, refusal=refusal)
    reply = counters.refuse("static", request, decision, refusal)
    assert reply.message == "policy static: no CPUs left"
    return reply.code


def test_refusals_are_remembered_once_each_and_not_all_of_them(counters: PolicyCounters) -> None:
    """The newest refusal is the last one."""
    assert refuse(counters, "web") == Code.RESOURCE_EXHAUSTED
    assert refuse(counters, "db", RefusalKind.INVALID) == Code.INVALID_ARGUMENT
    refuse(counters, "web")
    assert [(refused.title, refused.times) for refused in counters.refused] == [
        ("default/db/app", 1),
        ("default/web/app", 2),
    ]
    for n in range(60):
        refuse(counters, f"pod{n}")
    assert len(counters.refused) == 50


def test_who_did_not_wait_is_counted_each_time_and_told_once(
    counters: PolicyCounters, caplog: pytest.LogCaptureFixture
) -> None:
    """A container that cannot be updated is in the way of everybody."""
    for _ in range(3):
        counters.count_late("default/db/app", 2)
    assert counters.late == 3
    (record,) = caplog.records
    assert getattr(record, "kv", None) == {"container": "default/db/app", "others": 2}


def test_failures_are_told_with_their_cause_unless_it_is_the_runtime(
    counters: PolicyCounters, caplog: pytest.LogCaptureFixture
) -> None:
    """One that is away is no bug."""
    counters.count_failure(call(), RpcError(Code.UNAVAILABLE, "away"))
    counters.count_failure(call(), KeyError("oh"))
    assert counters.failures == {"CreateContainer": 2}
    assert [(record.levelno, record.exc_info is not None) for record in caplog.records] == [
        (logging.WARNING, False),
        (logging.ERROR, True),
    ]


def test_who_wanted_something_else_is_counted(counters: PolicyCounters) -> None:
    """A hook server by its name."""
    counters.count_overrides(call(), [Override("cpuset_cpus", "0", "1"), Override("cpuset_mems", "0", "1")])
    assert counters.overrides == {("cpuset_cpus", "a hook"): 1, ("cpuset_mems", "the caller"): 1}


def test_what_could_not_be_used_is_told(counters: PolicyCounters, caplog: pytest.LogCaptureFixture) -> None:
    """Once in a while per container."""
    counters.log_estimate("default/db/app", ["cannot be read", "is not believed"])
    assert len(caplog.records) == 1


def test_what_cannot_be_read_is_refused_and_told_once(
    counters: PolicyCounters, caplog: pytest.LogCaptureFixture
) -> None:
    """The reply has the reason, the log has one line."""
    for _ in range(3):
        reply = counters.refuse_unreadable("static", call(), ValueError("a key twice"))
    message = "policy static: the request cannot be read: a key twice"
    assert (reply.code, reply.message) == (Code.INVALID_ARGUMENT, message)
    assert len(caplog.records) == 1
