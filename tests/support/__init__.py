"""What tests stand on, and nothing that is installed with interpose."""

import interpose.testing  # noqa: F401 - keeps grpcio from running handlers in children, before anything imports grpc
