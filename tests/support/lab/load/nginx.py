"""nginx as a backend that answers every call with one large static gRPC message over h2c on a unix socket.

nginx refuses POST to a file with 405; `error_page` turns that into an internal GET of the file and status 200, so the
reply costs no script and no second server.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.support.lab.processes import Child, missing_programs

if TYPE_CHECKING:
    from pathlib import Path

MEGABYTE = 1024 * 1024

# keepalive_requests: its default of 1000 would end the connection with GOAWAY in the middle of a run.
CONFIG = """\
daemon off;
user root;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log warn;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  keepalive_requests 1000000000;
  keepalive_timeout 1h;
  http2_max_concurrent_streams 1000;
  http2_chunk_size 16k;
  types {{ }}
  default_type application/grpc;
  server {{
    listen unix:{listen} http2;
    root {folder};
    location / {{
      error_page 405 =200 /reply;
      try_files /reply =404;
    }}
    location = /reply {{
      internal;
      add_trailer grpc-status 0;
    }}
  }}
}}
"""


def missing() -> str | None:
    """Why it can not run here, or None."""
    return missing_programs("nginx", root=True)


def grpc_body(size: int) -> bytes:
    """One uncompressed gRPC message of this many bytes, with its prefix."""
    return struct.pack(">BI", 0, size) + bytes(size)


def start(folder: Path, listen: Path, size: int = MEGABYTE) -> Child:
    """Start it; ready when `listen` accepts."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reply").write_bytes(grpc_body(size))
    config = folder / "nginx.conf"
    config.write_text(CONFIG.format(folder=folder, listen=listen))
    # -e: before the configuration is read nginx logs to a system folder.
    child = Child(["nginx", "-e", str(folder / "nginx.log"), "-c", str(config)], log=folder / "nginx.log")
    child.wait_listening(listen)
    return child
