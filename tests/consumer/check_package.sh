# Read by try_install_tree.sh: what is in the Debian package $package, unpacked in $prefix. Says what is wrong with fail.
[[ $package =~ /cistern_[0-9.]+_[a-z0-9]+\.deb$ ]] || fail "the package is called $package"
depends=$(dpkg-deb --field "$package" Depends)
for wanted in 'libc6 \(>= ' 'libstdc\+\+6 \(>= ' 'zlib1g \(>= ' 'zlib1g-dev'; do
    grep -qE "(^|, )$wanted" <<<"$depends" || fail "the package depends on '$depends', not on $wanted"
done

# Nothing but these, all of root's.
listed=$(dpkg-deb --contents "$package")
others=$(awk '{ print $2 "|" $6 }' <<<"$listed" | grep -vE '^root/root\|\./$|^root/root\|\./usr/(.*/)?$' |
    grep -vE '^root/root\|\./usr/(bin/cistern|include/cistern/.*\.h(pp)?|lib/cmake/cistern/[A-Za-z0-9_-]+\.cmake|share/doc/cistern/LICENSE)$' |
    grep -vE '^root/root\|\./usr/lib/libcistern(\.a|_preload\.so|_[a-z0-9_]+\.so(\.0\.1(\.[0-9]+)?)?)$' || true)
[ -z "$others" ] || fail "the package holds what does not belong there: $others"
plugs=(c_abi registry)
[ "$with_torch" != ON ] || plugs+=(c10_cpu)
[ ! -e "$build/lib/libcistern_c10_cuda.so" ] || plugs+=(c10_cuda c10_host)
for file in bin/cistern include/cistern/memory.hpp include/cistern/adapters/c_abi/cistern.h include/cistern/core/config.hpp \
    lib/cmake/cistern/cisternConfig.cmake lib/libcistern.a lib/libcistern_preload.so share/doc/cistern/LICENSE \
    "${plugs[@]/#/lib/libcistern_}"; do
    [[ $file != lib/libcistern_c* && $file != lib/libcistern_r* ]] || file+=.so.0.1
    [ -e "$prefix/$file" ] || fail "the package lacks $file"
done

# Libraries of the C++ runtime, of ours and of torch; never CUDA's, and no path of this machine in any of it.
while read -r file; do
    needed=$(readelf -d "$file" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' || true)
    strange=$(grep -vE '^(ld-linux.*|lib(c|m|gcc_s|stdc\+\+|z|cistern_registry|c10|c10_cuda|torch_cpu)\.so(\.[0-9.]+)?)$' <<<"$needed" || true)
    [ -z "$strange" ] || fail "$file needs $strange"
    ! grep -qF -e "$sources/allocator" -e "$sources/tools" -e "$build" "$file" || fail "$file names the build machine"
done < <(find "$prefix" -type f)

"$prefix/bin/cistern" run -- true || fail "cistern run does not find its libraries in the package"
