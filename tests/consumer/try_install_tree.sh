#!/usr/bin/env bash
# try_install_tree.sh package|shared <source dir> <build dir> <with torch> <torch dir>
# Looks at what would be installed, and builds and runs project/ against it.
# package makes the Debian package of <build dir> and unpacks it; shared builds shared libraries, with no preset and no
# network, and installs with DESTDIR.
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
prefix=$work/stage/usr
if [ "$kind" = package ]; then
    cpack --config "$build/CPackConfig.cmake" -B "$work/deb" >"$work/install.log" || { cat "$work/install.log"; fail "cpack"; }
    package=$(echo "$work"/deb/*.deb)
    dpkg-deb --extract "$package" "$work/stage"
    source "$(dirname "$0")/check_package.sh"
else
    DESTDIR=$work/stage cmake --install "$build" --prefix /usr >"$work/install.log"
fi

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
