#!/usr/bin/env bash
# The demo, cut to one epoch, on a bare Debian. Wants root; tools/test.sh --long installs debootstrap.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec tools/try_fresh.sh tools/demo.sh --epochs 1
