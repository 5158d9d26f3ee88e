"""Check that every relative link in a Markdown file leads to a file, and every anchor to a heading."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from check_text import ROOT, files

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchor(heading: str) -> str:
    """A heading as the usual viewers name it."""
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.replace(" ", "-")


def anchors(text: str) -> set[str]:
    """Every heading that can be linked to."""
    return {anchor(heading) for heading in HEADING.findall(CODE.sub("", text))}


def broken(page: Path, text: str) -> Iterator[str]:
    """The links of a page that lead nowhere."""
    for target in LINK.findall(CODE.sub("", text)):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, fragment = target.partition("#")
        other = page.parent / path if path else page
        if not other.exists():
            yield f"{target}: no such file"
        elif fragment and fragment not in anchors(other.read_text(encoding="utf-8")):
            yield f"{target}: no such heading"


def main() -> int:
    """Print what is wrong; exit code 1 if anything is."""
    found = False
    for page in files():
        if page.suffix == ".md":
            for problem in broken(page, page.read_text(encoding="utf-8")):
                print(f"{page.relative_to(ROOT)}: {problem}")
                found = True
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
