#!/usr/bin/env bash
# Holds the hit path to its targets in nanoseconds. Wants a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake --preset dev >/dev/null
cmake --build --preset dev --target hit_path_benchmark threads_benchmark cistern_program
exec tests/perf/check_hit_path.py build/dev/bin
