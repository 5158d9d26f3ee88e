"""Regenerate the message classes in src/interpose/_pb from the files in proto/.

Deterministic for one version of grpcio-tools, which constraints.txt fixes. Only message classes are made: calls go
through interpose.net.grpc, so there are no service stubs.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from outputs import ROOT, settle, wants_check

# Source below the root, and the module it becomes. The module's path is also the file's name in the descriptor pool,
# where names are unique in a process; "api.proto" would be asking for a clash.
SOURCES = (
    ("proto/runtime/v1/api.proto", "interpose/_pb/cri"),
    ("proto/runtime/v1alpha1/api.proto", "interpose/_pb/hook"),
    ("proto/resmgr/v1/config.proto", "interpose/_pb/resmgr_config"),
    ("proto/resmgr/v1/agent.proto", "interpose/_pb/resmgr_agent"),
)

# What the compiler writes, and what we put before it: its stubs say `Mapping` without arguments, which strict mypy
# refuses in every module that imports them.
PREFIXES = {"_pb2.py": "", "_pb2.pyi": '# mypy: disable-error-code="type-arg"\n'}


def generate() -> dict[str, str]:
    """Compile every source in a scratch folder laid out like the package; return path below the root -> text."""
    # Imported here so that the other functions work without the development dependency.
    from grpc_tools import protoc

    outputs: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch)
        for source, module in SOURCES:
            staged = tree / f"{module}.proto"
            staged.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / source, staged)
        for source, module in SOURCES:
            arguments = ["protoc", f"-I{tree}", f"--python_out={tree}", f"--pyi_out={tree}", f"{module}.proto"]
            if protoc.main(arguments) != 0:
                raise SystemExit(f"{source}: protoc failed, see its message above")
            for suffix, prefix in PREFIXES.items():
                outputs[f"src/{module}{suffix}"] = prefix + (tree / f"{module}{suffix}").read_text(encoding="utf-8")
    return outputs


def main() -> int:
    """Write or check; exit code 0 when the committed files are up to date."""
    check = wants_check("Regenerate the message classes from proto/.")
    return settle(generate(), check=check, remedy="python tools/gen_proto.py")


if __name__ == "__main__":
    sys.exit(main())
