"""Write generated files, or check that the committed ones are what would be written.

Shared by the generators next to it; a generator only says which file has which text.
"""

import argparse
import difflib
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Enough to see what kind of change it is; the whole difference is one `git diff` after regenerating away.
HINT_LINES = 20


def wants_check(description: str) -> bool:
    """Read the command line every generator has: nothing, or --check."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a committed file differs")
    return bool(parser.parse_args().check)


def settle(outputs: Mapping[str, str], *, check: bool, remedy: str, root: Path = ROOT) -> int:
    """Write every file that differs, or name it; return the exit code. Keys are paths below the root."""
    differing = {path: text for path, text in outputs.items() if _read(root / path) != text}
    for path, text in differing.items():
        target = root / path
        if check:
            print(f"{path} is not what its source gives; run `{remedy}`", file=sys.stderr)
            print(_hint(_read(target) or "", text, path), file=sys.stderr)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    return 1 if check and differing else 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _hint(committed: str, fresh: str, path: str) -> str:
    lines = difflib.unified_diff(
        committed.splitlines(), fresh.splitlines(), f"{path} (committed)", f"{path} (fresh)", lineterm="", n=1
    )
    # The serialized descriptor is one line of a hundred kilobytes.
    shown = [line if len(line) <= 160 else line[:157] + "..." for line in lines]
    if len(shown) > HINT_LINES:
        shown = [*shown[:HINT_LINES], f"... {len(shown) - HINT_LINES} more lines"]
    return "\n".join(shown)
