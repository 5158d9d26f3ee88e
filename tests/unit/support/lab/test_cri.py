"""The CRI client's knowledge of methods."""

from __future__ import annotations

import pytest

from interpose._pb import cri_pb2
from tests.support.lab.cri import message_classes, service_of


def test_methods_find_their_service_and_messages() -> None:
    """A bare method name is enough, for both services."""
    assert service_of("RunPodSandbox") == "RuntimeService"
    assert service_of("ListImages") == "ImageService"
    assert message_classes("Version") == (cri_pb2.VersionRequest, cri_pb2.VersionResponse)


def test_an_unknown_method_is_named() -> None:
    """A typo in a test says so."""
    with pytest.raises(ValueError, match="'RunPod'"):
        service_of("RunPod")
