#!/usr/bin/env bash
# Fuzzes the configuration grammar, the readers of traces and recordings, and allocator programs, CISTERN_FUZZ_SECONDS (120)
# each, under the address and undefined-behaviour sanitizers. What it learns goes to build/fuzz/corpus; what it finds stops it.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${CISTERN_FUZZ_SECONDS:-120}

compiler=${CISTERN_FUZZ_COMPILER:-clang++-14}
command -v "$compiler" >/dev/null || compiler=clang++
mkdir -p build
cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_CXX_FLAGS="-fsanitize=fuzzer-no-link" -DCISTERN_SANITIZE=address -DCISTERN_FUZZ=ON >build/fuzz.log
cmake --build build/fuzz --target config_fuzz trace_fuzz import_fuzz program_fuzz

for name in config trace import program; do
    mkdir -p "build/fuzz/corpus/$name"
    echo "fuzzing $name for $seconds s"
    "build/fuzz/bin/${name}_fuzz" -max_total_time="$seconds" -timeout=10 -max_len=4096 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/$name-" "build/fuzz/corpus/$name" "tests/fuzz/corpus/$name" 2>&1 | tail -n 12
done
