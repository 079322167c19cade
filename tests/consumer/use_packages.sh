#!/usr/bin/env bash
# Run by tests/long/packages.sh on a bare Debian, as root: installs /carry's Debian package and wheel, and torch from PyPI,
# and uses them from C++, from the command line and from Python; CUDA over the fake runtime in /carry.
set -euo pipefail
cd "$(dirname "$0")"
say() { echo "use_packages: $*"; }

apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends \
    /carry/cistern_*.deb cmake g++ ninja-build python3-venv >/dev/null
say "$(dpkg-query -Wf '${Package} ${Version}' cistern) is installed"

cistern run --report -- sh -c true
work=$(mktemp -d)
cmake -S project -B "$work/simulate" -G Ninja >/dev/null
cmake --build "$work/simulate" >/dev/null
"$work/simulate/simulate"

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir torch==2.11.0 numpy==2.4.6 /carry/*.whl
python=$work/venv/bin/python
export OMP_NUM_THREADS=1
say "$("$work/venv/bin/pip" list 2>/dev/null | grep -E '^(torch|cistern) ' | tr -s ' \n' ' ')"

say "the package from C++, over that torch"
torch=$(echo "$work"/venv/lib/python3*/site-packages/torch)
cmake -S project -B "$work/plug" -G Ninja -DWITH_TORCH=ON -DCISTERN_TORCH="$torch" >/dev/null
cmake --build "$work/plug" >/dev/null
"$work/plug/plug"

say "the package under an unmodified program"
cat >"$work/program.py" <<'PYTHON'
import sys, torch
device = sys.argv[1]
kept = [torch.ones(2), torch.ones(1 << 20, device=device)]
try:
    torch.empty(99 << 20, dtype=torch.uint8, device=device)
except torch.OutOfMemoryError as error:
    assert "cistern: out of memory" in str(error) and "limit of 64 MiB" in str(error), error
    print(device, "served under its limit")
PYTHON
cistern run --limit 64MiB --report -- "$python" "$work/program.py" cpu
fake=/carry/libcudart.so.13:/carry/libcuda.so.1
LD_PRELOAD=$fake cistern run --limit 64MiB --devices cuda,pinned -- "$python" "$work/program.py" cuda

say "the wheel"
cd "$work"
cat >"$work/wheel.py" <<'PYTHON'
import sys, torch, cistern
device = sys.argv[1]
cistern.install(strategy="growth", limit="64MiB", devices=(device,))
kept = torch.ones(1 << 20, device=device)
info = cistern.memory_info(device)
assert info["current"] == 4 << 20 and info["limit"] == 64 << 20, info
del kept
assert cistern.trim(device) >= 4 << 20 and cistern.memory_info(device)["reserved"] == 0
print(device, "served from", cistern.__file__)
PYTHON
"$python" wheel.py cpu
LD_PRELOAD=$fake "$python" wheel.py cuda
if said=$("$python" wheel.py cuda 2>&1); then echo "CUDA was served without a driver" >&2; exit 1; fi
say "without a driver: $(tail -n 1 <<<"$said")"
grep -qE 'cistern.Error: |RuntimeError: ' <<<"$(tail -n 1 <<<"$said")"

apt-get remove -y -qq cistern >/dev/null
[ ! -e /usr/bin/cistern ]
say "done"
