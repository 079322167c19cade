#!/usr/bin/env bash
# One command on a fresh machine: installs, builds, and trains on MNIST under four strategies with the same seed.
# Arguments go to cistern-train: tools/demo.sh --epochs 1
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
cmake --preset release
cmake --build --preset release
exec build/release/bin/cistern-train --data data/mnist --compare growth,geometric,preallocate,system "$@"
