"""The names systemd gives to cgroups that hold others. Pure."""

from typing import Final

SUFFIX: Final = ".slice"


def slice_path(name: str) -> str:
    """Where systemd puts a slice: each dash is a level (`a-b.slice` is `/a.slice/a-b.slice`).

    What is not a name of a slice is returned as it is.
    """
    stem = name.removesuffix(SUFFIX)
    if stem == name or not stem.strip("-"):
        return name
    words = stem.split("-")
    return "".join(f"/{'-'.join(words[: count + 1])}{SUFFIX}" for count in range(len(words)))
