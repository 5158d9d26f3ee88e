"""What an agent sends, as it is kept: before it is read, and for the next start."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A configuration as an agent sends it: YAML texts by key, and the node that it takes us for."""

    node_name: str = ""
    data: Mapping[str, str] = field(default_factory=dict)
