#!/usr/bin/env bash
# Builds the CPU plug against the newest torch on PyPI and runs its tests. Prints what stops it. The CUDA plug is left out: it
# is built for one minor (2.12 added a pure virtual, attachOomRejectionObserver), and torch_minor.hpp says so to the compiler.
# CISTERN_TRY_TORCH="torch==2.12.0" tries that one. Downloads about 0.6 GB into a temporary folder.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d "${TMPDIR:-/var/tmp}/cistern-newest.XXXXXX")
trap 'rm -rf "$work"' EXIT
stopped() { echo "newest_torch: stopped by $1" >&2; [ $# -lt 2 ] || grep -E 'error|Error|not found|\*\*\*Failed' "$2" | head -n 20 >&2; exit 1; }
install() { "$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-deps "$@" || stopped "pip install $*"; }

/usr/bin/python3 -m venv "$work/venv"
install "${CISTERN_TRY_TORCH:-torch}"
torch=$(echo "$work"/venv/lib/python3*/site-packages/torch)

# As in tools/setup.sh: of NVIDIA's wheels, what libtorch_cpu needs and the loader has not.
while read -r library; do
    case $library in
        libcudart.so.*) install "nvidia-cuda-runtime==${library##*.}.*" ;;
        libcupti.so.*) install "nvidia-cuda-cupti==${library##*.}.*" ;;
        *) stopped "the library $library, which libtorch_cpu now needs" ;;
    esac
done < <(ldd "$torch/lib/libtorch_cpu.so" | awk '/not found/ { print $1 }' | sort -u)

echo "newest_torch: $(grep -oE '[0-9]+\.[0-9]+\.[0-9]+' "$torch/version.py" | head -n 1)"
cmake --preset full -B "$work/build" -DCISTERN_WITH_APPS=OFF -DCISTERN_WITH_CUDA=OFF -DCISTERN_TORCH="$torch" >"$work/log" 2>&1 || stopped "cmake" "$work/log"
cmake --build "$work/build" --target c10_cpu_test >"$work/log" 2>&1 || stopped "the compiler" "$work/log"
OMP_NUM_THREADS=1 ctest --test-dir "$work/build" -R '^c10_cpu_test' -j "$(nproc)" --output-on-failure >"$work/log" 2>&1 \
    || { cat "$work/log"; stopped "tests that fail" "$work/log"; }
grep "tests passed" "$work/log"
