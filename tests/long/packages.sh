#!/usr/bin/env bash
# Builds the Debian package and the Python wheel, CUDA plug included, as a user would, and uses both on a bare Debian:
# see tests/consumer/use_packages.sh. Wants root; downloads torch with all of its libraries (about 3 GB) into the bare root.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d "${TMPDIR:-/var/tmp}/cistern-packages.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() { echo "packages: $*" >&2; exit 1; }

cmake --preset release >/dev/null
cmake --build --preset release
cpack --config build/release/CPackConfig.cmake -B "$work" >/dev/null
cmake --preset full >/dev/null
cmake --build --preset full --target fake_cudart fake_cuda
env -u CISTERN_LIBRARY_DIR python3 -m pip wheel --quiet --disable-pip-version-check --no-index --no-deps \
    --no-build-isolation --wheel-dir "$work" tools/python

# Nothing of this machine in the wheel, which is not stripped of its search paths by anybody.
mkdir "$work/wheel"
(cd "$work/wheel" && python3 -m zipfile -e ../*.whl .)
for library in c_abi registry c10_cpu c10_cuda c10_host; do
    file=$work/wheel/cistern/lib/libcistern_$library.so.0.1
    [ -e "$file" ] || fail "the wheel lacks ${file##*/}"
    ! readelf -d "$file" | grep -E 'R(UN)?PATH' | grep -v '\[\$ORIGIN\]' || fail "${file##*/} looks for libraries on this machine"
    ! grep -qF "$PWD" "$file" || fail "${file##*/} names this machine's folders"
done

fake=build/full/fake
CARRY="$(echo "$work"/*.deb "$work"/*.whl) $fake/libcudart.so.13 $fake/libcuda.so.1" \
    tools/try_fresh.sh tests/consumer/use_packages.sh
