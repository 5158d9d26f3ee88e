#!/usr/bin/env bash
# All tests: test.sh BIN [PYTEST-OPTIONS]. The pure package first, with its branch coverage; the slow ones last.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$1
shift

echo "== HTTP/2 engine: unit and property tests, branch coverage 100%"
"$bin/coverage" erase
"$bin/coverage" run -m pytest -q -W error "$@" tests/unit/h2 tests/property
"$bin/coverage" report --skip-covered --fail-under=100

echo "== everything else: unit, integration, end to end"
rest=()
for folder in tests/unit/*; do
    case $folder in
        */h2 | */__pycache__) ;;
        *) rest+=("$folder") ;;
    esac
done
"$bin/python" -m pytest -q -rs -W error "$@" "${rest[@]}" tests/integration tests/e2e
