"""How static finds CPUs: isolated ones for whom they are, nodes as the pod says, and why."""

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.annotations import ISOLATED
from interpose.core.policy.decision import RefusalKind
from interpose.core.policy.request import Key, Request
from interpose.core.policy.static.options import StaticOptions
from interpose.core.policy.static.search import CpuSearch, CpuSearchResult, CpuStock, CpuTaker
from tests.support.policy.machines import machine

N4C16 = "2 sockets x 2 numa x 2 cores x 2 threads"  # cores are 0-1, 2-3, ...; nodes are 0-3, 4-7, ...
SCOPED, PLAIN = ISOLATED


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def find(
    count: int,
    ordinary: str,
    isolated: str = "",
    own: str = "",
    annotations: dict[str, str] | None = None,
    **options: bool,
) -> CpuSearchResult:
    """CPUs for a container, on the machine whose CPUs 12-15 are isolated."""
    topology = machine(f"{N4C16}; isolated 12-15")
    chosen = StaticOptions(**options)
    stock = CpuStock(ordinary=cpus(ordinary), isolated=cpus(isolated), own=cpus(own))
    request = Request(key=Key("pod", "app"), pod_annotations=annotations or {})
    return CpuSearch(topology, chosen, CpuTaker(topology, chosen)).find(request, count, stock)


def why_not_isolated(found: CpuSearchResult) -> str:
    """What is said about the isolated CPUs."""
    way = found.candidates[0]
    assert way.name == "isolated CPUs"
    return way.reason


# -- isolated CPUs


def test_one_cpu_or_one_core_is_isolated_without_being_asked_for() -> None:
    """Nothing needs to be spread over them."""
    one = find(1, "1-11", "12-15")
    assert one.cpus == cpus("12")
    assert one.candidates[0].chosen
    assert one.reason.endswith("isolated: the kernel runs nothing else there")
    assert find(2, "1-11", "12-15").cpus == cpus("12-13")


def test_two_cpus_that_are_no_core_are_not_isolated_unasked() -> None:
    """The program would run on the first of them only."""
    found = find(2, "1-11", "13-14")
    assert found.cpus == cpus("8-9")
    assert why_not_isolated(found) == "free ones are not one whole core"


def test_more_than_a_core_is_isolated_only_if_somebody_asks() -> None:
    """The pod, or the options of the policy for all pods."""
    unasked = find(3, "1-11", "12-15")
    assert not unasked.cpus & cpus("12-15")
    assert why_not_isolated(unasked) == "nobody asked for them, and it needs more than one core"
    assert find(3, "1-11", "12-15", annotations={PLAIN: "true"}).cpus == cpus("12-14")
    assert find(3, "1-11", "12-15", annotations={PLAIN: "{app: true}"}).cpus == cpus("12-14")
    assert find(3, "1-11", "12-15", relaxed_isolation=True).cpus == cpus("12-14")


def test_too_few_isolated_cpus_are_left_alone() -> None:
    """Ordinary CPUs are taken instead."""
    found = find(3, "1-11", "12-13", annotations={PLAIN: "true"})
    assert not found.cpus & cpus("12-13")
    assert why_not_isolated(found) == "fewer than 3 are free"
    assert why_not_isolated(find(1, "1-11")) == "none is free"


def test_isolated_cpus_can_be_declined() -> None:
    """Whatever the options of the policy say; and then they do not help out either."""
    declined = {f"{SCOPED}/container.app": "false"}
    found = find(1, "1-11", "12-15", annotations=declined, relaxed_isolation=True)
    assert found.cpus == cpus("8")
    assert why_not_isolated(found) == "its pod does not want them"
    refused = find(3, "1-2", "12-15", annotations=declined)
    assert refused.refusal is not None
    assert refused.refusal.message == "CPUs of its own: 3 wanted, 2 free"
    assert why_not_isolated(refused) == "its pod does not want them"


def test_isolated_cpus_help_out_when_too_few_others_are_free() -> None:
    """That is better than a refusal."""
    found = find(3, "1-2", "12-15")
    assert len(found.cpus) == 3
    assert found.cpus <= cpus("1-2,12-15")
    assert found.cpus & cpus("12-15")
    assert found.candidates[0].chosen
    assert find(5, "1-2", "12-15").reason.endswith("some of them isolated because too few others are free")


