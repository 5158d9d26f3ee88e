"""The report about one container."""

from typing import Any

import pytest

from interpose.cli.render.explain import explain_text

DECISION: dict[str, Any] = {
    "container": "default/web/nginx",
    "action": "allocate",
    "reason": "2 CPUs of its own: a whole core",
    "request": {
        "qos": "Guaranteed",
        "cpu_milli": 2000,
        "cpu_limit_milli": 2000,
        "memory": 1 << 30,
        "memory_limit": 1 << 30,
        "extended": {"example.com/card": 1},
        "source": "annotation",
    },
    "candidates": [
        {"name": "NUMA node 1", "cpus": "4-7", "score": "4 free", "chosen": True, "why": "least left over"},
        {"name": "NUMA node 0", "cpus": "0-3", "score": "4 free", "chosen": False, "why": "comes later"},
    ],
    "grant": {
        "exclusive": "4-5",
        "pools": ["shared"],
        "pinned": True,
        "mems": "1",
        "shares": 2048,
        "details": {"a": 1},
    },
    "refusal": None,
    "assignment": {"cpus": "4-5", "mems": "1", "shares": 2048},
    "changed": ["a/b/c", "d/e/f"],
}
ANSWER: dict[str, Any] = {
    "container": "default/web/nginx",
    "id": "0123456789abcdef",
    "state": "in step",
    "decision": DECISION,
    "history": [{**DECISION, "at": "10:00"}, {**DECISION, "reason": "", "refusal": {"message": "no room"}}, DECISION],
    "wanted": {"cpus": "4-5", "mems": "1", "shares": 2048},
    "written": {"cpus": "4-5", "mems": "1", "shares": 2048},
    "writer": {"state": "in step", "error": "", "attempts": 0},
    "cgroup": {"path": "/kubepods/pod1/x", "cpuset.cpus": "4,5", "cpuset.mems": "0-1", "cpu.shares": "2047"},
}


def test_the_report_tells_the_story() -> None:
    """Asked, choices, got, why, written, there; a difference is marked."""
    assert explain_text(ANSWER).splitlines() == [
        "default/web/nginx  (id 0123456789abc, in step)",
        "",
        "Asked for     Guaranteed, CPU 2 (limit 2), memory 1 GiB (limit 1 GiB), example.com/card 1; as the",
        "              pod's annotation says",
        "Choices",
        "     CANDIDATE    CPUS  SCORE   WHY",
        "  -> NUMA node 1  4-7   4 free  least left over",
        "     NUMA node 0  0-3   4 free  comes later",
        "Got           CPUs 4-5 of its own; shares pool shared; memory nodes 1; CPU shares 2048; a 1",
        "Why           2 CPUs of its own: a whole core",
        "Others        changed for 2 containers: a/b/c, d/e/f",
        "",
        "VALUE         WANTED  WRITTEN  IN THE CGROUP",
        "CPUs          4-5     4-5      4,5",
        "memory nodes  1       1        0-1            <- differs",
        "CPU shares    2048    2048     2047",
        "cgroup        /kubepods/pod1/x",
        "",
        "Writing       in step",
        "Before        allocate, CPUs 4-5: no room",
        "              10:00 allocate, CPUs 4-5: 2 CPUs of its own: a whole core",
    ]


@pytest.mark.parametrize(("nodes", "text"), [("0-3", "nodes 0-3"), ("", "more nodes")])
def test_memory_nodes_that_ran_short_are_shown(nodes: str, text: str) -> None:
    """What it may use since then, and why; a policy that chose them itself has them in the grant."""
    memory = {"at": "10:00", "nodes": nodes, "why": "memory nodes 1 had 1 GiB left of 64 GiB"}
    lines = explain_text({**ANSWER, "memory": memory}).splitlines()
    assert f"Memory        may use {text} since 10:00: memory nodes 1 had 1 GiB left of 64 GiB" in lines


def test_quotas_are_shown() -> None:
    """Of the container and, if it is of interest, of its pod; why one of them is still there."""
    answer = {
        **ANSWER,
        "decision": {**DECISION, "grant": {"exclusive": "4-5", "quota": -1}},
        "wanted": {"quota": -1},
        "written": {"quota": -1},
        "pod_quota": {"wanted": -1, "written": None, "before": 200_000, "error": "read-only"},
        "cgroup": {"cpu.cfs_quota_us": "unlimited", "pod": "200000"},
    }
    lines = explain_text(answer).splitlines()
    assert "Got           CPUs 4-5 of its own; no CFS quota" in lines
    assert "CFS quota         unlimited  unlimited  unlimited" in lines
    assert "CFS quota of pod  unlimited  -          200000         <- differs" in lines
    assert "Pod           its CFS quota cannot be changed: read-only" in lines
    plain = explain_text({**ANSWER, "cgroup": {"cpu.cfs_quota_us": "100000"}}).splitlines()
    assert "CFS quota     -       -        100000" in plain
    assert not [line for line in plain if "of pod" in line]


