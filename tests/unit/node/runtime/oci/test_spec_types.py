"""Facts a specification is made of."""

from interpose.cri.messages import cri
from interpose.node.runtime.oci import spec_types
from interpose.node.runtime.oci.spec_types import SpecError


def test_an_error_names_its_field() -> None:
    """For people in the text, for programs as a value."""
    error = SpecError("mounts[0]", "is odd")
    assert (error.where, str(error)) == ("mounts[0]", "mounts[0]: is odd")


def test_numbers_are_those_of_the_protocol() -> None:
    """They are written down here so that deciding needs no generated classes."""
    modes = (spec_types.MODE_POD, spec_types.MODE_CONTAINER, spec_types.MODE_NODE, spec_types.MODE_TARGET)
    assert modes == tuple(map(cri.NamespaceMode.Value, ("POD", "CONTAINER", "NODE", "TARGET")))
    assert spec_types.PROPAGATION_HOST_TO_CONTAINER == cri.MountPropagation.PROPAGATION_HOST_TO_CONTAINER
    assert spec_types.PROPAGATION_BIDIRECTIONAL == cri.MountPropagation.PROPAGATION_BIDIRECTIONAL
    kinds = cri.SecurityProfile
    assert kinds.RuntimeDefault == spec_types.PROFILE_RUNTIME_DEFAULT
    assert kinds.Unconfined == spec_types.PROFILE_UNCONFINED
    assert kinds.Localhost == spec_types.PROFILE_LOCALHOST
