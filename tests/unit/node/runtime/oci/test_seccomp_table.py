"""Facts about system calls."""

from interpose.node.runtime.oci.seccomp import ALLOWED, ARCHITECTURES, BY_CAPABILITY, BY_MACHINE


def test_names_look_like_system_calls() -> None:
    """Small letters, digits, underscores."""
    names = [*ALLOWED, *(n for group in (BY_CAPABILITY, BY_MACHINE) for more in group.values() for n in more)]
    assert all(name.replace("_", "a").isalnum() and name == name.lower() for name in names)


def test_a_machine_has_its_own_architecture_first() -> None:
    """That is by which it is recognised: no two share it."""
    first = [names[0] for names in ARCHITECTURES.values()]
    assert len(first) == len(set(first))
