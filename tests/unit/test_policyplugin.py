"""The stable interface for policies of others."""

from interpose import policyplugin

# A name that is missing here was added; a name that is only here was taken away from packages that use it.
NAMES = """
    Action Amounts AnnotationScope ConfigError CpuSet Decision Grant Key KubeQos Policy PolicyAnnotation PolicyState
    Refusal RefusalKind Request RequestSource Setup Topology TopologyHint find_annotation parse_machine
"""


def test_names_stay() -> None:
    """Each can be imported."""
    assert set(policyplugin.__all__) == set(NAMES.split())
    assert all(hasattr(policyplugin, name) for name in policyplugin.__all__)


def test_what_policies_have_and_call_stays() -> None:
    """Attributes and methods of the page."""
    for name in ("name", "state", "fallback", "notes", "allocate", "resize", "release", "pools"):
        assert hasattr(policyplugin.Policy, name)
    for name in ("pools", "grants", "pool", "members", "assignment", "set_pool", "put", "drop", "changes"):
        assert hasattr(policyplugin.PolicyState, name)
