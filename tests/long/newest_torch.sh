#!/usr/bin/env bash
# Builds the plugs against the newest torch on PyPI and runs their tests, those over the fake CUDA runtime included. Prints
# what stops it. CISTERN_TRY_TORCH="torch==2.12.0" tries that one. Downloads about 3 GB into a temporary folder.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d "${TMPDIR:-/var/tmp}/cistern-newest.XXXXXX")
trap 'rm -rf "$work"' EXIT
stopped() { echo "newest_torch: stopped by $1" >&2; [ $# -lt 2 ] || grep -E 'error|Error|not found|\*\*\*Failed' "$2" | head -n 20 >&2; exit 1; }

/usr/bin/python3 -m venv "$work/venv"
wanted=${CISTERN_TRY_TORCH:-torch}
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir "$wanted" numpy==2.4.6 || stopped "pip install $wanted"
torch=$(echo "$work"/venv/lib/python3*/site-packages/torch)
version=$(grep -oE '[0-9]+\.[0-9]+\.[0-9]+' "$torch/version.py" | head -n 1)

# What torch's own allocator does in that minor is not ours to test: the comparisons were made with 2.11.
tests=(c10_cpu_test c10_cuda_test c10_cuda_torch_test c_abi_beside_plug_test c10_host_test cuda_memory_test faults_test)
cmake --preset full -B "$work/build" -DCISTERN_WITH_APPS=OFF -DCISTERN_TORCH="$torch" >"$work/log" 2>&1 || stopped "cmake" "$work/log"
cmake --build "$work/build" --target "${tests[@]}" cistern_c_abi fake_cudart fake_cuda >"$work/log" 2>&1 ||
    stopped "the compiler, with torch $version" "$work/log"
OMP_NUM_THREADS=1 ctest --test-dir "$work/build" -j "$(nproc)" --output-on-failure \
    -R "^($(IFS='|'; echo "${tests[*]}"))\\.|^c10_cuda_(python|sharing)|^c_abi_python" >"$work/log" 2>&1 ||
    { cat "$work/log"; stopped "tests that fail, with torch $version" "$work/log"; }
echo "newest_torch: $version: $(grep "tests passed" "$work/log")"
