"""Label selectors as kubectl reads them: requirements with commas between them, all of which have to be met. Pure.

app=web  app==web  app!=web  app in (web,db)  app notin (web)  app  !app  weight>3  weight<3
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from interpose.core.model.text import quoted

# Texts: they are compiled when a selector is read, not at import.
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"
_KEY: Final = rf"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?{_NAME}"
_VALUE: Final = rf"(?:{_NAME})?"
_LONGEST: Final = 63
_LONGEST_PREFIX: Final = 253
_WHOLE: Final = r"-?[0-9]{1,18}"
_COMMA: Final = r",(?![^(]*\))"  # not those between the values of a set
_SET: Final = r"(\S+?)\s+(in|notin)\s*\(([^()]*)\)"
_COMPARISON: Final = r"([^=!<>\s]+)\s*(==|=|!=|<|>)\s*([^=!<>\s]*)"
_PRESENCE: Final = r"(!?)\s*([^=!<>\s()]+)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A condition on one label. `operator` is that of the text, with = for ==, `exists` for a key alone and ! for one
    that must not be there."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet this requirement."""
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "=" | "in":
                return value in self.values
            case "!=" | "notin":
                return value not in self.values
        if value is None or not re.fullmatch(_WHOLE, value):
            return False
        (bound,) = self.values
        return int(value) > int(bound) if self.operator == ">" else int(value) < int(bound)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements; none of them select everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet all requirements."""
        return all(requirement.matches(labels) for requirement in self.requirements)


def parse_label_selector(text: str) -> LabelSelector:
    """The selector that a text is; ValueError names the part that is wrong."""
    if not text.strip():
        return LabelSelector()
    return LabelSelector(tuple(_requirement(part.strip()) for part in re.split(_COMMA, text)))


def _requirement(part: str) -> Requirement:
    if found := re.fullmatch(_SET, part):
        values = frozenset(_value(value.strip(), part) for value in found[3].split(","))
        return Requirement(key=_key(found[1], part), operator=found[2], values=values)
    if found := re.fullmatch(_COMPARISON, part):
        operator = "=" if found[2] == "==" else found[2]
        value = _value(found[3], part)
        if operator in "<>" and not re.fullmatch(_WHOLE, value):
            raise ValueError(f"{quoted(part)}: {quoted(value)} is no whole number")
        return Requirement(key=_key(found[1], part), operator=operator, values=frozenset((value,)))
    if found := re.fullmatch(_PRESENCE, part):
        return Requirement(key=_key(found[2], part), operator="!" if found[1] else "exists")
    raise ValueError(f"{quoted(part)} is not a requirement such as app=web, app!=web, app in (web,db), app or !app")


def _key(key: str, part: str) -> str:
    prefix, _, name = key.rpartition("/")
    if not re.fullmatch(_KEY, key) or len(name) > _LONGEST or len(prefix) > _LONGEST_PREFIX:
        raise ValueError(f"{quoted(part)}: {quoted(key)} is no key of a label")
    return key


def _value(value: str, part: str) -> str:
    if not re.fullmatch(_VALUE, value) or len(value) > _LONGEST:
        raise ValueError(f"{quoted(part)}: {quoted(value)} is no value of a label")
    return value
