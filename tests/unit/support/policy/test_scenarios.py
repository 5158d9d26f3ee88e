"""Scenarios: what a file may say, that everything it says is looked at, and that a difference is told with its line."""

from pathlib import Path

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.errors import ConfigError
from tests.support.policy.machines import machine
from tests.support.policy.scenarios import play, read_scenario, unplugged

HEAD = "machine: 1 socket x 4 cores\npolicy: static-plus\nreserved: cpuset:0\n"


def played(folder: Path, text: str) -> list[str]:
    """What is wrong with a scenario of this text."""
    path = folder / "one.yaml"
    path.write_text(text)
    return play(read_scenario(path))


def refused(folder: Path, text: str) -> list[str]:
    """What is wrong with the text itself."""
    with pytest.raises(ConfigError) as caught:
        played(folder, text)
    return list(caught.value.problems)


def test_a_scenario_that_holds_has_no_differences(tmp_path: Path) -> None:
    """All that can be expected at once."""
    steps = """steps:
  - create: a
    cpu: 600m
    qos: burstable
    cpus: {a: 1-3}
    shares: {a: 614}
    mems: {a: unbound}
    pools: {shared: 1-3, reserved: "0"}
    reason: a share of pool shared
    changed: []
  - {create: b, cpu: 2, cpus: {a: "3", b: 1-2}, changed: [a], without-place: []}
  - {resize: b, cpu: 1, cpus: {a: 2-3, b: "1"}}
  - {restart: relay, cpus: {a: 2-3, b: "1"}}
  - {offline: "3", cpus: {a: "2", b: "1"}}
  - {create: c, cpu: 9, refused: cannot be had}
  - {remove: b, cpus: {a: 1-2}}
"""
    assert played(tmp_path, HEAD + steps) == []


@pytest.mark.parametrize(
    ("expected", "told"),
    [
        ("cpus: {a: 1-2}", "cpus should be {'a': '1-2'}, are {'a': '1-3'}"),
        ("shares: {a: 1}", "shares should be {'a': 1}, are {'a': 614}"),
        ("mems: {a: 0}", "mems should be {'a': '0'}, are {'a': 'unbound'}"),
        ("pools: {strange: 1}", "pools should be {'strange': '1'}, are {'strange': 'no such pool'}"),
        ("told: {X: y}", "told should be {'X': 'y'}, are {'X': None}"),
        ("runs: [x]", "runs should be ('x',), are None"),
        ("reason: whatever", "reason should be whatever, are less than one CPU"),
        ("changed: [b]", "changed should be ('b',), are ()"),
        ("without-place: [a]", "without-place should be ('a',), are ()"),
        ("refused: full", "should be refused with 'full', is: granted"),
    ],
)
def test_a_difference_is_told_with_its_line(tmp_path: Path, expected: str, told: str) -> None:
    """Each kind of expectation can fail."""
    (found,) = played(tmp_path, HEAD + f"steps:\n  - {{create: a, cpu: 600m, {expected}}}\n")
    assert found.startswith(f"line 5, create a: {told}")


def test_a_refusal_nobody_expects_is_told(tmp_path: Path) -> None:
    """With its message."""
    (found,) = played(tmp_path, HEAD + "steps:\n  - {create: a, cpu: 9}\n")
    assert found.startswith("line 5, create a: refused with '9 CPUs of its own cannot be had")


def test_a_policy_that_cannot_be_made_may_be_expected(tmp_path: Path) -> None:
    """By a part of the message; another one is a difference, and so is none."""
    bad = "machine: 1 socket x 4 cores\npolicy: static\n"
    assert played(tmp_path, bad + "fails: needs CPUs for the system\n") == []
    assert played(tmp_path, bad + "fails: something else\n")[0].startswith("the policy cannot be made: reserved")
    assert played(tmp_path, bad)[0].startswith("the policy cannot be made: reserved")
    assert played(tmp_path, HEAD + "fails: never\n") == ["the policy should be refused with 'never'"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("policy: static\n", "machine: is missing"),
        (HEAD + "steps: {}\n", "steps: expected a list of steps"),
        (HEAD + "steps: [{cpu: 1}]\n", "steps[0]: expected one of create, resize, remove, restart, offline, found 0"),
        (HEAD + "steps: [{create: a, remove: b}]\n", "restart, offline, found 2"),
        (HEAD + "steps: [{create: a, cpu: lots}]\n", "steps[0].cpu: "),
        (HEAD + "steps: [{create: a, cpu: [1]}]\n", "steps[0].cpu: expected a number or text"),
        (HEAD + "steps: [{create: a, cpus: [1]}]\n", "steps[0].cpus: expected a group of keys"),
        (HEAD + "steps: [{create: a, cpsu: {}}]\n", "steps[0].cpsu: is not a known key, did you mean"),
        (HEAD + "options: {PinMemorie: true}\n", "options.PinMemorie: is not a known key"),
    ],
)
def test_a_mistake_in_a_file_is_told(tmp_path: Path, text: str, problem: str) -> None:
    """With the file and the key."""
    (found,) = refused(tmp_path, text)
    assert found.startswith("file one.yaml line ")
    assert problem in found


def test_cores_and_caches_are_named_by_the_cpus_that_are_left() -> None:
    """As the kernel shows a machine of which CPUs are offline."""
    left = unplugged(machine("1 socket x 2 cores x 2 threads; isolated 1"), CpuSet.parse("0-1"))
    assert (left.online, left.offline, left.isolated) == (CpuSet.parse("2-3"), CpuSet.parse("0-1"), CpuSet())
    assert {core: str(cpus) for core, cpus in left.cores.items()} == {2: "2-3"}
    assert {cache: str(cpus) for cache, cpus in left.l3_groups.items()} == {2: "2-3"}
    assert all(cache.cpus <= left.online and cache.cpus for cache in left.caches)
