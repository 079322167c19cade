#!/usr/bin/env bash
# Every check, cheapest first; stops at the first that fails. The last thing it prints is ctest's summary.
#   tools/test.sh                 all of it: 40 to 50 minutes from nothing on two cores
#   tools/test.sh --preset NAME   one stage: style, clang, dev, audit, asan, tsan or full
#   tools/test.sh --long          the long tier instead: each tests/long/*.sh, with a log in docs/long-tier.log
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

stages=(style clang dev audit asan tsan full)
setup_options=(--tests)
case ${1:-} in
    "") ;;
    --preset) stages=("${2:?--preset needs a name}") ;;
    --long) stages=(long) setup_options=(--long) ;;
    *) echo "test.sh: unknown option $1 (see the head of this file)" >&2; exit 2 ;;
esac
[[ " ${stages[*]} " =~ " full "|" long " ]] || setup_options+=(--no-torch)

# Recorded traces and other data that are not part of this repository.
export CISTERN_SHARED_DATA=${CISTERN_SHARED_DATA:-$(realpath -m ../shared/data)}
[ -d "$CISTERN_SHARED_DATA" ] || echo "NOTE: no $CISTERN_SHARED_DATA: tests over the external traces are SKIPPED" >&2

run_stage() {
    case $1 in
        style) tools/check_layers ;;
        long) run_long_tier ;;
        full) cmake --preset full && cmake --build --preset full && cuda_is_tested && ctest --preset full -j "$(nproc)" ;;
        clang) cmake --preset clang && cmake --build --preset clang ;;
        *) cmake --preset "$1" && cmake --build --preset "$1" && ctest --preset "$1" -j "$(nproc)" ;;
    esac
}

# A torch without its CUDA libraries is no reason to fail, but in CI nothing may be left out quietly.
cuda_is_tested() {
    [ -z "${CI:-}" ] || ! ctest --preset full -N -L cuda_torch | grep -qx 'Total Tests: 0' ||
        { echo "test.sh: no test runs torch over the fake CUDA runtime: libtorch_cuda was not found" >&2; return 1; }
}

run_long_tier() {
    local script
    for script in tests/long/*.sh; do
        echo "--- $script"
        "$script" || { echo "--- $script FAILED"; return 1; }
    done 2>&1 | tee docs/long-tier.log
}

tools/setup.sh "${setup_options[@]}"
for stage in "${stages[@]}"; do
    echo "=== $stage (${SECONDS}s)"
    run_stage "$stage" || { echo "test.sh: stage $stage failed" >&2; exit 1; }
done
