"""The generated CRI classes, imported when the first intercepted call needs them: they cost 7 MB."""

from functools import lru_cache
from typing import Any

from interpose.cri.errors import UnreadableMessageError


class CriParser:
    """Parses one kind of CRI message. The same classes serve v1 and v1alpha2."""

    __slots__ = ("_name", "_type")

    def __init__(self, name: str) -> None:
        self._name = name
        self._type: Any = None

    def parse(self, data: bytes) -> Any:
        """The message; unknown fields stay in it."""
        if self._type is None:
            self._type = _class_of(self._name)
        try:
            return self._type.FromString(data)
        except Exception as error:  # DecodeError, whose class would need the import here
            raise UnreadableMessageError(f"not a {self._name}: {error}") from error

    def serialize(self, message: Any) -> bytes:
        """Deterministic, so that equal content gives equal bytes."""
        data: bytes = message.SerializeToString(deterministic=True)
        return data


@lru_cache(maxsize=256)
def _class_of(name: str) -> Any:
    from interpose._pb import cri_pb2

    return getattr(cri_pb2, name)
