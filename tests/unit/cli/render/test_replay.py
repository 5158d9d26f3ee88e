"""What a replay will do and what came of it, for people."""

from typing import Any

from interpose.cli.render.replay import plan_text, report_text

CALL = {
    "number": 7,
    "method": "CreateContainer",
    "subject": "shop/web:app",
    "recorded": "OK",
    "status": "OK",
    "message": "",
    "same": True,
    "recorded_ms": 40.0,
    "duration_ms": 50.0,
}
STATE = {
    "kind": "container",
    "subject": "shop/web:app",
    "recorded_id": "c",
    "id": "0123456789abcdef",
    "expected": "running",
    "found": "running",
    "same": True,
}


def report(**more: Any) -> dict[str, Any]:
    """A report of one call."""
    summary = {
        "made": 1,
        "same": 1,
        "different": 0,
        "unknown": 0,
        "skipped": 0,
        "omitted": 0,
        "states_same": 1,
        "states_different": 0,
        "stopped": False,
    }
    base = {
        "calls": [CALL],
        "skipped": [],
        "omitted": {},
        "states": [STATE],
        "latency": [],
        "notes": [],
        "summary": summary,
    }
    return {**base, **more}


def test_what_went_well_is_a_sentence() -> None:
    """With everything else left to those who ask."""
    assert report_text(report()) == (
        "1 call made: 1 ended as recorded, 0 otherwise, 1 of 1 pod or container as recorded at the end."
    )
    verbose = report_text(report(), verbose=True)
    assert "#7    CreateContainer  shop/web:app  OK        OK" in verbose
    assert "container   shop/web:app  0123456789abc  running   running" in verbose


def test_what_differs_is_shown_with_its_reason() -> None:
    """Calls and states; texts of others cannot move the cursor."""
    call = {**CALL, "same": False, "status": "UNAVAILABLE", "message": "no\x1b[2Jdisk"}
    state = {**STATE, "same": False, "found": "gone", "id": ""}
    text = report_text(report(calls=[call], states=[state]))
    assert "UNAVAILABLE  differs\n      no?[2Jdisk\n" in text
    assert "running   gone  differs" in text


def test_the_rest_is_told() -> None:
    """What was left out and why, how long it took, and notes."""
    skipped = [
        {"number": 9, "method": "StopContainer", "subject": "a/b", "reason": "it is old", "group": "old"},
        {"number": 10, "method": "StopContainer", "subject": "", "reason": "it is older", "group": "older"},
    ]
    latency = [{"method": "CreateContainer", "count": 3, "recorded_p50_ms": 40.04, "p50_ms": 50.0}]
    summary = {**report()["summary"], "unknown": 2, "skipped": 2, "states_same": 0}
    text = report_text(
        report(skipped=skipped, omitted={"streams": 1, "reads": 2}, latency=latency, notes=["so"], summary=summary)
    )
    assert text.splitlines() == [
        "Skipped #9 StopContainer (a/b): it is old.",
        "Skipped #10 StopContainer: it is older.",
        "Left out 2 calls: reads.",
        "Left out 1 call: streams.",
        "",
        "METHOD           CALLS  RECORDED P50  NOW P50",
        "CreateContainer  3      40.0 ms       50.0 ms",
        "",
        "Note: so.",
        "1 call made: 1 ended as recorded, 0 otherwise, 2 without a recorded end, 2 skipped.",
    ]


def test_a_plan_is_a_table() -> None:
    """What is made, when, and after what."""
    call = {
        "number": 7,
        "at_ms": 1234.5,
        "method": "CreateContainer",
        "subject": "shop/web:app",
        "status": "",
        "makes": "c",
        "after": [3, 4],
    }
    text = plan_text({"calls": [call], "skipped": [], "omitted": {"streams": 1}})
    assert text.splitlines() == [
        "CALL  AT       METHOD           SUBJECT       RECORDED  AFTER",
        "#7    +1.234s  CreateContainer  shop/web:app  -         #3 #4",
        "Left out 1 call: streams.",
        "",
        "1 call would be made.",
    ]


def test_an_empty_plan_says_so() -> None:
    """Without a table."""
    assert plan_text({"calls": [], "skipped": [], "omitted": {}}) == "0 calls would be made."


def test_many_skipped_calls_are_one_line() -> None:
    """For each reason; all of them if asked for, in a plan as well."""
    skipped = [
        {
            "number": 9,
            "method": "Status",
            "subject": "",
            "reason": "pod a is old",
            "group": "what they are about is old",
        },
        {"number": 10, "method": "Start", "subject": "", "reason": "b is away", "group": "away"},
        {
            "number": 11,
            "method": "Stop",
            "subject": "",
            "reason": "pod c is old",
            "group": "what they are about is old",
        },
    ]
    plan = {"calls": [], "skipped": skipped, "omitted": {}}
    for text in (report_text(report(skipped=skipped)), plan_text(plan)):
        assert text.splitlines()[:2] == [
            "Skipped 2 calls: what they are about is old; -v names them.",
            "Skipped #10 Start: b is away.",
        ]
    for text in (
        report_text(report(skipped=skipped, calls=[], states=[]), verbose=True),
        plan_text(plan, verbose=True),
    ):
        assert text.splitlines()[:3] == [
            "Skipped #9 Status: pod a is old.",
            "Skipped #11 Stop: pod c is old.",
            "Skipped #10 Start: b is away.",
        ]
