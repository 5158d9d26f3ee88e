"""Branch coverage after `coverage run`: 100 % of what the contract `pure` in .importlinter lists, and of every other
sub-package at least its floor in pyproject.toml (`[tool.interpose.coverage-floors]`, in per cent).

`--floors` prints the floors as they could stand there now.
"""

import argparse
import configparser
import json
import math
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = "src/"
DEPTH: Final = 3  # components in the name of a sub-package: interpose.net.grpc


@dataclass(frozen=True, slots=True)
class ModuleCoverage:
    """What the tests ran of one module."""

    module: str
    covered: int  # statements and branches
    total: int
    missing: str  # for people: lines and branches


def main(arguments: Sequence[str]) -> int:
    """1 if anything is below its floor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--floors", action="store_true", help="print floors that would hold, as TOML")
    options = parser.parse_args(arguments)
    pure = pure_modules((ROOT / ".importlinter").read_text())
    modules = list(read_report(coverage_report()))
    rest = [module for module in modules if not is_listed(module.module, pure)]
    if options.floors:
        for package, percent in percentages(rest).items():
            print(f'"{package}" = {math.floor(percent)}')
        return 0
    floors = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["interpose"]["coverage-floors"]
    problems = [
        *uncovered(module for module in modules if is_listed(module.module, pure)),
        *not_measured(pure, modules),
        *below_floors(percentages(rest), floors),
    ]
    for problem in problems:
        print(problem)
    if not problems:
        pure_count = len(modules) - len(rest)
        print(f"branch coverage: {pure_count} pure modules 100%, {len(floors)} sub-packages above their floors")
    return int(bool(problems))


def pure_modules(contracts: str) -> list[str]:
    """Modules and packages that the contract names."""
    parser = configparser.ConfigParser()
    parser.read_string(contracts)
    return parser["importlinter:contract:pure"]["source_modules"].split()


def is_listed(module: str, names: Iterable[str]) -> bool:
    """Whether the module or a package around it is among the names."""
    return any(module == name or module.startswith(f"{name}.") for name in names)


def coverage_report() -> Mapping[str, Any]:
    """coverage.py's own report of the last run."""
    command = [sys.executable, "-m", "coverage", "json", "-q", "-o", "-"]
    report: Mapping[str, Any] = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    return report


def read_report(report: Mapping[str, Any]) -> Iterator[ModuleCoverage]:
    """Every module of the report that has a statement."""
    for path, file in report["files"].items():
        summary = file["summary"]
        total = summary["num_statements"] + summary["num_branches"]
        if total:
            name = path.removeprefix(SOURCE).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            branches = [f"{source}->{target if target > 0 else 'exit'}" for source, target in file["missing_branches"]]
            missing = ", ".join([*map(str, file["missing_lines"]), *branches])
            yield ModuleCoverage(name, summary["covered_lines"] + summary["covered_branches"], total, missing)


def uncovered(modules: Iterable[ModuleCoverage]) -> list[str]:
    """Pure modules with a line or branch that no test takes."""
    return [f"{module.module} is pure, but no test takes {module.missing}" for module in modules if module.missing]


def not_measured(pure: Iterable[str], modules: Sequence[ModuleCoverage]) -> list[str]:
    """Names of the contract that are no module of the report: a row of the tests was left out, or the name is wrong."""
    return [
        f"{name} is in the contract `pure`, but not in the report"
        for name in pure
        if not any(is_listed(module.module, [name]) for module in modules)
    ]


def percentages(modules: Iterable[ModuleCoverage]) -> dict[str, float]:
    """Per cent covered by sub-package, in the order of names."""
    covered: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for module in modules:
        package = ".".join(module.module.split(".")[:-1][:DEPTH]) or module.module
        covered[package] += module.covered
        total[package] += module.total
    return {package: 100 * covered[package] / total[package] for package in sorted(total)}


def below_floors(measured: Mapping[str, float], floors: Mapping[str, float]) -> list[str]:
    """Sub-packages whose tests cover less than agreed, or for which nothing was agreed."""
    problems = [f"{package} has no floor in pyproject.toml" for package in measured if package not in floors]
    problems += [
        f"{package} has a floor in pyproject.toml, but no module" for package in floors if package not in measured
    ]
    problems += [
        f"{package} is covered by {percent:.1f}%, its floor in pyproject.toml is {floors[package]}%"
        for package, percent in measured.items()
        if percent < floors.get(package, 0)
    ]
    return problems


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
