"""A tree that people find their way in: at most 20 modules in a folder, no module of the package above 600 lines, no
two public classes of the package with the same name, and no docstring in it that is too short to say anything.
"""

import argparse
import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = ("src/interpose", "tests/support", "conformance", "examples/demo")
MAX_MODULES: Final = 20
MAX_LINES: Final = 600
MIN_WORDS: Final = 4


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """1 if there is something to say."""
    argparse.ArgumentParser(description=__doc__).parse_args(arguments)
    problems = [*full_folders(root), *long_modules(root), *shared_names(root), *short_docstrings(root)]
    for problem in problems:
        print(problem)
    return int(bool(problems))


def modules(root: Path) -> Iterator[Path]:
    """Everything that people write."""
    for folder in FOLDERS:
        yield from (path for path in sorted((root / folder).rglob("*.py")) if not path.stem.endswith("_pb2"))


def full_folders(root: Path) -> list[str]:
    """Folders with too many modules."""
    counts = Counter(path.parent for path in modules(root) if path.stem != "__init__")
    return [
        f"{folder.relative_to(root)} has {count} modules, at most {MAX_MODULES} are found at a glance"
        for folder, count in sorted(counts.items())
        if count > MAX_MODULES
    ]


def long_modules(root: Path) -> list[str]:
    """Modules that are more than one thought."""
    lengths = {path: path.read_text().count("\n") for path in modules(root) if path.is_relative_to(root / FOLDERS[0])}
    return [
        f"{path.relative_to(root)} has {length} lines, more than {MAX_LINES} are more than one thought"
        for path, length in lengths.items()
        if length > MAX_LINES
    ]


def shared_names(root: Path) -> list[str]:
    """Public classes of the package that cannot be told apart by name."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in (root / FOLDERS[0]).rglob("*.py"):
        if path.stem.endswith("_pb2"):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(root)))
    return [f"class {name} is in {', '.join(sorted(paths))}" for name, paths in sorted(places.items()) if paths[1:]]


def short_docstrings(root: Path) -> list[str]:
    """Docstrings that only go on with the name of their function or class."""
    problems = []
    for path in sorted((root / FOLDERS[0]).rglob("*.py")):
        if path.stem.endswith("_pb2"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            text = ast.get_docstring(node)
            if text is not None and len(text.split()) < MIN_WORDS:
                where = f"{path.relative_to(root)}:{node.lineno}"
                problems.append(f"{where} {node.name} has the docstring {text!r}: a noun and a contract, or none")
    return problems


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
