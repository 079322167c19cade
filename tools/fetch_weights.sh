#!/usr/bin/env bash
# Downloads trained MobileNetV2 weights, checks them and converts them: tools/fetch_weights.sh [NAME [FOLDER]]
#   NAME    one of weights/sources.txt; torchvision unless given
#   FOLDER  gets the download and NAME.safetensors; weights/imagenet unless given
# A file whose sha256 is wrong is deleted. Where none is published, that of the first download is recorded in
# FOLDER/recorded.sha256, and later ones must match it. CISTERN_WEIGHTS_SOURCES names another sources.txt.
set -euo pipefail
root=$(dirname "$(dirname "$(realpath "$0")")")
fail() { echo "fetch_weights: $*" >&2; exit 1; }

sources=${CISTERN_WEIGHTS_SOURCES:-$root/weights/sources.txt}
name=${1:-torchvision} folder=${2:-$root/weights/imagenet}
read -r _ licence wanted url member < <(awk -v name="$name" '$1 == name' "$sources") || {
    echo "fetch_weights: no weights are called $name; known: $(awk '!/^#/ { printf "%s ", $1 }' "$sources")" >&2
    exit 2
}
mkdir -p "$folder" || fail "$folder cannot be made"
file=$folder/$name-$(basename "$url")

if [ ! -e "$file" ]; then
    echo "fetch_weights: $url"
    trap 'rm -f "$file.part"' EXIT
    error=$(curl --fail --location --silent --show-error --retry 2 --connect-timeout 30 -o "$file.part" "$url" 2>&1) ||
        fail "$url could not be downloaded: ${error##*$'\n'}"
    mv "$file.part" "$file"
fi

found=$(sha256sum "$file" | cut -d' ' -f1)
recorded=$folder/recorded.sha256
if [ "$wanted" = - ]; then
    wanted=$({ grep -s " $name$" "$recorded" || true; } | cut -d' ' -f1)
    if [ -z "$wanted" ]; then
        echo "$found $name" >>"$recorded"
        echo "fetch_weights: nobody has published a sha256 of it, so this one is recorded in $recorded: $found"
        wanted=$found
    fi
fi
if [ "$found" != "$wanted" ]; then
    rm -f "$file"
    fail "$url has sha256 $found instead of $wanted; deleted it"
fi

if [ -n "${member:-}" ]; then
    trap 'rm -f "$folder/$member"' EXIT
    tar -xOf "$file" --wildcards "*$member" >"$folder/$member" || fail "$file holds no $member"
    file=$folder/$member
fi
"$root/tools/convert" "$file" "$folder/$name.safetensors" --origin "$url ($licence)" >"$folder/$name.log"
echo "fetch_weights: $(tail -1 "$folder/$name.log"): $folder/$name.safetensors"
