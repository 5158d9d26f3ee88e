"""The process reports itself under the usual names."""

import os
import resource
import time
from pathlib import Path

from interpose.metrics import Sample, process_collector


def _values(proc: Path) -> dict[str, float]:
    values = {}
    for family in process_collector(proc)():
        (sample,) = family.samples
        assert isinstance(sample, Sample)
        values[family.name] = sample.value
    return values


def test_the_numbers_are_those_of_this_process() -> None:
    """Memory, CPU, descriptors, threads and start time agree with what the system says elsewhere."""
    values = _values(Path("/proc"))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    assert 0 < values["process_resident_memory_bytes"] <= values["process_virtual_memory_bytes"]
    # Ticks are hundredths of a second, cut off separately for user and system time.
    assert abs(values["process_cpu_seconds_total"] - usage.ru_utime - usage.ru_stime) < 0.5
    assert values["process_threads"] >= 1
    # One more than without us: the directory itself is open while it is read.
    assert values["process_open_fds"] >= len(list(Path("/proc/self/fd").iterdir())) - 1
    assert 0 < values["process_start_time_seconds"] <= time.time() + 1


def test_a_strange_process_name_does_not_shift_the_fields(tmp_path: Path) -> None:
    """The name in stat may hold spaces and parentheses."""
    (tmp_path / "self/fd").mkdir(parents=True)
    numbers = " ".join(str(number) for number in range(4, 40))
    (tmp_path / "self/stat").write_text(f"1 (a) b (c) S {numbers}\n")
    (tmp_path / "stat").write_text("cpu 1 2\nbtime 1000\n")
    values = _values(tmp_path)
    assert values["process_threads"] == 20
    assert values["process_virtual_memory_bytes"] == 23
    assert values["process_resident_memory_bytes"] == 24 * os.sysconf("SC_PAGE_SIZE")
    assert values["process_start_time_seconds"] == 1000 + 22 / os.sysconf("SC_CLK_TCK")


def test_without_proc_there_are_no_process_metrics(tmp_path: Path) -> None:
    """What cannot be read is left out; the scrape goes on."""
    assert _values(tmp_path) == {}
