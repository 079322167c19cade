#!/usr/bin/env bash
# Tries the last commit on a bare Debian 12 made for the purpose (debootstrap in a temporary folder, then chroot).
#   tools/try_fresh.sh [COMMAND...]     default: tools/demo.sh --epochs 1
# CARRY names files, with spaces between, that COMMAND finds in /carry. Needs root, debootstrap and 8 GB. Package mirror, apt's and pip's settings, proxies and certificates are those of
# this machine; they go into the temporary root only. KEEP=1 keeps that root.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- tools/demo.sh --epochs 1
[ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null || { echo "try_fresh.sh: needs root and debootstrap (tools/setup.sh --long)" >&2; exit 1; }

suite=bookworm
mirror=$(apt-get indextargets --format '$(SITE)' "Release: $suite" 'Created-By: Packages' | head -n 1)
root=$(mktemp -d "${TMPDIR:-/var/tmp}/cistern-fresh.XXXXXX")
chmod 755 "$root"
[ -n "${KEEP:-}" ] || trap 'rm -rf --one-file-system "$root"' EXIT

debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" "${mirror:-http://deb.debian.org/debian}" >"$root.log" 2>&1 \
    || { tail "$root.log" >&2; exit 1; }
rm "$root.log"

# This machine's ways to its mirrors.
rm -f "$root"/etc/apt/sources.list
cp -a /etc/apt/sources.list* /etc/apt/auth.conf* /etc/apt/keyrings "$root/etc/apt/" 2>/dev/null || true
apt-config dump Acquire >"$root/etc/apt/apt.conf.d/90-this-machine"
cp -aL /etc/hosts /etc/resolv.conf "$root/etc/"
[ ! -e /etc/pip.conf ] || cp -a /etc/pip.conf "$root/etc/"
[ ! -e "$HOME/.config/pip" ] || { mkdir -p "$root/root/.config" && cp -a "$HOME/.config/pip" "$root/root/.config/"; }
environment=(HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
while IFS= read -r -d '' setting; do
    [[ ! $setting =~ ^(PIP_|SSL_CERT_|REQUESTS_CA_BUNDLE=|(http|https|no|HTTP|HTTPS|NO|all|ALL)_(proxy|PROXY)=) ]] || environment+=("$setting")
done < <(env -0)
for bundle in /etc/ssl/certs/ca-certificates.crt "${PIP_CERT:-}" "${SSL_CERT_FILE:-}"; do
    [ ! -f "$bundle" ] || install -D -m 644 "$bundle" "$root$bundle"
done

mkdir "$root/cistern"
git archive HEAD | tar -x -C "$root/cistern"
mkdir "$root/carry"
for file in ${CARRY:-}; do cp -L "$file" "$root/carry/"; done

# The mounts live and die with this command. Commands see the words of COMMAND as they were given.
echo "try_fresh: $* in a bare $suite, commit $(git rev-parse --short HEAD)"
unshare --mount bash -c '
    mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount --rbind /sys "$1/sys"
    exec chroot "$@"' - "$root" /usr/bin/env -i "${environment[@]}" \
    bash -c 'cd /cistern && exec "$@"' - "$@" </dev/null
