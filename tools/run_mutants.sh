#!/usr/bin/env bash
# Plants each bug marked CISTERN_MUTANT(name) in allocator/, one at a time in one build, and runs the tests until one
# of them notices. Exits 1 if a bug goes unnoticed, or if a promise I1-I13 has no bug planted.
#   tools/run_mutants.sh            all of them
#   tools/run_mutants.sh NAME...    these
#   tools/run_mutants.sh --list     their names; fails where a promise has none
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/mutants

# Quick ones first; the property test takes what they leave.
programs=(core_parts_test allocator_test contract_test allocator_property_test)
export CISTERN_TEST_STEPS=400000

mapfile -t names < <(grep -rhoE 'CISTERN_MUTANT\(I[0-9]+_\w+\)' allocator/cistern | sed 's/.*(\(.*\))/\1/' | sort -uV)
for promise in {1..13}; do
    if [[ " ${names[*]}" != *" I${promise}_"* ]]; then
        echo "promise I$promise has no mutant" >&2
        exit 1
    fi
done
if [ "${1:-}" = --list ]; then
    printf '%s\n' "${names[@]}"
    exit 0
fi
[ $# -eq 0 ] || names=("$@")

mkdir -p build
cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCISTERN_MUTANTS=ON >$build.log
cmake --build $build --target "${programs[@]}"

# Runs the programs until one fails, and says which; says nothing when all pass.
first_to_notice() {
    local program
    for program in "${programs[@]}"; do
        if ! CISTERN_MUTANT=$1 timeout 120 $build/bin/"$program" --gtest_fail_fast >$build/"${1:-none}".log 2>&1; then
            echo "$program"
            return
        fi
    done
}

noticed=$(first_to_notice "")
if [ -n "$noticed" ]; then
    echo "$noticed fails without any mutant: see $build/none.log" >&2
    exit 1
fi
missed=0
for name in "${names[@]}"; do
    noticed=$(first_to_notice "$name")
    if [ -n "$noticed" ]; then
        # The test that failed, or that was running when the process died.
        test=$(grep -oE '\[ +(FAILED|RUN) +\] [^ (,]+' "$build/$name.log" | tail -n 1 | sed 's/.*\] //' || true)
        printf '%-40s caught by %s: %s\n' "$name" "$noticed" "$test"
    else
        printf '%-40s MISSED\n' "$name"
        missed=$((missed + 1))
    fi
done
echo "${#names[@]} mutants, $missed missed"
[ "$missed" -eq 0 ]
