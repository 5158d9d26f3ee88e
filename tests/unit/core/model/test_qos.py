"""The class of a pod is what its label says, exactly."""

import pytest

from interpose.core.model.qos import QOS_LABEL, QosClass, qos_of


@pytest.mark.parametrize("name", ["LSE", "LSR", "LS", "BE", "SYSTEM"])
def test_the_label_names_the_class(name: str) -> None:
    """There are five classes, from LSE to SYSTEM."""
    assert qos_of({QOS_LABEL: name}) is QosClass(name)


@pytest.mark.parametrize("labels", [{}, {QOS_LABEL: ""}, {QOS_LABEL: "ls"}, {QOS_LABEL: "Gold"}, {"qosClass": "LS"}])
def test_everything_else_is_no_class(labels: dict[str, str]) -> None:
    """A value in another case is another value."""
    assert qos_of(labels) is None
