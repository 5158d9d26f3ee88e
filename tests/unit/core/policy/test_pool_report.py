"""What is told of pools, whether a policy reports them or not."""

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.api import Setup
from interpose.core.policy.decision import Grant
from interpose.core.policy.pool_report import PoolReport, PoolReporter, pool_record, report_pools
from interpose.core.policy.request import Key, Request
from tests.support.policy.machines import machine
from tests.support.policy.one_pool import OnePoolPolicy

WEB = Key("pod", "web")


class Reporter(OnePoolPolicy):
    """Tells of one pool only."""

    def report_pools(self) -> tuple[PoolReport, ...]:
        """The pool."""
        return (PoolReport(name="mine", free=5),)


def test_a_policy_that_reports_none_has_those_of_its_state() -> None:
    """With the containers that share them; what is granted and free is not known."""
    setup = Setup(topology=machine("laptop"))
    policy = OnePoolPolicy(setup, {})
    policy.allocate(Request(key=WEB))
    assert not isinstance(policy, PoolReporter)
    assert report_pools(policy) == [
        PoolReport(name="shared", cpus=setup.topology.online, containers=(WEB,)),
        PoolReport(name="empty", cpus=EMPTY),
    ]


def test_a_part_of_a_pool_is_that_pool() -> None:
    """As are the lists of static-pools; a pool that is not told of has nobody."""
    policy = OnePoolPolicy(Setup(topology=machine("laptop")), {})
    policy.state.put(WEB, Grant(pools=("shared 0-1", "shared 2-3", "other")))
    assert [(one.name, one.containers) for one in report_pools(policy)] == [("shared", (WEB,)), ("empty", ())]


def test_a_policy_that_reports_its_pools_is_asked() -> None:
    """Its words count."""
    assert report_pools(Reporter(Setup(topology=machine("laptop")), {})) == (PoolReport(name="mine", free=5),)


def test_a_report_as_plain_values() -> None:
    """Sets are texts, containers have their titles; one that is unknown has its key."""
    report = PoolReport(
        name="b",
        kind="k",
        parent="a",
        cpus=CpuSet.parse("0-1"),
        own=CpuSet.parse("2"),
        idle=CpuSet.parse("3"),
        isolated=CpuSet.parse("4"),
        mems=CpuSet.parse("0"),
        granted=1500,
        containers=(WEB, Key("other", "x")),
    )
    assert pool_record(report, {WEB: "ns/pod/web"}) == {
        "name": "b",
        "kind": "k",
        "parent": "a",
        "cpus": "0-1",
        "own": "2",
        "idle": "3",
        "isolated": "4",
        "mems": "0",
        "granted_milli": 1500,
        "free_milli": None,
        "containers": ["ns/pod/web", str(Key("other", "x"))],
    }
