# Read by accept.sh's part "build": the trainer and the acceptance program, from this repository, torch, nvcc and
# build/gpu-carry. Requires $work, a folder of its own; leaves $work/build/bin/cistern-train and $work/acceptance.
set -e
carry=$PWD/build/gpu-carry
[[ -d $carry/include ]] || { echo "FAIL build: build/gpu-carry is not there; run tests/gpu/carry.sh first"; exit 1; }
# Where torch is, without importing it.
torch=$(python3 -c 'import importlib.util as i; print(i.find_spec("torch").submodule_search_locations[0])')
command -v nvcc >/dev/null || PATH=$PATH:/usr/local/cuda/bin
CUDA_HOME=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
export PATH CUDA_HOME
if ! command -v cmake >/dev/null || ! command -v ninja >/dev/null; then
  python3 -m pip install --quiet --no-index --no-deps --find-links "$carry/wheels" --target "$work/site" cmake ninja
  export PATH=$work/site/bin:$PATH PYTHONPATH=$work/site${PYTHONPATH:+:$PYTHONPATH}
fi

cmake --preset release -B "$work/build" -DCISTERN_WERROR=OFF -DCISTERN_TORCH="$torch" -DCMAKE_PREFIX_PATH="$carry" \
  -DZLIB_INCLUDE_DIR="$carry/include" -DZLIB_LIBRARY="$carry/lib/libz.so.1"
cuda_include=$(sed -n 's/^CISTERN_CUDA_INCLUDE:PATH=//p' "$work/build/CMakeCache.txt")
cudart=$(sed -n 's/^CISTERN_CUDART:FILEPATH=//p' "$work/build/CMakeCache.txt")

# The acceptance program compiles beside the libraries that it links last.
compile=(-std=c++20 -O2 -Iallocator -Itests -isystem "$torch/include" -isystem "$torch/include/torch/csrc/api/include"
  -isystem "$cuda_include")
jobs=()
nvcc -arch=sm_90 "${compile[@]}" -Xcompiler=-fPIC -c tests/gpu/acceptance.cu -o "$work/acceptance.cu.o" & jobs+=($!)
for name in costs memory torch; do
  g++ "${compile[@]}" -fPIC -c "tests/gpu/acceptance_$name.cpp" -o "$work/$name.o" & jobs+=($!)
done
ninja -C "$work/build" cistern-train
for job in "${jobs[@]}"; do wait "$job"; done

lib=$work/build/lib
g++ "$work"/acceptance.cu.o "$work"/{costs,memory,torch}.o -o "$work/acceptance" \
  -L"$lib" -lcistern_c10_cuda -lcistern_registry "$lib/libcistern.a" \
  -L"$torch/lib" -Wl,--no-as-needed -ltorch_cuda -ltorch_cpu -lc10_cuda -lc10 -Wl,--as-needed "$cudart" \
  "$carry/lib/libz.so.1" -ldl -lpthread -Wl,--allow-shlib-undefined \
  -Wl,-rpath,"$lib:$torch/lib:$(dirname "$cudart"):$carry/lib"
