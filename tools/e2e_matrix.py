"""The end-to-end stories on every containerd that is there, and what came of it: docs/support.json and docs/support.md.

    e2e_matrix.py [--only NAME]... [--story NAME]... [PYTEST-OPTIONS]

`tools/e2e_runtimes.sh` brings the versions that are not the machine's. Of what does not run this time, the results of
the last time stay. With options for pytest it may be a part that ran, so nothing is written. Exit code 1 if a story
failed.
"""

import argparse
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from outputs import settle
from support_page import PAGE, RESULTS, STORIES, Outcome, Results, RuntimeResult, read_results, support_page

from tests.support.lab.installations import INSTALLATIONS, VARIABLE, Installation

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "build" / "matrix"


def story_of(test: ET.Element) -> str:
    """The story that a test of a report belongs to, by its file."""
    module = test.get("classname", "").rpartition(".")[2]
    return next((name for name, files in STORIES.items() if module in files), "")


def reason_of(skipped: ET.Element) -> str:
    """Why a test did not run, in its own words."""
    return skipped.get("message", "").partition("\n")[0]


def outcomes(report: ET.Element) -> dict[str, Outcome]:
    """What came of each story, from a report as JUnit has them. A story without a test is not there."""
    found = {}
    for name in STORIES:
        tests = [test for test in report.iter("testcase") if story_of(test) == name]
        # A test that passes and whose teardown fails is there twice.
        failed = {key(test) for test in tests if test.find("failure") is not None or test.find("error") is not None}
        skips = [skip for test in tests if (skip := test.find("skipped")) is not None]
        if tests:
            found[name] = Outcome(
                passed=len({key(test) for test in tests}) - len(failed) - len(skips),
                failed=len(failed),
                skipped=dict(sorted(Counter(map(reason_of, skips)).items())),
                seconds=round(sum(float(test.get("time", "0")) for test in tests)),
            )
    return found


def key(test: ET.Element) -> tuple[str, str]:
    """What names a test in its report."""
    return test.get("classname", ""), test.get("name", "")


def merged(before: Results, now: RuntimeResult) -> Results:
    """The results of all runtimes: those of now, and those of before for what did not run."""
    results = {one.name: one for one in before.runtimes}
    kept = results[now.name].stories if now.name in results else {}
    results[now.name] = replace(now, stories={**kept, **now.stories})
    return Results(machine=machine(), runtimes=[results[name] for name in INSTALLATIONS if name in results])


def machine() -> str:
    """What the results depend on besides the runtimes."""
    cgroup = "v2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "v1"
    kernel = ".".join(os.uname().release.split(".")[:2])
    return f"Linux {kernel}, {os.uname().machine}, cgroup {cgroup}"


def run(installation: Installation, stories: Iterable[str], options: list[str]) -> RuntimeResult:
    """Stories on one of them, by a pytest of its own."""
    report = REPORTS / f"{installation.name}.xml"
    report.unlink(missing_ok=True)
    files = [f"tests/e2e/{file}.py" for story in stories for file in STORIES[story]]
    argv = [sys.executable, "-m", "pytest", "-q", "-rs", "-W", "error", f"--junitxml={report}", *files, *options]
    subprocess.run(argv, cwd=ROOT, env={**os.environ, VARIABLE: installation.name}, check=False)
    return RuntimeResult(
        name=installation.name, versions=installation.words(), stories=outcomes(ET.parse(report).getroot())
    )


def main() -> int:
    """Run, write the results and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(INSTALLATIONS), help="one of them; may be repeated")
    parser.add_argument("--story", action="append", choices=list(STORIES), help="one of them; may be repeated")
    arguments, options = parser.parse_known_args()
    REPORTS.mkdir(parents=True, exist_ok=True)
    failed = False
    for name in arguments.only or INSTALLATIONS:
        if reason := INSTALLATIONS[name].missing():
            print(f"SKIPPED {name}: {reason}", flush=True)
            continue
        print(f"== {INSTALLATIONS[name].words()}", flush=True)
        result = run(INSTALLATIONS[name], arguments.story or STORIES, options)
        failed |= any(outcome.failed for outcome in result.stories.values())
        if not options:
            results = merged(read_results(ROOT / RESULTS), result)
            settle({RESULTS: results.text(), PAGE: support_page(results)}, check=False, remedy="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
