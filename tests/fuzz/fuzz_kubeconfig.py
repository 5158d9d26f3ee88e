"""Fuzz the reader of kubeconfig files: bytes of all kinds are an access or an error that names the file.

    python tests/fuzz/fuzz_kubeconfig.py --seconds 60 [--seed 7] [--crashes FOLDER]
    python tests/fuzz/fuzz_kubeconfig.py --replay crash-kubeconfig-0123abcd.yaml

Inputs are mutations of one file that has every key, from a seed that is printed. A broken promise is written to a
file, named, and the exit code is 1.
"""

import re
import sys
import tempfile
from pathlib import Path

from interpose.errors import ConfigError
from interpose.kube.client.kubeconfig import find_access
from tests.support.fuzz.text import Target, run

SECRET = "verysecretvalue"
SAMPLE = f"""\
apiVersion: v1
kind: Config
current-context: one
preferences: {{}}
contexts:
- name: one
  context: {{cluster: here, user: me, namespace: ns}}
- name: two
  context: {{cluster: here, user: program}}
clusters:
- name: here
  cluster:
    server: https://[::1]:6443/prefix
    certificate-authority: ca.crt
    tls-server-name: kubernetes
    proxy-url: http://proxy:3128
users:
- name: me
  user:
    token: {SECRET}
    tokenFile: token
    client-certificate: tls.crt
    client-key: tls.key
- name: program
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: get-token
      args: [--cluster, here, --password, {SECRET}]
      env: [{{name: A, value: {SECRET}}}]
      interactiveMode: Never
      provideClusterInfo: true
"""
PLACES = re.compile(rf"(token: |--password, |name: A, value: ){SECRET}".encode())
# Pieces that mean something to the reader, whole and broken.
PIECES = [
    *(
        "current-context: two\n",
        "server: http://a:1\n",
        "server: ftp://x\n",
        "server: https://u:p@h\n",
        "insecure-skip-",
    ),
    *("insecure-skip-tls-verify: true\n", "certificate-authority-data: AAAA\n", "auth-provider: {}\n", "as: root\n"),
    *("username: a\n", "password: b\n", "user: nobody\n", "cluster: nowhere\n", "exec: {}\n", "contexts: {}\n"),
    *("&a ", "*a", "<<: *a", "!!python/object:x ", "!t ", "---\n", "? ", "| \n", "> \n", "%YAML 9\n", "\t"),
    *("{", "}", "[", "]", ",", ":", "\n", "\n  ", "null", "~", "true", "1e999", "0x1", "- ", "..", "//", "@", "%00"),
    *("9" * 5000, "[" * 3000, "{a: " * 3000, "\ufeff", '"\\ud800"', '"\\u0000"', "\0", "\x1b[2J", "\x85", "x" * 300),
]


class Promises:
    """Reads files of its own folder, as the program does."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "kubeconfig"

    def check(self, data: bytes, _suffix: str) -> None:
        """The promises: an access that does not show its secrets, or problems that name the file and show none."""
        self._path.write_bytes(data)
        try:
            said = [repr(find_access(str(self._path), {}))]
        except ConfigError as error:
            said = error.problems
            assert all(str(self._path) in problem for problem in said), f"does not name the file: {said!r:.300}"
        # A mutation may make a secret the name of something.
        in_its_place = SECRET.encode() not in PLACES.sub(b"", data)
        for text in said:
            assert SECRET not in text or not in_its_place, f"shows a secret: {text!r:.300}"
            assert text.isprintable(), f"would move the cursor: {text!r:.300}"


def main() -> int:
    """Fuzz it."""
    with tempfile.TemporaryDirectory() as scratch:
        sample = Path(scratch) / "sample.yaml"
        sample.write_text(SAMPLE)
        check = Promises(Path(scratch)).check
        return run(Target(name="kubeconfig", check=check, samples=[sample], pieces=PIECES), __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
