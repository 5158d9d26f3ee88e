"""The `filters` parameter of the Docker API: `{"label": ["a=b"]}`, or the older `{"label": {"a=b": true}}`."""

import json
from collections.abc import Mapping, Sequence

from tests.support.docker.fake.errors import DockerError

Filters = Mapping[str, Sequence[str]]


def parse(text: str, allowed: frozenset[str]) -> Filters:
    """What the parameter says; errors are dockerd's."""
    if not text:
        return {}
    try:
        document = json.loads(text)
    except ValueError:
        raise DockerError(500, "unexpected end of JSON input") from None
    found = {key: [value for value in values] for key, values in document.items()}  # noqa: C416 - a list or a mapping
    for key in found:
        if key not in allowed:
            raise DockerError(400, f"Invalid filter '{key}'")
    return found


def labels_match(filters: Filters, labels: Mapping[str, str]) -> bool:
    """All labels of the filter are there: `name`, or `name=value`."""
    for wanted in filters.get("label", ()):
        name, equals, value = wanted.partition("=")
        if name not in labels or (equals and labels[name] != value):
            return False
    return True


def one_of(filters: Filters, key: str, *values: str) -> bool:
    """One of the values is named, or the filter has nothing to say about it."""
    return key not in filters or any(value in filters[key] for value in values)


def part_of(filters: Filters, key: str, value: str) -> bool:
    """Something named is a part of the value (Docker takes regular expressions; plain text is enough here)."""
    return key not in filters or any(part.strip("^$") in value for part in filters[key])


def begins(filters: Filters, key: str, value: str) -> bool:
    """The value begins with something named."""
    return key not in filters or any(value.startswith(part) for part in filters[key])
