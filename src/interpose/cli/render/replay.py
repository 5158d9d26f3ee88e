"""What a replay will do and what came of it, for people. Pure: documents in, text out."""

from collections.abc import Mapping, Sequence
from typing import Any

from interpose.cli.render.text import WIDTH, amount, flat, or_dash, sentence, table


def plan_text(plan: Mapping[str, Any], *, verbose: bool = False, width: int = WIDTH) -> str:
    """The calls that would be made, and what is left out; each call of that only if asked for."""
    calls = plan["calls"]
    rows = [["CALL", "AT", "METHOD", "SUBJECT", "RECORDED", "AFTER"]]
    rows += [
        [
            f"#{call['number']}",
            f"+{call['at_ms'] / 1000:.3f}s",
            call["method"],
            or_dash(call["subject"]),
            or_dash(call["status"]),
            or_dash(" ".join(f"#{number}" for number in call["after"])),
        ]
        for call in calls
    ]
    lines = flat(table(rows, width=width, name=3)) if calls else []
    lines += [*_left_out(plan, verbose, width), f"{amount(len(calls), 'call')} would be made."]
    return "\n".join(lines)


def report_text(report: Mapping[str, Any], *, verbose: bool = False, width: int = WIDTH) -> str:
    """What came of the calls; those that went as recorded only if asked for."""
    summary = report["summary"]
    lines: list[str] = []
    shown = [call for call in report["calls"] if verbose or call["same"] is False]
    if shown:
        lines += [*_calls(shown, width), ""]
    states = [state for state in report["states"] if verbose or not state["same"]]
    if states:
        lines += [*_states(states, width), ""]
    lines += _left_out(report, verbose, width)
    if report["latency"]:
        lines += [*_latency(report["latency"], width), ""]
    for note in report["notes"]:
        lines += sentence(f"Note: {or_dash(note)}.", "", width)
    lines += sentence(_summary(summary), "", width)
    return "\n".join(lines)


def _calls(calls: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    rows = [["CALL", "METHOD", "SUBJECT", "RECORDED", "NOW", ""]]
    rows += [
        [
            f"#{call['number']}",
            call["method"],
            or_dash(call["subject"]),
            or_dash(call["recorded"]),
            call["status"],
            "differs" if call["same"] is False else "",
        ]
        for call in calls
    ]
    blocks = table(rows, width=width, name=2)
    for block, call in zip(blocks[1:], calls, strict=True):
        if call["message"] and call["same"] is False:
            block += sentence(or_dash(call["message"]), "      ", width)
    return flat(blocks)


def _states(states: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    rows = [["AT THE END", "SUBJECT", "ID", "RECORDED", "NOW", ""]]
    rows += [
        [
            state["kind"],
            or_dash(state["subject"]),
            or_dash(state["id"][:13]),
            state["expected"],
            state["found"],
            "" if state["same"] else "differs",
        ]
        for state in states
    ]
    return flat(table(rows, width=width, name=1))


def _latency(latency: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    rows = [["METHOD", "CALLS", "RECORDED P50", "NOW P50"]]
    rows += [
        [row["method"], str(row["count"]), f"{row['recorded_p50_ms']:.1f} ms", f"{row['p50_ms']:.1f} ms"]
        for row in latency
    ]
    return flat(table(rows, width=width))


def _left_out(document: Mapping[str, Any], verbose: bool, width: int) -> list[str]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for call in document["skipped"]:
        groups.setdefault(call["group"], []).append(call)
    lines = []
    for group, members in groups.items():
        if len(members) > 1 and not verbose:
            lines += sentence(f"Skipped {amount(len(members), 'call')}: {or_dash(group)}; -v names them.", "", width)
            continue
        for call in members:
            subject = f" ({or_dash(call['subject'])})" if call["subject"] else ""
            lines += sentence(
                f"Skipped #{call['number']} {call['method']}{subject}: {or_dash(call['reason'])}.", "", width
            )
    for reason, count in sorted(document["omitted"].items(), key=lambda item: -item[1]):
        lines += sentence(f"Left out {amount(count, 'call')}: {reason}.", "", width)
    return [*lines, ""] if lines else []


def _summary(summary: Mapping[str, Any]) -> str:
    parts = [
        f"{amount(summary['made'], 'call')} made: {summary['same']} ended as recorded",
        f"{summary['different']} otherwise",
    ]
    if summary["unknown"]:
        parts.append(f"{summary['unknown']} without a recorded end")
    if summary["skipped"]:
        parts.append(f"{summary['skipped']} skipped")
    states = summary["states_same"] + summary["states_different"]
    if states:
        things = amount(states, "pod or container", "pods and containers")
        parts.append(f"{summary['states_same']} of {things} as recorded at the end")
    return ", ".join(parts) + "."
