"""Trying points: each on a bench of its own, several at a time, and what it came to as a value."""

from __future__ import annotations

import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from conformance.bench import Bench, code_of, stop_slice
from conformance.points import Finding, Kind, Point
from tests.support.lab.pods import remove_groups

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conformance.world import World

AT_A_TIME = 6
_FOLDERS = ("conformance", "checks")


def judge(point: Point, world: World) -> Finding:
    """Try one point. Whatever the check raises is a finding: an answer may lack anything it looks for."""
    if point.need is not None and not point.need.met():
        return Finding(kind=Kind.UNTRIED, words=point.need.words)
    try:
        with Bench(world) as bench:
            point.check(bench)
    except grpc.RpcError as error:
        return Finding(kind=Kind.REFUSED, code=code_of(error), words=error.details())
    except Exception as error:
        return Finding(kind=Kind.DIFFERS, words=_words(error))
    return Finding(kind=Kind.PASSES)


def _words(error: Exception) -> str:
    """What was not so: many checks say no more than what they look at, and where it stands."""
    *_, last = (at for at in traceback.extract_tb(error.__traceback__) if Path(at.filename).parent.name in _FOLDERS)
    said = f"{type(error).__name__}: {error}".rstrip(": ")
    return f"{said} at {Path(last.filename).name}:{last.lineno}: {last.line}"


def judge_all(
    points: Mapping[str, Point], world: World, *, at_a_time: int = AT_A_TIME, home: bool = True
) -> dict[str, Finding]:
    """Try points by their names: those that must be alone first, then the others beside each other.

    With `home` most containers are made in one pod, which is quick, and hard on a runtime that has one process for it.
    """
    with Bench(world) as bench:
        if world.systemd:
            bench.later(stop_slice, Path(world.pod_cgroup("")).parent.name)
        else:
            bench.later(remove_groups, world.cgroup)
        if home:
            world = replace(world, home=bench.pod())
        findings = {name: judge(point, world) for name, point in points.items() if point.alone}
        with ThreadPoolExecutor(at_a_time, thread_name_prefix="point") as pool:
            others = {name: pool.submit(judge, point, world) for name, point in points.items() if not point.alone}
            findings |= {name: finding.result() for name, finding in others.items()}
    return findings
