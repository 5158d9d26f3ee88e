"""Facts a specification is made of."""

from interpose.cri.messages import cri
from interpose.node.runtime.oci import spec_types as specfacts
from interpose.node.runtime.oci.spec_types import SpecError


def test_an_error_names_its_field() -> None:
    """For people in the text, for programs as a value."""
    error = SpecError("mounts[0]", "is odd")
    assert (error.where, str(error)) == ("mounts[0]", "mounts[0]: is odd")


def test_numbers_are_those_of_the_protocol() -> None:
    """They are written down here so that deciding needs no generated classes."""
    modes = (specfacts.MODE_POD, specfacts.MODE_CONTAINER, specfacts.MODE_NODE, specfacts.MODE_TARGET)
    assert modes == tuple(map(cri.NamespaceMode.Value, ("POD", "CONTAINER", "NODE", "TARGET")))
    assert specfacts.PROPAGATION_HOST_TO_CONTAINER == cri.MountPropagation.PROPAGATION_HOST_TO_CONTAINER
    assert specfacts.PROPAGATION_BIDIRECTIONAL == cri.MountPropagation.PROPAGATION_BIDIRECTIONAL
    kinds = cri.SecurityProfile
    assert kinds.RuntimeDefault == specfacts.PROFILE_RUNTIME_DEFAULT
    assert kinds.Unconfined == specfacts.PROFILE_UNCONFINED
    assert kinds.Localhost == specfacts.PROFILE_LOCALHOST
