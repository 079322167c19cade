#!/usr/bin/env bash
# tools/convert over files that TensorFlow writes: TF-Hub's SavedModel, its archive, TF-slim's checkpoint.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec .venv-convert/bin/python tests/convert/tensorflow_test.py -v
