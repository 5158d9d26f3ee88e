"""What dumps cost: ratios within a round, what was dropped, and where the section goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bench.dump import loads, paced_loads
from bench.dump_modes import MODES, Counts, Mode, counts_of, modes
from bench.dump_report import DumpResults, DumpSample, dump_page, share, target_table, with_section
from tests.support.lab.processes import LabError

if TYPE_CHECKING:
    from pathlib import Path

EARLIER = Mode(name="before", title="an earlier version", source="elsewhere")


def sample(mode: str, workload: str = "dump-version-16", **values: Any) -> DumpSample:
    """One run; what is not said costs nothing much."""
    usual: dict[str, Any] = {"round": 0, "rate": 1000.0, "p50": 300.0, "p99": 900.0, "cpu": 20.0, "rss": 30_000_000}
    usual |= {"reader_cpu": 0.0, "reader_rss": 0, "frames": 0, "frames_dropped": 0, "bodies_dropped": 0}
    return DumpSample(contestant=mode, workload=workload, **{**usual, **values})


def results(*samples: DumpSample) -> DumpResults:
    """All that these say."""
    return DumpResults(
        machine="a machine",
        rounds=2,
        scale=1.0,
        modes=(*MODES, EARLIER),
        workloads=loads(),
        paced=paced_loads(),
        samples=samples,
    )


def test_a_mode_is_compared_with_none_in_the_same_round() -> None:
    """A slow round slows both; who reads is shown beside, and of a relay that nobody reads nothing is."""
    read: dict[str, Any] = {"reader_cpu": 50.0, "reader_rss": 25_000_000, "frames": 80}
    page = dump_page(
        results(
            sample("off", round=0, rate=1000.0, p50=300.0),
            sample("short", round=0, rate=500.0, p50=600.0, cpu=45.0, **read),
            sample("off", round=1, rate=100.0, p50=3000.0),
            sample("short", round=1, rate=50.0, p50=6000.0, cpu=45.0, **read),
        )
    )
    assert "| off | 1.00x | 1.00x | 1650 | 550 | 20 | - | 30.0 | - | - |" in page
    assert "| `short` to a file | 0.50x | 2.00x | 3300 | 275 | 45 | 50 | 30.0 | 25.0 | 0 |" in page
    assert "| `full` to a file |" not in page


def test_a_paced_run_shows_what_is_added() -> None:
    """Rates would say nothing: they are all the same."""
    off, full = sample("off", "dump-paced", cpu=80.0), sample("full", "dump-paced", cpu=110.0, reader_rss=1_000_000)
    assert "| `full` to a file | 300 | 110 | +30 | 0 | 30.0 | 1.0 | - |" in dump_page(results(off, full))
    assert "| off | 300 | 80 | - | - | 30.0 | - | - |" in dump_page(results(off, full))


def test_dropped_is_a_share_of_what_was_made() -> None:
    """Frames that are not there were made, too; a body that is left out leaves its frame."""
    assert share([sample("full", frames=80, frames_dropped=20, bodies_dropped=5)]) == "25.0 %"
    assert share([sample("full", frames=100)]) == "0"
    assert share([sample("off")]) == "-"


def test_targets_of_dumps() -> None:
    """Each states its own verdict; what was not measured is said."""
    rows = {
        row[0]: row[1:]
        for row in target_table(
            results(
                sample("full", "dump-paced", bodies_dropped=1),
                sample("off", rate=990.0, cpu=21.0),
                sample("short", rate=792.0),
                sample("record", rate=594.0),
                sample("off-compiled", rate=2000.0),
                sample("record-compiled", rate=1400.0),
                sample("before", rate=1000.0, cpu=20.0),
            )
        ).rows
    }
    assert rows["dropped, Version, 500 calls a second"] == ("0", "1", "-", "NOT MET")
    assert rows["dropped, ListContainers of 110, 20 calls a second"] == ("0", "-", "-", "not measured")
    assert rows["`short` to a file, 16 streams, req/s"] == (">= 0.75x", "0.80x", "0.80-0.80", "met")
    assert rows["`--record`, 16 streams, req/s"] == (">= 0.65x", "0.60x", "0.60-0.60", "NOT MET")
    assert rows["`--record`, compiled, 16 streams, req/s"] == (">= 0.65x", "0.70x", "0.70-0.70", "met")
    assert rows["`dump record` attached, compiled, 16 streams, req/s"][-1] == "not measured"
    assert rows["off against before, 16 streams, req/s"] == (">= 0.97x", "0.99x", "0.99-0.99", "met")
    assert rows["off against before, 16 streams, CPU per call"] == ("<= 1.03x", "1.05x", "1.05-1.05", "NOT MET")
    assert rows["off against before, 1 stream, p50"][-1] == "not measured"


@pytest.mark.parametrize(
    ("page", "wanted"),
    [
        ("", "## Dumps\n\nnew\n"),
        ("# All\n\n## Hooks\n\nold\n", "# All\n\n## Hooks\n\nold\n\n## Dumps\n\nnew\n"),
        ("# All\n\n## Dumps\n\nold\n\n### Part\n\n## Hooks\n\nx\n", "# All\n\n## Dumps\n\nnew\n\n## Hooks\n\nx\n"),
    ],
    ids=["no page", "no section", "an older one"],
)
def test_a_section_takes_its_place(page: str, wanted: str) -> None:
    """What others wrote stays."""
    assert with_section(page, "## Dumps\n\nnew\n") == wanted


def test_counts_are_added_up_over_readers() -> None:
    """Other families, and what is said about them, do not matter."""
    metrics = (
        "# TYPE interpose_dump_frames_total counter\n"
        'interpose_dump_frames_total{reader="scribe"} 40.0\n'
        'interpose_dump_frames_total{reader="attached"} 2\n'
        'interpose_dump_bytes_total{reader="scribe"} 99\n'
        'interpose_dump_bodies_dropped_total{reader="scribe"} 3\n'
        "interpose_calls_total 7\n"
    )
    assert counts_of(metrics) == Counts(frames=42, bodies_dropped=3)
    assert counts_of("") == Counts()


def test_an_earlier_version_must_be_there(tmp_path: Path) -> None:
    """It runs beside the others if it is."""
    with pytest.raises(LabError, match="no src/interpose"):
        modes(tmp_path)
    (tmp_path / "src" / "interpose").mkdir(parents=True)
    earlier = modes(tmp_path, tmp_path / "nothing")[len(MODES) :]
    assert [(one.name, one.base) for one in earlier] == [
        ("before", "before"),
        ("short-before", "before"),
        ("record-before", "before"),
        ("attached-before", "before"),
    ]
    assert modes(None, tmp_path / "nothing") == MODES


def test_the_compiled_build_is_there_if_it_was_made(tmp_path: Path) -> None:
    """Compared with itself."""
    program = tmp_path / "interpose"
    program.touch()
    compiled = modes(None, program)[len(MODES) :]
    assert [one.name for one in compiled] == ["off-compiled", "short-compiled", "record-compiled", "attached-compiled"]
    assert {(one.program, one.base) for one in compiled} == {(str(program), "off-compiled")}
