"""The table of runtimes: from a report of pytest to the page."""

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[3]
REPORT: Final = """
<testsuites><testsuite>
  <testcase classname="tests.e2e.test_hooks" name="test_a" time="1.6"/>
  <testcase classname="tests.e2e.test_hooks" name="test_b" time="0.1">
    <skipped message="needs another"/></testcase>
  <testcase classname="tests.e2e.test_hook_plugins" name="test_a" time="0.8"/>
  <testcase classname="tests.e2e.test_policy" name="test_c[1]" time="0.5"><failure message="no"/></testcase>
  <testcase classname="tests.e2e.test_policy" name="test_c[2]" time="0.5"/>
  <testcase classname="tests.e2e.test_policy" name="test_c[2]" time="0.5"><error message="at its end"/></testcase>
  <testcase classname="tests.e2e.test_other" name="test_d" time="0.5"/>
</testsuite></testsuites>"""


@pytest.fixture
def page(tool: Callable[[str], Any]) -> Any:
    """The module of the page."""
    return tool("support_page")


def test_a_report_is_counted_by_story(tool: Callable[[str], Any], page: Any) -> None:
    """Files make stories; a failed teardown makes a test a failed one; a file of no story does not count."""
    assert tool("e2e_matrix").outcomes(ET.fromstring(REPORT)) == {
        "hooks": page.Outcome(passed=2, failed=0, skipped={"needs another": 1}, seconds=2),
        "policies": page.Outcome(passed=0, failed=2, seconds=2),
    }


def test_results_of_what_did_not_run_stay(tool: Callable[[str], Any], page: Any) -> None:
    """In the order of the versions, story by story, and only for runtimes that are still known."""
    passed = page.Outcome(passed=1, failed=0)
    failed = page.Outcome(passed=0, failed=1)

    def result(name: str, versions: str, **stories: Any) -> Any:
        return page.RuntimeResult(name=name, versions=versions, stories=stories)

    runtimes = [result("containerd-2", "2", relay=passed, pods=failed), result("containerd", "1"), result("x", "3")]
    merged = tool("e2e_matrix").merged
    results = merged(page.Results(machine="old", runtimes=runtimes), result("containerd-1.7", "1.7"))
    assert [one.versions for one in results.runtimes] == ["1", "1.7", "2"]
    results = merged(results, result("containerd-2", "2.1", pods=passed))
    assert results.runtimes[2] == result("containerd-2", "2.1", relay=passed, pods=passed)
    assert results.machine != "old"


def test_the_page_has_a_cell_for_each_story_and_runtime(page: Any, tmp_path: Path) -> None:
    """Read back from its file; a failure stands out, and what was skipped says why."""
    stories = {
        "hooks": page.Outcome(passed=2, failed=1, skipped={"needs another": 1}),
        "relay": page.Outcome(passed=4, failed=0),
    }
    results = page.Results(
        machine="a machine", runtimes=[page.RuntimeResult(name="c", versions="c 3", stories=stories)]
    )
    file = tmp_path / "support.json"
    file.write_text(results.text())
    lines = page.support_page(page.read_results(file)).splitlines()
    assert "| hooks | **1 failed**, 2 passed, 1 skipped |" in lines
    assert "| relay | 4 passed |" in lines
    assert "| dump | not run |" in lines
    assert "- c 3: needs another (1)" in lines
    assert lines.index("Machine: a machine.") < lines.index("| Story | c 3 |")


def test_without_results_nothing_ran(page: Any, tmp_path: Path) -> None:
    """A page without a runtime, as long as nobody has run the stories."""
    results = page.read_results(tmp_path / "support.json")
    assert results.runtimes == []
    assert "| hooks |" in page.support_page(results).splitlines()


def test_each_story_has_its_tests(page: Any) -> None:
    """No file is named that is not there, and none belongs to two stories."""
    files = [file for files in page.STORIES.values() for file in files]
    assert [file for file in files if not (ROOT / "tests/e2e" / f"{file}.py").exists()] == []
    assert len(files) == len(set(files))
