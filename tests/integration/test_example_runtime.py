"""The example runtime as a person runs it, with pods that `interpose pod` brings up on it."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.processes import Child
from tests.support.lab.relay import program

EXAMPLE = Path(__file__).parents[2] / "examples/runtime"
PAGE = (Path(__file__).parents[2] / "docs/kuberuntime.md").read_text()


@pytest.fixture
def runtime(scratch: Path, spawn: Callable[..., Child]) -> Child:
    """The example, listening."""
    child = spawn(sys.executable, EXAMPLE / "runtime.py", "--socket", scratch / "tiny.sock")
    child.wait_listening(scratch / "tiny.sock")
    return child


@pytest.fixture
def pod(scratch: Path, runtime: Child) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """`interpose pod ...` with everything in the folder of the test."""
    environment = {
        **os.environ,
        "CONTAINER_RUNTIME_ENDPOINT": str(scratch / "tiny.sock"),
        "INTERPOSE_POD_ROOT": str(scratch / "pods"),
        "INTERPOSE_POD_LOG_ROOT": str(scratch / "logs"),
    }

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [str(program()), "pod", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=WAIT_LIMIT)

    return run


def test_a_pod_runs_on_it(pod: Callable[..., "subprocess.CompletedProcess[str]"]) -> None:
    """Up, listed, its log read, and gone without a trace."""
    up = pod("run", "-f", str(EXAMPLE / "pod.yaml"))
    assert up.returncode == 0, up.stderr
    [listed] = json.loads(pod("ls", "-o", "json").stdout)
    assert (listed["name"], listed["namespace"]) == ("clock", "default")
    assert pod("logs", "clock").stdout == "hello from clock\n"
    assert pod("rm", "clock").returncode == 0
    assert json.loads(pod("ls", "-o", "json").stdout) == []


def test_what_it_does_not_have_is_said(pod: Callable[..., "subprocess.CompletedProcess[str]"], scratch: Path) -> None:
    """In words, and a pod that fails is a failure."""
    assert pod("run", "-q", "-f", str(EXAMPLE / "pod.yaml")).returncode == 0
    said = pod("exec", "clock", "--", "true")
    assert said.returncode == 1
    assert "UNIMPLEMENTED" in said.stderr
    failing = scratch / "failing.yaml"
    failing.write_text(
        (EXAMPLE / "pod.yaml").read_text().replace("exec sleep 1000", "exit 3").replace("name: clock", "name: bad")
        + "  restartPolicy: Never\n"
    )
    ended = pod("run", "--wait", "end", "-f", str(failing))
    assert ended.returncode == 1
    assert "exit code 3" in ended.stderr


def test_the_page_names_its_methods() -> None:
    """Those of the table in the example, in its order."""
    tree = ast.parse((EXAMPLE / "runtime.py").read_text())
    [table] = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and len(node.value.keys) > 3
    ]
    names = [key.value for key in table.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    assert len(names) == 16
    assert ", ".join(f"`{name}`" for name in names) in PAGE.replace("\n", " ")
