"""Errors as CRI wants them: one function for each kind, so that codes and words are the same everywhere."""

from interpose.net.grpc.status import Code, RpcError
from interpose.node.runtime.oci.spec_types import SpecError


def not_found(kind: str, object_id: str) -> RpcError:
    """No such sandbox, container or image."""
    return RpcError(Code.NOT_FOUND, f'an error occurred when try to find {kind} "{object_id}": not found')


def ambiguous(kind: str, start: str) -> RpcError:
    """The start of an id that several have. Not NOT_FOUND: whoever removes takes that as done."""
    return RpcError(Code.INVALID_ARGUMENT, f"several {kind} ids begin with '{start}'")


def empty_id(field: str) -> RpcError:
    """An id that was not given."""
    return RpcError(Code.INVALID_ARGUMENT, f"{field} must not be empty")


def invalid(field: str, why: str) -> RpcError:
    """A bad value in a request, by the name of its field."""
    return RpcError(Code.INVALID_ARGUMENT, f"{field}: {why}")


def unfit(field: str, error: SpecError) -> RpcError:
    """A configuration that cannot be carried out; `field` is the error's in the words of the request."""
    return invalid(field, str(error).removeprefix(f"{error.where}: "))


def wrong_state(what: str) -> RpcError:
    """The object is there, but not in a state for this."""
    return RpcError(Code.FAILED_PRECONDITION, what)


def reserved(kind: str, name: str, owner: str) -> RpcError:
    """A name that another object has."""
    return RpcError(
        Code.ALREADY_EXISTS, f'failed to reserve {kind} name "{name}": name "{name}" is reserved for "{owner}"'
    )


def unsupported(what: str) -> RpcError:
    """What this runtime does not have."""
    return RpcError(Code.UNIMPLEMENTED, f"{what}: not supported by this runtime")


def reasoned(reason: str, words: object) -> RpcError:
    """A failure that kubelets know by the word at the beginning of its text."""
    return RpcError(Code.UNKNOWN, f"{reason}: {words}")


def failed(doing: str, error: object) -> RpcError:
    """Something on the node went wrong; with the words of whoever refused."""
    return RpcError(Code.UNKNOWN, f"failed to {doing}: {error}")
