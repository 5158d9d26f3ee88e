"""The build hook of the wheel: compiles the data path with mypyc if INTERPOSE_NATIVE is 1.

Without it, and in an editable install, the wheel is pure: no compiler and no headers are needed. The source of both is
the same, and a compiled module stands beside the text it was made from.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SWITCH: Final = "INTERPOSE_NATIVE"
_VALUES: Final = {"": False, "0": False, "1": True}
_PLACE: Final = "build/native"

# Run by another interpreter process: mypyc writes below its working directory and ends the process if it fails.
_COMPILE: Final = """
import platform, sys
from mypyc.build import mypycify
from setuptools import Distribution
place, *modules = sys.argv[1:]
extensions = mypycify(
    ["--config-file", f"{place}/mypy.ini", *modules],
    opt_level="2",
    debug_level="0",
    target_dir=f"{place}/c",
    group_name="interpose",
)
libc, version = platform.libc_ver()
packs_relocations = libc == "glibc" and [int(part) for part in version.split(".")] >= [2, 36]
for extension in extensions:
    # What no other library calls can be inlined, and needs no entry in a table.
    compiler = ["-fvisibility=hidden"]
    # Code and tables share pages of memory.
    linker = ["-Wl,-z,noseparate-code"]
    if extension.name == "interpose__mypyc":  # the code of all modules
        # Functions in the order of modules, so that those of modules that are not imported stay out of memory.
        compiler += ["-fno-toplevel-reorder", "-include", f"{place}/errors.h"]
        # Where its pointers are, in 9 KB instead of 500, all of which are read when it is loaded.
        linker += ["-Wl,-z,pack-relative-relocs"] if packs_relocations else []
    else:  # names a module to the importer, and has nothing else
        linker += ["-Wl,-z,norelro"]
    extension.extra_compile_args = [*extension.extra_compile_args, *compiler]
    extension.extra_link_args = [*extension.extra_link_args, *linker]
command = Distribution({"name": "interpose", "ext_modules": extensions}).get_command_obj("build_ext")
command.build_lib, command.build_temp = f"{place}/lib", f"{place}/temp"
command.ensure_finalized()
command.run()
"""
# Only what is compiled is checked here; `make lint` checks everything, with the stubs that it needs.
_CHECKS: Final = """\
[mypy]
explicit_package_bases = True
follow_imports = silent
ignore_missing_imports = True
"""
# The compiler keeps code on the way to an error apart, in a part of the library that is hardly ever in memory.
_ERRORS: Final = """\
#include <CPy.h>
__typeof__(CPy_AddTraceback) CPy_AddTraceback __attribute__((cold));
__typeof__(CPy_AttributeError) CPy_AttributeError __attribute__((cold));
__typeof__(CPy_TypeError) CPy_TypeError __attribute__((cold));
__typeof__(CPy_TypeErrorTraceback) CPy_TypeErrorTraceback __attribute__((cold));
"""


class NativeBuildHook(BuildHookInterface[Any]):
    """Adds compiled modules to a wheel. Their names are the hook's setting `modules`, patterns below `src`."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Packages that a compiled build needs beside hatchling."""
        return ["mypy>=2", "setuptools"] if _is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and include the results; ends the build if that fails, because it was asked for."""
        if version == "editable" or not _is_wanted():
            return
        libraries = self._compile()
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for library, place in libraries.items():
            build_data["force_include"][str(library)] = place

    def _compile(self) -> dict[Path, str]:
        """The compiled modules, each with its path in the wheel."""
        source = Path(self.root) / "src"
        place = Path(self.root) / _PLACE
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (place / "mypy.ini").write_text(_CHECKS)
        (place / "errors.h").write_text(_ERRORS)
        modules: list[str] = []
        for pattern in self.config["modules"]:
            found = [str(path.relative_to(source)) for path in source.glob(pattern) if path.name != "__init__.py"]
            if not found:
                raise ValueError(f"tool.hatch.build.targets.wheel.hooks.custom.modules: {pattern} names no module")
            modules += found
        self.app.display_waiting(f"compiling {len(modules)} modules")
        command = [sys.executable, "-c", _COMPILE, str(place), *sorted(set(modules))]
        result = subprocess.run(  # noqa: S603 - this interpreter and this file
            command, cwd=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if result.returncode:
            raise RuntimeError(f"{SWITCH}=1, and the modules do not compile:\n{result.stdout[-8000:]}")
        libraries = place / "lib"
        return {path: str(path.relative_to(libraries)) for path in libraries.rglob("*.so")}


def _is_wanted() -> bool:
    value = os.environ.get(SWITCH, "")
    if value not in _VALUES:
        raise ValueError(f"{SWITCH} is {value!r}: 1 for a compiled build, 0 or nothing for a pure one")
    return _VALUES[value]