def test_who_has_ordinary_cpus_stays_with_them() -> None:
    """Rather than mix, also if it prefers isolated ones."""
    found = find(2, "1-11", "12-15", own="4", annotations={PLAIN: "true"})
    assert found.cpus == cpus("4-5")
    assert why_not_isolated(found) == "the container has other ones"


def test_who_has_isolated_cpus_gets_more_of_them() -> None:
    """As long as it would have got so many in the first place; else it moves to ordinary ones."""
    assert find(2, "1-11", "12-15", own="14").cpus == cpus("14-15")
    grown = find(3, "1-11", "12-15", own="14")
    assert not grown.cpus & cpus("12-15")


def test_a_machine_without_isolated_cpus_does_not_speak_of_them() -> None:
    """They are no candidate there."""
    topology, options = machine(N4C16), StaticOptions()
    stock = CpuStock(ordinary=topology.online)
    found = CpuSearch(topology, options, CpuTaker(topology, options)).find(Request(key=Key("p", "a")), 1, stock)
    assert [candidate.name for candidate in found.candidates] == [f"NUMA node {node}" for node in (0, 1, 2, 3)]


# -- NUMA nodes


def test_cpus_come_from_the_nodes_that_the_pod_names() -> None:
    """The others are passed over for that reason."""
    found = find(2, "1-11", annotations={"interpose/numa-nodes": "1-2"})
    assert found.cpus == cpus("4-5")
    assert found.reason == "2 CPUs of its own: a whole core of package 0, NUMA node 1, as its pod says"
    whys = {candidate.name: candidate.reason for candidate in found.candidates}
    assert whys["NUMA node 0"] == "its pod names other NUMA nodes"


def test_what_the_named_nodes_do_not_have_comes_from_elsewhere() -> None:
    """As many as possible from there."""
    found = find(6, "1-11", annotations={"interpose/numa-nodes": "2"})
    assert cpus("8-11") <= found.cpus
    assert len(found.cpus) == 6
    assert found.reason.endswith("as many as possible of NUMA node 2 as its pod says")


def test_with_align_by_socket_the_whole_package_is_near() -> None:
    """Its other node is as good as the named one."""
    found = find(6, "0-11", annotations={"interpose/numa-nodes": "1"}, align_by_socket=True)
    assert found.cpus <= cpus("0-7")


def test_a_pod_that_says_something_unreadable_is_refused_with_its_words() -> None:
    """About nodes or about isolation."""
    for annotations in ({"interpose/numa-nodes": "far"}, {PLAIN: "perhaps"}):
        found = find(2, "1-11", annotations=annotations)
        assert found.refusal is not None
        assert found.refusal.kind is RefusalKind.INVALID
        (value,) = annotations.values()
        assert repr(value) in found.refusal.message
        assert found.cpus == EMPTY


# -- what it has


def test_what_fits_is_kept_and_nothing_else_looked_at() -> None:
    """One candidate says so."""
    found = find(3, "1-11", "12-15", own="3,7,12")
    assert found.cpus == cpus("3,7,12")
    assert [(candidate.name, candidate.chosen) for candidate in found.candidates] == [("the CPUs it has", True)]


def test_with_a_strict_reservation_one_cpu_is_left_also_when_isolated_ones_help_out() -> None:
    """The others have nothing else."""
    found = find(4, "1-2", "12-15", strict_cpu_reservation=True)
    assert len(found.cpus) == 4
    assert not cpus("1-2") <= found.cpus
    assert find(6, "1-2", "12-15", strict_cpu_reservation=True).refusal is not None


def test_the_cpu_that_is_left_is_none_of_those_the_container_has() -> None:
    """It keeps its own one, and another one stays for the others."""
    found = find(3, "1-2", "12-15", own="2", strict_cpu_reservation=True)
    assert 2 in found.cpus
    assert 1 not in found.cpus


def test_more_cpus_are_first_of_all_the_rest_of_the_cores_one_has() -> None:
    """Else somebody else would get them; unless CPUs shall be of different cores."""
    assert find(3, "1-11", own="4").cpus == cpus("4-6")
    assert 5 not in find(2, "1-11", own="4", distribute_cpus_across_cores=True).cpus


def test_nodes_that_the_pod_names_come_before_the_cores_one_has() -> None:
    """The rest of its core is elsewhere, so it waits."""
    found = find(3, "1-11", own="4", annotations={"interpose/numa-nodes": "2"})
    assert found.cpus == cpus("4,8-9")
