#!/usr/bin/env bash
# Pairs the trainer with torch's own allocator, tcmalloc, PyTorch in Python and Keras, and holds it to its targets.
# Peers that are not installed are reported. Wants a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake --preset release >/dev/null
cmake --build --preset release --target cistern-train
exec python3 tests/perf/train_pairs.py build/release/bin/cistern-train
