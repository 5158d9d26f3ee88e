"""What is hidden in dumps and recordings: the meaning of `--dump-redact`.

A comma separated list, read from left to right: `default`, `strict`, `env:GLOB`, `annotation:GLOB`, `label:GLOB`,
`command`, `options`, `output`, `unknown`. A `-` in front takes an item away again (`default,-env:PATH`); of items that
match the same key the last one counts. A list that begins with `-` begins with the default. `none` stands alone. Globs
match without regard to case.

Pure. Credentials (registry passwords, tokens of streaming URLs, request metadata) have no item: they are hidden unless
all is shown.
"""

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Final

from interpose.errors import ConfigError

NONE: Final = "none"
# Words in names whose values nobody should read in a log, without what may stand between their parts.
SECRET_WORDS: Final = (
    *("password", "passwd", "passphrase", "secret", "token", "bearer", "credential"),
    *("apikey", "accesskey", "privatekey", "dockerconfig", "kubeconfig"),
)
_WORDS: Final = (*SECRET_WORDS, "api?key", "access?key", "private?key")
# Holds the whole manifest, environment included.
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

# Variables by which containers ask for CPUs: a recording without them could not be decided about again.
_ASKING: Final = ("STP_*", "CMK_*")

_DEFAULT: Final = (
    "env:*",
    *(f"-env:{glob}" for glob in _ASKING),
    *(f"{kind}:*{word}*" for kind in ("annotation", "label") for word in _WORDS),
    f"annotation:{LAST_APPLIED}",
    "output",
)
# Labels that say which pod it is stay.
_STRICT: Final = ("annotation:*", "label:*", "-label:io.kubernetes.*", *_DEFAULT, "command", "options", "unknown")
_SETS: Final = {"default": _DEFAULT, "strict": _STRICT}
_GLOBS: Final = ("env", "annotation", "label")
_SWITCHES: Final = ("command", "options", "output", "unknown")
_ITEMS: Final = ", ".join((*_SETS, NONE, *(f"{kind}:GLOB" for kind in _GLOBS), *_SWITCHES))


@dataclass(frozen=True)  # no slots: expressions are compiled when first needed
class Globs:
    """Which keys: globs with what they say, hide or show. The last that matches counts; none: show."""

    rules: tuple[tuple[str, bool], ...] = ()

    def hides(self, key: str) -> bool:
        """Whether the value of this key is hidden."""
        return next((hide for pattern, hide in self._newest_first if pattern.match(key)), False)

    @cached_property
    def _newest_first(self) -> tuple[tuple[re.Pattern[str], bool], ...]:
        """Neighbours that say the same are one expression."""
        runs = [(hide, [glob for glob, _hide in run]) for hide, run in groupby(self.rules, key=lambda rule: rule[1])]
        return tuple(
            (re.compile("|".join(map(fnmatch.translate, globs)), re.IGNORECASE), hide) for hide, globs in reversed(runs)
        )


@dataclass(frozen=True, kw_only=True)
class Redaction:
    """What is hidden. `nothing`: not even credentials."""

    nothing: bool = False
    env: Globs = field(default_factory=Globs)
    annotation: Globs = field(default_factory=Globs)
    label: Globs = field(default_factory=Globs)
    command: bool = False  # command lines
    options: bool = False  # of mounts and checkpoints, also those that do not sound secret
    output: bool = False  # what commands wrote
    unknown: bool = False  # fields that this version does not know, also where no secrets are expected


SHOW_ALL: Final = Redaction(nothing=True)


def parse_redaction(text: str, where: str = "--dump-redact") -> Redaction:
    """Read the list. ConfigError names every item that cannot be used."""
    items = [item.strip() for item in text.split(",")]
    if [item.lower() for item in items] == [NONE]:
        return SHOW_ALL
    if items[0].startswith("-"):
        items.insert(0, "default")
    problems = [f"{where}: {text!r}: {problem}" for problem in map(_problem, items) if problem]
    if problems:
        raise ConfigError(problems)
    return _redaction([rule for item in items for rule in _SETS.get(item.lower(), (item,))])


def _problem(item: str) -> str:
    name, colon, glob = item.removeprefix("-").partition(":")
    name = name.strip().lower()
    if not item:
        return "an empty item"
    if name == NONE:
        return f"{item!r} must stand alone, it shows everything"
    if item.startswith("-") and name in _SETS:
        return f"{item!r} takes a whole set away, use {NONE!r} alone or name what may be seen"
    if name in _GLOBS:
        return "" if glob.strip() else f"{item!r} needs a name or glob, as in {name + ':*'!r}"
    return "" if not colon and (name in _SETS or name in _SWITCHES) else f"unknown item {item!r} (known: {_ITEMS})"


def _redaction(items: Sequence[str]) -> Redaction:
    globs: dict[str, list[tuple[str, bool]]] = {kind: [] for kind in _GLOBS}
    switches = dict.fromkeys(_SWITCHES, False)
    for item in items:
        name, _colon, glob = item.removeprefix("-").partition(":")
        name, hide = name.strip().lower(), not item.startswith("-")
        if name in globs:
            globs[name].append((glob.strip(), hide))
        else:
            switches[name] = hide
    return Redaction(
        env=Globs(tuple(globs["env"])),
        annotation=Globs(tuple(globs["annotation"])),
        label=Globs(tuple(globs["label"])),
        **switches,
    )
