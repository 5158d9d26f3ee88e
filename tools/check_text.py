"""Check that no file speaks of the machine it was written on: paths of this checkout, homes, package registries.

Such a line works here and nowhere else.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SKIPPED = {".git", ".venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
SKIPPED |= {".import_linter_cache", "build", "dist", "LICENSE"}

# Written in pieces, so that this file does not accuse itself.
HOSTS = ("py" + "pi.org", "python" + "hosted.org", "npm" + "js.org", "crates" + ".io", "proxy.go" + "lang.org")
HOMES = re.compile(r"(?<![\w./$}])/(?:wo" + "rk|ro" + r"ot|home/\w+)/\w")


def complaints(text: str, checkout: str = str(ROOT)) -> Iterator[tuple[int, str]]:
    """Line number and reason for each line that should not be there."""
    # A checkout in / or /tmp/x says nothing; short paths would hit everything.
    watched = checkout if len(Path(checkout).parts) > 2 else None
    for number, line in enumerate(text.splitlines(), 1):
        if (watched is not None and watched in line) or HOMES.search(line):
            yield number, "names a path of one machine"
        elif any(host in line for host in HOSTS):
            yield number, "names a package registry"


def files(root: Path = ROOT) -> Iterator[Path]:
    """Every file of the project, generated and hidden ones included."""
    for path in sorted(root.iterdir()):
        if path.name in SKIPPED or path.name.startswith((".venv", ".coverage")) or path.suffix == ".egg-info":
            continue
        if path.is_dir() and not path.is_symlink():
            yield from files(path)
        elif path.is_file():
            yield path


def main() -> int:
    """Print what is wrong; exit code 1 if anything is."""
    found = False
    for path in files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # test data
        for number, reason in complaints(text):
            print(f"{path.relative_to(ROOT)}:{number}: {reason}")
            found = True
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
