"""Fuzz the webhook: whatever is sent, the answer is a review or a refusal, and its patch can be applied.

    python tests/fuzz/fuzz_reviews.py --seconds 60 [--seed 7] [--crashes FOLDER]
    python tests/fuzz/fuzz_reviews.py --replay crash-reviews-0123abcd.json

Inputs are mutations of the reviews that tests hold answers for, from a seed that is printed. A broken promise is
written to a file, named, and the exit code is 1.
"""

import base64
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from interpose.kube.webhook.review import AnnotationRules, BadReviewError, review
from interpose.resmgr.container_request import read_annotation
from tests.support.apiserver.patch.json_patch import apply_json_patch
from tests.support.fuzz.text import Target, run

GOLDEN = Path(__file__).resolve().parents[1] / "unit/kube/webhook/golden"
HUGE = 100_000
KEY = "intel.com/resources"
# Pieces that mean something to the reader, whole and broken.
PIECES = [
    *('"uid": "1", ', '"kind": "AdmissionReview", ', '"apiVersion": "admission.k8s.io/v1beta1", ', '"request": {'),
    *('"operation": "UPDATE", ', '"operation": 1, ', '"dryRun": true, ', '"object": null, ', '"oldObject": {}, '),
    *(
        '"subResource": "resize", ',
        '"annotations": null, ',
        '"annotations": {}, ',
        f'"{KEY}": "{{}}", ',
        '"spec": {}, ',
    ),
    *('"containers": [], ', '"containers": {}, ', '"name": "a", ', '"name": null, ', '"resources": {}, '),
    *(
        '"requests": {"cpu": 1}, ',
        '"limits": {"cpu": "1e3"}, ',
        '"requests": [], ',
        '"cpu": "-1", ',
        '"memory": 1e999, ',
    ),
    *("{", "}", "[", "]", ",", ":", '"', "null", "true", "NaN", "-Infinity", "1e999", "0x1", "-0", "1.5"),
    *("9" * 5000, "[" * 3000, '{"a":' * 3000, "\ufeff", '"\\ud800"', '"\\u0000"', "\0", "~1", "~0", "/", "x" * 300),
]


def check(data: bytes, _suffix: str) -> None:
    """The promises: a refusal in words, or a response about the same request whose patch leaves a readable pod."""
    try:
        answer = review(data, AnnotationRules())
    except BadReviewError as refusal:
        if not str(refusal):
            raise AssertionError("refused without a reason") from refusal
        return
    sent: Any = json.loads(data, parse_int=str)  # some numbers are too long for Python
    got: Any = json.loads(answer.body)
    assert got["response"]["uid"] == sent["request"]["uid"]
    assert got["response"]["allowed"] is True
    assert got["kind"] == "AdmissionReview"
    if "patch" in got["response"]:
        pod = apply_json_patch(sent["request"]["object"], json.loads(base64.b64decode(got["response"]["patch"])))
        found = read_annotation(pod["metadata"]["annotations"])
        assert found is not None or KEY not in pod["metadata"]["annotations"]


def main() -> int:
    """Fuzz it."""
    with tempfile.TemporaryDirectory() as scratch:
        samples = []
        for golden in sorted(GOLDEN.glob("*.json")):
            text = json.dumps(json.loads(golden.read_text())["request"], indent=1)
            if len(text) < HUGE:
                samples.append(Path(scratch) / golden.name)
                samples[-1].write_text(text)
        return run(Target(name="reviews", check=check, samples=samples, pieces=PIECES), __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
