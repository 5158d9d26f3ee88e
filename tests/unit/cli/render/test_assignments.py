"""Tables of who has what."""

from typing import Any

from interpose.cli.render.assignments import assignments_text, candidates_lines, pools_lines, simulation_text

NGINX = {
    "container": "default/web/nginx",
    "qos": "Guaranteed",
    "cpu_milli": 2000,
    "cpus": "2-3",
    "mems": "0",
    "shares": 2048,
}


def record(name: str, **changed: Any) -> dict[str, Any]:
    """A decision about a container."""
    return {
        "container": name,
        "action": "allocate",
        "reason": "there was room",
        "request": {"qos": "Guaranteed", "cpu_milli": 2000},
        "candidates": [],
        "refusal": None,
        "assignment": {"cpus": "2-3", "mems": None, "shares": None},
        "changed": [],
        **changed,
    }


def test_assignments_are_one_line_each() -> None:
    """The state only if somebody says one."""
    assert assignments_text([NGINX, {"container": "x"}]).splitlines() == [
        "CONTAINER          QOS         CPU  CPUS  MEMS  SHARES",
        "default/web/nginx  Guaranteed  2    2-3   0     2048",
        "x                  -           -    -     -     -",
    ]
    assert assignments_text([{**NGINX, "state": "in step"}]).splitlines() == [
        "CONTAINER          QOS         CPU  CPUS  MEMS  SHARES  STATE",
        "default/web/nginx  Guaranteed  2    2-3   0     2048    in step",
    ]
    assert assignments_text([]) == "No container has been assigned anything."


def test_who_says_that_a_container_is_in_step() -> None:
    """The kernel needs no mention."""
    rows = [{**NGINX, "state": "in step", "confirmed_by": one} for one in ("kernel", "runtime")]
    assert [line.rstrip().rpartition("  ")[2] for line in assignments_text(rows).splitlines()[1:]] == [
        "in step",
        "in step, by the runtime",
    ]


def test_a_simulation_shows_what_everybody_ends_up_with() -> None:
    """Reasons below; who ended or was refused has no CPUs any more."""
    outcome = {
        "policy": "static",
        "machine": "two sockets",
        "records": [
            record("a/init/x"),
            record("a/init/x", action="release"),
            record("a/b/c", assignment={"cpus": "0-15"}, reason=""),
            record("a/big/c", refusal={"why": "exhausted", "message": "not enough CPUs"}),
            record("a/odd/c", request=None),
        ],
        "assignments": [{"container": "a/b/c", "cpus": "0-1,4-15", "mems": None, "shares": 512}],
        "pools": {"shared": "0-1,4-15", "isolated": "", "odd": "x"},
    }
    assert simulation_text(outcome).splitlines() == [
        "Policy static on two sockets",
        "",
        "CONTAINER  QOS         CPU  CPUS         MEMS  SHARES",
        "a/init/x   Guaranteed  2    ended (2-3)  -     -",
        "    there was room",
        "a/b/c      Guaranteed  2    0-1,4-15     -     512",
        "a/big/c    Guaranteed  2    refused      -     -",
        "    not enough CPUs",
        "a/odd/c    -           -    2-3          -     -",
        "    there was room",
        "",
        "POOL      SIZE  CPUS",
        "shared    14    0-1,4-15",
        "isolated  0     -",
        "odd       -     x",
        "",
        "1 container refused",
    ]


def test_who_asks_sees_the_choices_and_who_was_changed() -> None:
    """With an arrow at the one taken."""
    candidates = [
        {"name": "NUMA node 1", "cpus": "4-7", "score": "4 free", "chosen": True, "why": "least left over"},
        {"name": "NUMA node 0", "cpus": "0-7", "score": "8 free"},
    ]
    outcome = {"records": [record("a/b/c", candidates=candidates, changed=["d/e/f"])]}
    assert simulation_text(outcome, verbose=True).splitlines()[3:] == [
        "a/b/c      Guaranteed  2    2-3   -     -",
        "    there was room",
        "         CANDIDATE    CPUS  SCORE   WHY",
        "      -> NUMA node 1  4-7   4 free  least left over",
        "         NUMA node 0  0-7   8 free  -",
        "      changes what d/e/f may use",
    ]
    assert "CANDIDATE" not in simulation_text(outcome)
    assert simulation_text({"records": [record("a/b/c")]}, verbose=True).splitlines()[-1] == "    there was room"


def test_reasons_that_do_not_fit_beside_stand_below() -> None:
    """No line is longer than asked for."""
    candidates = [
        {"name": "NUMA node 1", "cpus": "0-3,8-11,16-19", "score": "4", "why": "a reason of many words, rather long"},
        {"name": "NUMA node 0", "cpus": "0-7", "score": "8"},
    ]
    assert candidates_lines(candidates, "  ", 40) == [
        "     CANDIDATE    CPUS            SCORE",
        "     NUMA node 1  0-3,8-11,16-19  4",
        "         a reason of many words, rather",
        "         long",
        "     NUMA node 0  0-7             8",
    ]


def test_without_pools_there_is_no_table() -> None:
    """The policy none has none."""
    assert pools_lines({}) == []


def test_pools_with_their_containers_if_asked_for() -> None:
    """As a tree; without that a table of their CPUs."""
    outcome = {
        "records": [],
        "pools": {"shared": "0-1"},
        "pool_details": [{"name": "shared", "cpus": "0-1", "containers": ["a/b/c"]}],
        "assignments": [{"container": "a/b/c", "cpus": "0-1", "cpu_milli": 500}],
    }
    assert simulation_text(outcome, verbose=True).splitlines()[-3:] == [
        "POOL          CPUS  MEMS  GRANTED  FREE",
        "└─ shared     0-1   -     -        -",
        "     * a/b/c  0-1   -     500m",
    ]
    assert simulation_text(outcome).splitlines()[-2:] == ["POOL    SIZE  CPUS", "shared  2     0-1"]
