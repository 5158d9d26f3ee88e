"""Messages of the hook protocol, generated into `interpose._pb`."""

from interpose._pb.hook_pb2 import *  # noqa: F403
from interpose._pb.hook_pb2 import DESCRIPTOR as DESCRIPTOR
