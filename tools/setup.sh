#!/usr/bin/env bash
# Installs what building needs on Debian 12 or Ubuntu 22.04+; running it again costs a second.
#   tools/setup.sh              compilers, libraries, and torch 2.11.0 in .venv (CPU: about 0.55 GB of download)
#   tools/setup.sh --no-torch   without torch, for the presets dev, audit, asan and tsan
#   tools/setup.sh --tests      also what the tests need, libtorch_cuda's libraries included (about 0.3 GB more)
#   tools/setup.sh --long       also what tools/test.sh --long needs
#   tools/setup.sh --cuda       also the CUDA libraries that libtorch_cuda needs
#   tools/setup.sh --convert    also .venv-convert, what tools/convert needs (about 50 MB; --tests brings it too)
#   tools/setup.sh --convert-tensorflow     also TensorFlow, for its own files (0.4 GB; 1.6 on disk; --long brings it too)
#   tools/setup.sh --peers      also the allocators that cistern-bench compares with: TensorFlow's, RMM's, and malloc libraries
# CISTERN_TORCH=<directory with lib/libc10.so> uses that libtorch instead of installing one.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null
PATH=$PATH:/usr/sbin:/sbin

torch=yes tests= long= cuda= convert= tensorflow= peers=
for option in "$@"; do
    case $option in
        --no-torch) torch= ;;
        --tests) tests=yes ;;
        --long) tests=yes long=yes tensorflow=yes ;;
        --cuda) cuda=yes ;;
        --convert) convert=yes ;;
        --convert-tensorflow) convert=yes tensorflow=yes ;;
        --peers) tensorflow=yes peers=yes ;;
        *) echo "setup.sh: unknown option $option (see the head of this file)" >&2; exit 2 ;;
    esac
done

packages=(cmake g++ ninja-build libcli11-dev nlohmann-json3-dev python3-venv zlib1g-dev)
[ -z "$torch$tests" ] || packages+=(libopencv-imgcodecs-dev)
[ -z "$tests" ] || packages+=(clang-14 dataset-fashion-mnist dpkg-dev file libbenchmark-dev libgmock-dev libgtest-dev python3 valgrind)
[ -z "$tests$convert" ] || packages+=(curl ca-certificates)
[ -z "$long" ] || packages+=(debootstrap libgoogle-perftools4)
[ -z "$peers" ] || packages+=(libgoogle-perftools4 libjemalloc2 libmimalloc2.0)

# Which wheels: torch's own libraries always; NVIDIA's only where the loader has no toolkit to take them from.
wheels=() pip_options=(--no-deps)
in_loader() { local libraries; libraries=$(ldconfig -p); for name; do [[ $libraries == *"$name "* ]] || return 1; done; }
if [ -n "$torch" ] && [ -n "${CISTERN_TORCH:-}" ]; then
    [ -e "$CISTERN_TORCH/lib/libc10.so" ] || { echo "setup.sh: CISTERN_TORCH=$CISTERN_TORCH holds no lib/libc10.so" >&2; exit 1; }
elif [ -n "$torch" ]; then
    wheels=(torch==2.11.0)
    [ -z "$tests" ] || cuda=yes wheels+=(numpy==2.4.6 typing-extensions==4.16.0)
    if [ -n "$cuda" ] && ! in_loader libcudart.so.13 libcupti.so.13 libcublas.so.13 libcudnn.so.9 libnccl.so.2; then
        pip_options=()
    else
        in_loader libcudart.so.13 libcupti.so.13 || wheels+=(nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)
        [ -z "$cuda" ] || wheels+=(nvidia-cufile==1.15.1.6 nvidia-cusparselt-cu13==0.8.0 nvidia-nvshmem-cu13==3.4.5)
    fi
fi
# CUDA's headers, where there is no toolkit.
if [ ! -e "${CUDA_HOME:-/usr/local/cuda}/include/crt/host_defines.h" ]; then
    [[ " ${wheels[*]} " == *" nvidia-cuda-runtime==13.0.96 "* ]] || wheels+=(nvidia-cuda-runtime==13.0.96)
    wheels+=(nvidia-cuda-crt==13.0.88)
fi
# What tools/convert reads files with, in an environment of its own.
convert_wheels=(numpy==2.4.6 safetensors==0.8.0 h5py==3.16.0 tflite==2.18.0 flatbuffers==25.12.19
    onnx==1.23.2 ml_dtypes==0.6.0 protobuf==7.36.2 typing-extensions==4.16.0)
