"""Errors of CRI calls: one function for each kind, so that codes and texts are the same everywhere."""

from interpose.net.grpc.status import Code, RpcError
from interpose.node.runtime.oci.spec_types import SpecError


def not_found(kind: str, object_id: str) -> RpcError:
    """No such sandbox, container or image."""
    return RpcError(Code.NOT_FOUND, f'an error occurred when try to find {kind} "{object_id}": not found')


def ambiguous(kind: str, start: str) -> RpcError:
    """A prefix of several ids. Not NOT_FOUND, which a client that removes takes for success."""
    return RpcError(Code.INVALID_ARGUMENT, f"several {kind} ids begin with '{start}'")


def empty_id(field: str) -> RpcError:
    """An id that is missing in the request."""
    return RpcError(Code.INVALID_ARGUMENT, f"{field} must not be empty")


def invalid(field: str, problem: str) -> RpcError:
    """A bad value in a request, by the name of its field."""
    return RpcError(Code.INVALID_ARGUMENT, f"{field}: {problem}")


def invalid_spec(field: str, error: SpecError) -> RpcError:
    """A configuration without a valid OCI specification; `field` is the name in the request."""
    return invalid(field, str(error).removeprefix(f"{error.where}: "))


def wrong_state(message: str) -> RpcError:
    """The object exists, but its state does not allow the call."""
    return RpcError(Code.FAILED_PRECONDITION, message)


def reserved(kind: str, name: str, owner: str) -> RpcError:
    """A name that is reserved for another object."""
    return RpcError(
        Code.ALREADY_EXISTS, f'failed to reserve {kind} name "{name}": name "{name}" is reserved for "{owner}"'
    )


def unsupported(feature: str) -> RpcError:
    """A feature that this runtime does not have."""
    return RpcError(Code.UNIMPLEMENTED, f"{feature}: not supported by this runtime")


def failed_with_reason(reason: str, error: object) -> RpcError:
    """A failure that kubelets recognise by the reason at the beginning of its text."""
    return RpcError(Code.UNKNOWN, f"{reason}: {error}")


def failed(action: str, error: object) -> RpcError:
    """An error on the node, with its own text."""
    return RpcError(Code.UNKNOWN, f"failed to {action}: {error}")
