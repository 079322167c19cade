#!/usr/bin/env bash
# 10^8 steps of random programs (CISTERN_TEST_STEPS to change), from a seed that is printed and differs every day.
set -euo pipefail
cd "$(dirname "$0")/../.."
export CISTERN_TEST_SEED=${CISTERN_TEST_SEED:-$(date +%Y%m%d)000000}
export CISTERN_TEST_STEPS=${CISTERN_TEST_STEPS:-100000000}

cmake --preset dev >/dev/null
cmake --build --preset dev --target allocator_property_test
echo "$CISTERN_TEST_STEPS steps from seed $CISTERN_TEST_SEED"
build/dev/bin/allocator_property_test --gtest_filter='AllocatorProperty.RandomProgramsBreakNoPromise'
