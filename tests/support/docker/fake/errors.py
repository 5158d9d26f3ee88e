"""What the Docker API answers when it does not do what it was asked."""


class DockerError(Exception):
    """Becomes an answer with this status and a document with the message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def no_such_container(ref: str) -> DockerError:
    """The container that was named is not there."""
    return DockerError(404, f"No such container: {ref}")
