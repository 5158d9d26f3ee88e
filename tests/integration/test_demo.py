"""The demo as a person runs it."""

import subprocess
import sys


def test_the_demo_shows_calls_and_changes() -> None:
    """`python -m interpose.testing.demo` ends well and shows what passed, who changed what and the metrics."""
    done = subprocess.run(
        [sys.executable, "-m", "interpose.testing.demo"], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "7 zone config.linux.resources.cpu_shares 1024 -> 2" in lines
    assert "3 policy config.linux.resources.cpuset_cpus (none) -> 2-3" in lines
    assert "reports 2 shares, CPUs 0-1 1024 shares, any CPU" in lines
    assert any(line.startswith("1 Version OK") and line.endswith("passed untouched") for line in lines)
    assert any(line.startswith("zone connected") for line in lines)
    assert (
        'interpose_cri_requests_total{code="OK",method="CreateContainer",service="runtime.v1.RuntimeService"} 3.0'
        in lines
    )
    assert "WRONG" not in done.stdout
