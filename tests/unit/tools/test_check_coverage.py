"""The check of coverage holds pure modules to 100 % and every other sub-package to its floor."""

from collections.abc import Callable
from typing import Any

Tool = Callable[[str], Any]

CONTRACTS = """
[importlinter:contract:pure]
name = What decides
type = forbidden
source_modules =
    interpose.core
    interpose.net.http.address
forbidden_modules =
    asyncio
"""


def report_of(statements: int, *, missing_lines: list[int], missing_branches: list[list[int]]) -> dict[str, Any]:
    """One file of coverage.py's report, with four branches."""
    return {
        "summary": {
            "num_statements": statements,
            "num_branches": 4,
            "covered_lines": statements - len(missing_lines),
            "covered_branches": 4 - len(missing_branches),
        },
        "missing_lines": missing_lines,
        "missing_branches": missing_branches,
    }


def test_the_contract_names_what_is_pure(tool: Tool) -> None:
    """A package of the contract stands for all of its modules, a module for itself alone."""
    check = tool("check_coverage")
    names = check.pure_modules(CONTRACTS)
    assert names == ["interpose.core", "interpose.net.http.address"]
    assert check.is_listed("interpose.core.model.pod", names)
    assert check.is_listed("interpose.net.http.address", names)
    assert not check.is_listed("interpose.net.http.addresses", names)
    assert not check.is_listed("interpose.coresched", names)


def test_a_line_or_branch_of_a_pure_module_that_no_test_takes_is_a_problem(tool: Tool) -> None:
    """The problem names the module, the lines and the branches; modules without a statement are left out."""
    check = tool("check_coverage")
    files = {
        "src/interpose/core/model/pod.py": report_of(10, missing_lines=[3], missing_branches=[[7, -1]]),
        "src/interpose/core/model/cpuset.py": report_of(10, missing_lines=[], missing_branches=[]),
        "src/interpose/core/__init__.py": {"summary": {"num_statements": 0, "num_branches": 0}},
    }
    modules = list(check.read_report({"files": files}))
    assert [module.module for module in modules] == ["interpose.core.model.pod", "interpose.core.model.cpuset"]
    assert check.uncovered(modules) == ["interpose.core.model.pod is pure, but no test takes 3, 7->exit"]


def test_a_name_of_the_contract_without_a_module_is_a_problem(tool: Tool) -> None:
    """A row of tests that did not run, or a module that moved, is no 100 %."""
    check = tool("check_coverage")
    modules = [check.ModuleCoverage("interpose.core.model.pod", 1, 1, "")]
    assert check.not_measured(["interpose.core", "interpose.net.http.address"], modules) == [
        "interpose.net.http.address is in the contract `pure`, but not in the report"
    ]


def test_every_sub_package_has_a_floor_and_keeps_it(tool: Tool) -> None:
    """Modules of deeper folders count for the sub-package; a floor without modules is out of date."""
    check = tool("check_coverage")
    measured = check.percentages(
        [
            check.ModuleCoverage("interpose.node.runtime.images.store", 60, 100, "1"),
            check.ModuleCoverage("interpose.node.runtime.shim.main", 100, 100, ""),
            check.ModuleCoverage("interpose.relay.proxy", 9, 10, "2"),
            check.ModuleCoverage("interpose.kube.client.client", 1, 1, ""),
        ]
    )
    assert measured == {"interpose.kube.client": 100, "interpose.node.runtime": 80, "interpose.relay": 90}
    assert check.below_floors(measured, {"interpose.node.runtime": 81, "interpose.relay": 90, "interpose.dump": 1}) == [
        "interpose.kube.client has no floor in pyproject.toml",
        "interpose.dump has a floor in pyproject.toml, but no module",
        "interpose.node.runtime is covered by 80.0%, its floor in pyproject.toml is 81%",
    ]
