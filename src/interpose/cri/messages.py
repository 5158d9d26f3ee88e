"""The door to the generated CRI classes for those who speak CRI all the time: runtime manager and runtime.

Who only now and then looks into a call uses `cri.parser`, which imports them late.
"""

from interpose._pb import cri_pb2 as cri

__all__ = ["cri"]
