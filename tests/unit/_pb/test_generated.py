"""The committed classes are what the compiler makes of proto/ today."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _compiler() -> None:
    pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed: cannot compare generated code")


def run_check(tool: Path) -> "subprocess.CompletedProcess[str]":
    """Run a copy of the generator that checks the tree it stands in."""
    return subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True, check=False)


def test_committed_code_is_up_to_date() -> None:
    """gen_proto --check finds nothing to do."""
    result = run_check(ROOT / "tools/gen_proto.py")
    assert result.returncode == 0, result.stderr


def test_check_notices_a_change(tmp_path: Path) -> None:
    """After an edit of the .proto the check fails, names the stale files and shows what differs; it writes nothing."""
    for name in (
        "tools/gen_proto.py",
        "tools/outputs.py",
        "proto/runtime/v1/api.proto",
        "proto/runtime/v1alpha1/api.proto",
        "proto/resmgr/v1/config.proto",
        "proto/resmgr/v1/agent.proto",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    generated = [f"src/interpose/_pb/cri_pb2{suffix}" for suffix in (".py", ".pyi")]
    others = [
        f"src/interpose/_pb/{name}_pb2{suffix}"
        for name in ("hook", "resmgr_config", "resmgr_agent")
        for suffix in (".py", ".pyi")
    ]
    for name in (*generated, *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    proto = tmp_path / "proto/runtime/v1/api.proto"
    proto.write_text(proto.read_text() + "\nmessage Extra { string added_field = 1; }\n")

    result = run_check(tmp_path / "tools/gen_proto.py")

    assert result.returncode == 1
    assert all(name in result.stderr for name in generated)
    assert "added_field" in result.stderr
    assert all((tmp_path / name).read_text() == (ROOT / name).read_text() for name in generated)


def test_broken_source_is_named(tmp_path: Path) -> None:
    """A .proto that does not compile is named, with the place of the mistake."""
    for name in ("tools/gen_proto.py", "tools/outputs.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    for other in ("runtime/v1/api", "runtime/v1alpha1/api", "resmgr/v1/config", "resmgr/v1/agent"):
        source = tmp_path / f"proto/{other}.proto"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text('syntax = "proto3";\n')
    proto = tmp_path / "proto/runtime/v1/api.proto"
    proto.write_text('syntax = "proto3";\nmessage Broken { strin x = 1; }\n')

    result = run_check(tmp_path / "tools/gen_proto.py")

    assert result.returncode == 1
    assert "proto/runtime/v1/api.proto: protoc failed" in result.stderr
    assert "strin" in result.stderr
