"""What the browser runs."""

import re
from importlib import resources

from interpose.dump.page.render import PARTS, load_resources


def test_every_part_is_in_the_script() -> None:
    """Each file of the folder has its place in the order."""
    folder = resources.files("interpose.dump.page") / "parts"

    assert sorted(f"{name}.js" for name in PARTS) == sorted(one.name for one in folder.iterdir())
    assert all((folder / f"{name}.js").read_text("utf-8") in load_resources().script for name in PARTS)


def test_the_page_loads_nothing() -> None:
    """No address but the name of the drawing language."""
    loaded = load_resources()
    text = loaded.template + loaded.style + loaded.script

    assert re.findall(r"https?://[^\"' ]+", text) == ["http://www.w3.org/2000/svg"]
    assert "@import" not in text
    assert "url(" not in text


def test_the_script_never_parses_markup_or_code() -> None:
    """Text of calls becomes text: none of the doors to anything else is used."""
    script = load_resources().script

    for door in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "DOMParser",
    ):
        assert door not in script


def test_script_and_style_do_not_end_their_elements() -> None:
    """They are written into the page as they are."""
    loaded = load_resources()

    assert "</" not in loaded.script
    assert "<!--" not in loaded.script
    assert "</" not in loaded.style
