#!/bin/sh
# Collects what the acceptance machine lacks into build/gpu-carry (below 60 MiB, not under version control): headers of
# CLI11, nlohmann json and zlib with what CMake wants to know of them, zlib itself, and CMake and Ninja as wheels, in
# case they are not there either. Run it where tools/setup.sh has run.
set -eu
cd "$(dirname "$0")/../.."
carry=build/gpu-carry
rm -rf "$carry"
mkdir -p "$carry/include" "$carry/lib" "$carry/share/cmake" "$carry/wheels"

cp -R /usr/include/CLI /usr/include/nlohmann "$carry/include/"
cp "$(echo '#include <zlib.h>' | c++ -E -x c++ - | sed -n 's/.*"\(.*zlib\.h\)".*/\1/p' | head -n 1)" \
  "$(echo '#include <zconf.h>' | c++ -E -x c++ - | sed -n 's/.*"\(.*zconf\.h\)".*/\1/p' | head -n 1)" "$carry/include/"
cp -R /usr/share/cmake/CLI11 /usr/share/cmake/nlohmann_json "$carry/share/cmake/"
cp -L "$(c++ -print-file-name=libz.so)" "$carry/lib/libz.so.1"

python=.venv/bin/python3
[ -x "$python" ] || python=python3
"$python" -m pip download --quiet --no-deps --only-binary=:all: --dest "$carry/wheels" cmake==3.31.6 ninja==1.11.1.3

kib=$(du -sk "$carry" | cut -f1)
echo "$carry: $kib KiB"
[ "$kib" -lt $((60 * 1024)) ] || { echo "that is more than can be carried" >&2; exit 1; }
