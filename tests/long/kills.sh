#!/usr/bin/env bash
# Kills a training run with SIGKILL at 60 moments (CISTERN_KILLS), while it saves and records, and resumes it each time.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake --preset release >/dev/null
cmake --build --preset release --target cistern-train cistern_program
exec tests/long/kills.py build/release/bin "${CISTERN_KILLS:-60}"
