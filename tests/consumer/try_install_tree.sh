#!/usr/bin/env bash
# try_install_tree.sh static|shared <source dir> <build dir> <with torch> <torch dir>
# Installs with DESTDIR, looks at what was installed, and builds and runs project/ against it.
# static takes the libraries already built in <build dir>; shared builds its own, with no preset and no network.
set -euo pipefail
kind=$1 sources=$2 build=$3 with_torch=$4 torch=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

if [ "$kind" = shared ]; then
    build=$work/build
    cmake -S "$sources" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
        -DCISTERN_WITH_TESTS=OFF -DCISTERN_WITH_APPS=OFF -DCISTERN_WITH_TORCH="$with_torch" -DCISTERN_TORCH="$torch"
    cmake --build "$build"
fi
DESTDIR=$work/stage cmake --install "$build" --prefix /usr >"$work/install.log"
prefix=$work/stage/usr

if [ "$kind" = shared ]; then
    [ -L "$prefix/lib/libcistern.so" ] || ls "$prefix"/lib/*/libcistern.so >/dev/null || fail "no libcistern.so"
fi
while read -r file; do
    dynamic=$(readelf -d "$file" 2>/dev/null) || continue
    grep -E 'R(UN)?PATH' <<<"$dynamic" | grep -v '\[\$ORIGIN' && fail "$file has a path of this machine in it"
    [[ $file != *.so.* ]] || grep -q 'SONAME.*\.so\.0\.1\]' <<<"$dynamic" || fail "$file has no versioned SONAME"
    [[ $file != *.so.* ]] || ! nm -DC --defined-only "$file" | grep -E ' [TWVBD] ' | grep -vE ' (cistern(::|_)|typeinfo (name )?for cistern|v?table for cistern|VTT for cistern)' \
        || fail "$file shows symbols that are not ours"
done < <(find "$prefix" -type f)
grep -rlE "$sources|$build" "$prefix" --include='*.cmake' && fail "a package file names the build machine"

cmake -S "$sources/tests/consumer/project" -B "$work/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
    -DWITH_TORCH="$with_torch" -DCISTERN_TORCH="$torch"
cmake --build "$work/consumer"
"$work/consumer/simulate"
[ "$with_torch" != ON ] || "$work/consumer/plug"
