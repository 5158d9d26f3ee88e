"""How a benchmark of its own ends: tables on the terminal, samples and a section of a page in files. Leaves nothing."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from bench.dump_report import with_section
from bench.report import as_text
from bench.run import say
from tests.support.lab.processes import LabError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from bench.report import Table


class Results(Protocol):
    """What a run gave."""

    @property
    def machine(self) -> str: ...

    @property
    def rounds(self) -> int: ...

    @property
    def scale(self) -> float: ...

    @property
    def samples(self) -> Sequence[Any]: ...


R = TypeVar("R", bound=Results)


def measure(
    args: argparse.Namespace,
    run: Callable[[argparse.Namespace, Path], R],
    tables: Callable[[R], Sequence[Table]],
    page: Callable[[R], str],
    *,
    missing: str | None,
) -> int:
    """Run in a scratch folder and tell; the exit code."""
    if missing:
        say(f"the benchmark can not run here: {missing}")
        return 1
    folder = Path(tempfile.mkdtemp(prefix="interpose-bench-"))
    try:
        results = run(args, folder)
    except LabError as error:
        say(f"the benchmark stopped: {error}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{results.machine}; {results.rounds} rounds; only ratios mean something\n")
    print("\n\n".join(as_text(table) for table in tables(results)))
    if args.json:
        document: dict[str, Any] = {"machine": results.machine, "rounds": results.rounds, "scale": results.scale}
        document["samples"] = [dataclasses.asdict(sample) for sample in results.samples]
        args.json.write_text(json.dumps(document, indent=1) + "\n")
    if args.output:
        before = args.output.read_text() if args.output.exists() else ""
        args.output.write_text(with_section(before, page(results)))
    return 0