def test_trouble_is_in_words() -> None:
    """A refusal, a writer that fails, a cgroup that cannot be read."""
    refusal = {"why": "exhausted", "message": "2 CPUs wanted, 1 free"}
    lines = explain_text(
        {
            **ANSWER,
            "decision": {**DECISION, "refusal": refusal, "grant": None, "candidates": [], "changed": []},
            "writer": {"state": "failing", "error": "no\nanswer", "attempts": 3},
            "cgroup": {"error": "no such file"},
            "history": [{**DECISION, "reason": str(number)} for number in range(9)],
        }
    ).splitlines()
    assert "Got           nothing: refused (exhausted)" in lines
    assert "Why           2 CPUs wanted, 1 free" in lines
    assert "Writing       failing after 3 attempts: no?answer" in lines
    assert "cgroup        cannot be read: no such file" in lines
    assert lines[-1] == "              and 3 more"


@pytest.mark.parametrize(
    ("grant", "text"),
    [
        (None, "nothing"),
        ({"pinned": False}, "no CPUs are assigned"),
        ({"pools": ["a", "b"], "pinned": True}, "shares pools a and b"),
        ({"exclusive": "1", "pools": []}, "CPU 1 of its own"),
        ({"pools": ["a"], "details": {"pool": "a", "cold-start": "true"}}, "shares pool a; cold-start true"),
    ],
)
def test_what_it_got(grant: object, text: str) -> None:
    """For every kind of grant."""
    assert f"Got           {text}" in explain_text({"decision": {"grant": grant}}).splitlines()


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({}, "-"),
        ({"qos": "BestEffort", "source": "guess"}, "BestEffort, CPU -; guess"),
        ({"qos": "Burstable", "memory_limit": 1024, "source": "estimate"}, "memory not known (limit 1 KiB)"),
        ({"qos": "Burstable", "memory": 1024, "source": "resize"}, "memory 1 KiB; as it was last resized"),
    ],
)
def test_what_was_asked(request_: object, text: str) -> None:
    """As far as it is known."""
    assert text in explain_text({"decision": {"request": request_}})


@pytest.mark.parametrize(("found", "differs"), [("4-5", False), ("clear", True), (None, False)])
def test_differences_are_of_sets_not_of_text(found: object, differs: bool) -> None:
    """What is unknown is no difference, what is no set is one."""
    text = explain_text({"wanted": {"cpus": "4-5"}, "cgroup": {"cpuset.cpus": found}})
    assert ("differs" in text) is differs


def test_long_sets_stay_within_the_line() -> None:
    """On large machines with holes."""
    cpus = ",".join(f"{first}-{first + 1}" for first in range(0, 120, 4))
    text = explain_text({"wanted": {"cpus": cpus}, "written": {"cpus": cpus}, "cgroup": {"cpuset.cpus": cpus}})
    assert max(map(len, text.splitlines())) <= 100
    assert "differs" not in text


@pytest.mark.parametrize("answer", [None, "x", {}, {"decision": 1, "history": 2, "wanted": 3, "writer": 4}])
def test_strange_answers_are_still_shown(answer: object) -> None:
    """A relay of another version may answer anything."""
    assert explain_text(answer).startswith("-  (id -)")


def test_a_long_path_goes_on_behind_a_slash() -> None:
    """Ids of containers are long, and lines are not."""
    pod, container = "pod" + 36 * "p", 64 * "c"
    text = explain_text({"cgroup": {"path": f"kubepods/{pod}/{container}"}}, 80)

    assert f"cgroup        kubepods/{pod}/\n              {container}" in text


def test_a_refusal_is_explained_without_what_it_has_not() -> None:
    """When and how often, what was asked for, which choices there were, and why not."""
    refusal = {**DECISION, "grant": None, "refusal": {"message": "2 wanted, 1 free"}, "changed": []}
    answer = {
        "container": "default/web/nginx",
        "id": "",
        "state": "refused",
        "refused": {"at": "10:00", "times": 2},
        "decision": refusal,
    }
    shown = explain_text(answer).splitlines()
    assert shown[0] == "default/web/nginx  (refused)"
    assert shown[2] == "Refused       at 10:00, the last of 2 times; it does not run"
    assert shown[3].startswith("Asked for     Guaranteed")
    assert shown[5] == "Choices"
    assert shown[-1] == "Why           2 wanted, 1 free"
    assert not any(line.startswith(("Got", "VALUE", "Writing")) for line in shown)
    once = explain_text({**answer, "refused": {"at": "10:00", "times": 1}}).splitlines()
    assert once[2] == "Refused       at 10:00; it does not run"


def test_what_a_container_is_near_to_is_shown() -> None:
    """Each device with its place; a relay of an older version says nothing of it."""
    near = {"provider": "/sys/devices/pci0000:80/0000:81:00.0", "nodes": "1", "cpus": "8-15", "packages": ""}
    request = {**DECISION["request"], "hints": [near, {"packages": "0"}]}
    lines = explain_text({**ANSWER, "decision": {**DECISION, "request": request}}).splitlines()
    assert "Near          NUMA node 1, CPUs 8-15: /sys/devices/pci0000:80/0000:81:00.0" in lines
    assert "Near          package 0: -" in lines


def test_what_a_pod_asks_for_as_a_whole_is_shown() -> None:
    """Beside what the container asks for itself."""
    request = {**DECISION["request"], "extended": {}, "pod": {"cpu_milli": 4000, "memory": None, "memory_limit": None}}
    lines = explain_text({**ANSWER, "decision": {**DECISION, "request": request}})
    assert "memory 1 GiB (limit 1 GiB); its pod as a whole CPU 4; as" in " ".join(lines.split())
