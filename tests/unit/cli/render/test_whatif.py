"""What policies would have decided, as text."""

from typing import Any

from interpose.cli.render.whatif import whatif_text

STEP: dict[str, Any] = {
    "time_ns": 9 * 3600 * 10**9,
    "what": "create",
    "container": "ns/db/app",
    "request": {"cpu_milli": 2000},
    "before": {"cpus": None, "mems": None},
    "assignment": {"cpus": "2-3", "mems": "0"},
    "reason": "2 CPUs of its own",
    "candidates": [{"name": "NUMA node 0", "cpus": "2-3", "score": "best", "chosen": True, "why": "near"}],
    "moved": [{"container": "ns/web/app", "before": {"cpus": "0-3"}, "after": {"cpus": "0-1"}}],
}
REFUSED = {**STEP, "container": "ns/big/app", "refused": True, "reason": "20 wanted", "moved": [], "candidates": []}
SAME = {**STEP, "what": "resize", "before": STEP["assignment"], "reason": "", "moved": [], "candidates": []}
SUMMARY: dict[str, Any] = {
    "placed": 1,
    "refused": 1,
    "moves": 1,
    "moves_then": 0,
    "exclusive_peak": 2,
    "exclusive_average": 1.25,
    "verdicts": {"same": 1, "other": 0},
    "agreement": 0.5,
}


def policy(name: str = "static", steps: tuple[dict[str, Any], ...] = (STEP,), **changed: Any) -> dict[str, Any]:
    """What came of one."""
    return {"policy": name, "steps": list(steps), "pools": {"shared": "0-1"}, "summary": {**SUMMARY, **changed}}


def text(*policies: dict[str, Any], verbose: bool = False, **more: Any) -> str:
    """The text about them."""
    return whatif_text({"recording": "a.crirec", "machine": "m", "policies": list(policies), **more}, verbose=verbose)


def test_one_policy_shows_its_decisions() -> None:
    """When, about whom, CPUs before and after, and why; then the pools and what it came to."""
    found = text(policy(steps=(STEP, REFUSED, SAME))).splitlines()
    assert found[:2] == ["Recording a.crirec", "on m"]
    assert found[3:12] == [
        "Policy static",
        "TIME      WHAT    CONTAINER   CPU  CPUS",
        "09:00:00  create  ns/db/app   2    - -> 2-3 mems 0",
        "    2 CPUs of its own",
        "    changes the CPUs of 1 other container",
        "09:00:00  create  ns/big/app  2    refused",
        "    20 wanted",
        "09:00:00  resize  ns/db/app   2    2-3 mems 0",
        "",
    ]
    assert found[12:14] == ["POOL    SIZE  CPUS", "shared  2     0-1"]
    assert found[15:] == [
        "POLICY                                  static",
        "containers placed                       1",
        "containers refused                      1",
        "CPU sets changed in running containers  1",
        "  as recorded                           0",
        "CPUs with an owner, at most             2",
        "  on average                            1.2",
        "as created: same                        1",
        "time with the very same CPUs            50.0%",
    ]


def test_verbose_shows_the_choices_and_the_others() -> None:
    """Each of them with what changed."""
    found = text(policy(), verbose=True)
    assert "-> NUMA node 0" in found
    assert "      ns/web/app: 0-3 -> 0-1" in found
    assert "other container" not in found
    assert "CANDIDATE" not in text(policy(steps=(REFUSED,)), verbose=True)


def test_several_policies_are_compared() -> None:
    """Their decisions only if somebody wants them all."""
    two = policy(), policy("static-plus", refused=0, resized=3, agreement=None)
    found = text(*two)
    assert "TIME" not in found
    assert "POLICY                                  static  static-plus" in found
    assert "resizes                                 -       3" in found
    assert "time with the very same CPUs            50.0%   -" in found
    assert text(*two, verbose=True).count("TIME") == 2


def test_what_is_not_quite_known_is_said() -> None:
    """Whatever it was that was missing."""
    found = text(policy(strangers=2, unreadable=1), notes=["3 frames were lost"]).splitlines()
    assert found[-3:] == [
        "3 frames were lost",
        "Messages that could not be read and were passed over: 1",
        "Containers that ran and of which too little was recorded to decide about them: 2",
    ]


def test_a_recording_without_containers_has_no_decisions() -> None:
    """Which is said."""
    found = text({"policy": "none"})
    assert "Nothing was decided" in found
    assert "POLICY                                  none" in found


def test_keys_that_are_missing_are_dashes() -> None:
    """Never an error."""
    assert "-     -     -          -    -" in text({"policy": "x", "steps": [{}]})