# Its tests write files with the packages that own the formats: keras and torchvision, and what these need.
if [ -n "$torch" ] && [ -n "$tests" ]; then
    convert=yes
    convert_wheels+=(keras==3.15.1 absl-py==2.5.1 namex==0.1.0 optree==0.20.0 packaging==26.4 rich==15.0.0
        torchvision==0.26.0 pillow==13.0.0 sympy==1.14.0 mpmath==1.4.1 networkx==3.6.1 filelock==4.3.1 jinja2==3.1.6
        markupsafe==3.0.4 fsspec==2026.9.0)
fi
tensorflow_wheels=(tensorflow-cpu==2.21.0 absl-py==2.5.1 astunparse==1.6.3 certifi==2026.10.19.post1
    charset-normalizer==3.5.3 flatbuffers==25.12.19 gast==0.7.0 google-pasta==0.2.0 grpcio==1.85.3 h5py==3.14.0 idna==3.20
    keras==3.15.1 libclang==18.1.1 markdown-it-py==4.3.0 mdurl==0.1.2 ml_dtypes==0.6.0 namex==0.1.0 numpy==2.4.6
    opt_einsum==3.4.0 optree==0.20.0 packaging==26.4 protobuf==7.36.2 pygments==2.21.0 requests==2.34.2 rich==15.0.0
    six==1.17.0 termcolor==3.3.0 typing-extensions==4.16.0 urllib3==2.8.0 wrapt==2.5.2)
peer_wheels=(librmm-cu13==26.10.0 rapids-logger==0.3.0)
has_wheels() {  # <environment> <options of pip and wheels>
    local environment=$1; shift
    [ -e "$environment/cistern-wheels" ] && grep -qxF -- "$*" "$environment/cistern-wheels"
}
[ ${#wheels[@]} -eq 0 ] || has_wheels .venv "${pip_options[@]}" "${wheels[@]}" || install_torch=yes
[ -z "$convert" ] || has_wheels .venv-convert --no-deps "${convert_wheels[@]}" || install_convert=yes
[ -z "$tensorflow" ] || has_wheels .venv-convert-tensorflow --no-deps "${tensorflow_wheels[@]}" || install_tensorflow=yes
[ -z "$peers" ] || has_wheels .venv-peers --no-deps "${peer_wheels[@]}" || install_peers=yes

command -v dpkg-query >/dev/null || { echo "setup.sh: needs Debian or Ubuntu; elsewhere install the likes of: ${packages[*]}" >&2; exit 1; }
missing=()
for package in "${packages[@]}"; do
    [[ $(dpkg-query -Wf '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
done

need_mib=500
[ ${#missing[@]} -eq 0 ] || need_mib=$((need_mib + 1500))
[ -z "${install_torch:-}" ] || need_mib=$((need_mib + (${#pip_options[@]} ? 3000 : 9000)))
[ -z "${install_convert:-}" ] || need_mib=$((need_mib + 500))
[ -z "${install_tensorflow:-}" ] || need_mib=$((need_mib + 2500))
free_mib=$(df -Pm . | awk 'NR == 2 { print $4 }')
[ "$free_mib" -ge $need_mib ] || { echo "setup.sh: needs $need_mib MiB of free disk here, there are $free_mib" >&2; exit 1; }

if [ ${#missing[@]} -gt 0 ]; then
    as_root=()
    if [ "$(id -u)" != 0 ]; then
        if ! { command -v sudo && { sudo -n true 2>/dev/null || [ -t 1 ]; }; } >/dev/null; then
            echo "setup.sh: neither root nor sudo; have an administrator run:" >&2
            echo "  apt-get install -y --no-install-recommends ${missing[*]}" >&2
            exit 1
        fi
        as_root=(sudo)
    fi
    echo "setup: apt-get install ${missing[*]}"
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "${missing[@]}" >/dev/null
fi

install_wheels() {  # <environment> <options of pip and wheels>
    local environment=$1; shift
    echo "setup: pip install $*"
    [ -x "$environment/bin/pip" ] || /usr/bin/python3 -m venv --clear "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir "$@"
    echo "$*" >>"$environment/cistern-wheels"
}
[ -z "${install_torch:-}" ] || install_wheels .venv "${pip_options[@]}" "${wheels[@]}"
[ -z "${install_convert:-}" ] || install_wheels .venv-convert --no-deps "${convert_wheels[@]}"
[ -z "${install_tensorflow:-}" ] || install_wheels .venv-convert-tensorflow --no-deps "${tensorflow_wheels[@]}"
[ -z "${install_peers:-}" ] || install_wheels .venv-peers --no-deps "${peer_wheels[@]}"
echo "setup: ready"
