#!/usr/bin/env bash
# Every planted bug must be caught: see tools/run_mutants.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec tools/run_mutants.sh
