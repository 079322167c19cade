#!/usr/bin/env bash
# The acceptance on one GPU: builds what it needs from this repository, then runs each part in a process of its own with
# a time limit of its own. Prints PASS, FAIL, SKIP and TIME lines and figures; exits 0 only if nothing failed.
#
#   tests/gpu/accept.sh            on a machine with torch 2.11.0+cu130, nvcc and build/gpu-carry (carry.sh)
#   FAKE=build/full tests/gpu/accept.sh     over the fake runtime, with what that build has: tries the script itself
#
# OUT names a folder for accept.txt (what was printed) and parts.log (what each part wrote besides).
set -u
cd "$(dirname "$0")/../.." || exit 1
readonly kDeadline=465  # seconds for everything
fake=${FAKE:-}
out=${OUT:-$PWD/build/gpu-accept}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$work/logs"
export OMP_NUM_THREADS=4

# run NAME SECONDS COMMAND...: a part. Its verdict lines are its own; ending badly or too late without one is a FAIL.
run() {
  local name=$1 limit=$2 start=$SECONDS status
  local log=$work/logs/$name
  shift 2
  local left=$((kDeadline - SECONDS))
  ((left < limit)) && limit=$left
  if ((limit <= 0)); then
    echo "FAIL $name: no time is left"
    return
  fi
  timeout --kill-after=5 "$limit" "$@" >"$log" 2>&1
  status=$?
  grep -E '^(PASS|FAIL|SKIP) ' "$log"
  if ((status == 124 || status == 137)); then
    echo "FAIL $name: stopped at its limit of $limit s"
  elif ((status != 0)) && ! grep -q '^FAIL ' "$log"; then
    echo "FAIL $name: exit $status: $(tail -n 1 "$log")"
  elif ! grep -qE '^(PASS|FAIL|SKIP) ' "$log"; then
    echo "FAIL $name: said nothing"
  fi
  echo "TIME $name: $((SECONDS - start)) s"
}

build() {
  source tests/gpu/build.sh
  echo "PASS build: $(nvcc --version | tail -n 1)"
}

# The programs, and what a part is started with.
if [[ $fake ]]; then
  fake=$(realpath "$fake")
  preload=$fake/fake/libcudart.so.13:$fake/fake/libcuda.so.1
  start=(env "LD_PRELOAD=$preload" FAKE_CUDART_BYTES=8589934592)
  acceptance=$fake/bin/gpu_acceptance
  trainer=$fake/bin/cistern-train
else
  start=(env)
  acceptance=$work/acceptance
  trainer=$work/build/bin/cistern-train
fi

part() {  # NAME SECONDS [VARIABLE=VALUE]: of the acceptance program
  run "$1${3:+_${3##*:}}" "$2" "${start[@]}" ${3:+"$3"} "$acceptance" "$1"
}

all_parts() {
  if [[ ! $fake ]]; then
    export -f build
    export work
    run build 240 bash -c build
    [[ -x $acceptance ]] || return
  fi
  part patterns 60 CISTERN_CONF=source:vmm
  part patterns 60 CISTERN_CONF=source:malloc
  part record_stream 30
  part limits 30
  part trim 30 CISTERN_CONF=source:vmm
  part trim 30 CISTERN_CONF=source:malloc
  part graphs 40
  part memory_pool 30
  part cudnn_benchmark 60
  part nccl 60
  run training 150 "${start[@]}" python3 tests/gpu/training.py "$trainer" ${fake:+--fake}
  part whole_device 60
  part preallocation 60
  part granule_costs 40
  part hot_path_costs 60
}

all_parts 2>&1 | tee "$out/accept.txt"
tail -n +1 "$work"/logs/* >"$out/parts.log"
{
  echo
  sed -n 's/^ROW //p' "$work"/logs/*
  echo
  count() { grep -c "^$1 " "$out/accept.txt"; }
  echo "$(count PASS) passed, $(count FAIL) failed, $(count SKIP) skipped, $SECONDS s"
} | tee -a "$out/accept.txt"
! grep -q '^FAIL ' "$out/accept.txt"
