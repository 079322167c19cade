"""Builds the wheel: the Python files, and the libraries they open. A backend as PEP 517 has it, so `pip install
tools/python` and `pip wheel tools/python` find it.

The libraries come from CISTERN_LIBRARY_DIR where that is set, else CMake builds them in build/python, against the torch
that CISTERN_TORCH names or that this Python sees (pip's --no-build-isolation lets it), else the one in .venv.
"""
import base64
import hashlib
import importlib.util
import os
import pathlib
import platform
import re
import subprocess
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VERSION = re.search(r'__version__ = "(.*)"', (HERE / "cistern" / "__init__.py").read_text())[1]
TAG = "py3-none-linux_" + platform.machine()
INFO = f"cistern-{VERSION}.dist-info"
METADATA = f"""Metadata-Version: 2.1
Name: cistern
Version: {VERSION}
Summary: A caching memory allocator under torch's tensors
License: MIT
Requires-Python: >=3.9
"""
REQUIRED = ("c_abi", "registry", "c10_cpu")
CUDA = ("c10_cuda", "c10_host")  # Where torch has CUDA.


def file_of(library):
    return f"libcistern_{library}.so." + ".".join(VERSION.split(".")[:2])


def torch_folder():
    found = importlib.util.find_spec("torch")
    in_venv = list((ROOT / ".venv").glob("lib/python3*/site-packages/torch"))
    for folder in os.environ.get("CISTERN_TORCH"), found and os.path.dirname(found.origin), in_venv and in_venv[0]:
        if folder:
            return pathlib.Path(folder)
    raise SystemExit("cistern: torch was not found; run tools/setup.sh, set CISTERN_TORCH, or use --no-build-isolation")


def build_libraries():
    """The folder that holds them."""
    build, torch = ROOT / "build" / "python", torch_folder()
    cuda = (torch / "lib" / "libc10_cuda.so").exists()
    subprocess.run(["cmake", "--preset", "release", "-S", str(ROOT), "-B", str(build), "-DCISTERN_WITH_APPS=OFF",
                    "-DCISTERN_WERROR=OFF", "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON", f"-DCISTERN_TORCH={torch}",
                    f"-DCISTERN_WITH_CUDA={'ON' if cuda else 'OFF'}"], check=True)
    subprocess.run(["cmake", "--build", str(build), "--parallel", "--target",
                    *("cistern_" + library for library in REQUIRED + (CUDA if cuda else ()))], check=True)
    return build / "lib"


def contents():
    """Name in the wheel -> bytes."""
    folder = pathlib.Path(os.environ.get("CISTERN_LIBRARY_DIR") or build_libraries())
    files = {f"cistern/{path.name}": path.read_bytes() for path in sorted((HERE / "cistern").glob("*.py"))}
    for library in REQUIRED + CUDA:
        path = folder / file_of(library)
        if library in REQUIRED or path.exists():
            files["cistern/lib/" + path.name] = path.read_bytes()
    files[f"{INFO}/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    files[f"{INFO}/METADATA"] = METADATA.encode()
    files[f"{INFO}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: cistern\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode()
    return files


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = f"cistern-{VERSION}-{TAG}.whl"
    record = []
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in contents().items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(data)}\n")
            wheel.writestr(path, data)
        wheel.writestr(f"{INFO}/RECORD", "".join(record) + f"{INFO}/RECORD,,\n")
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("cistern's sources are its repository: build the wheel there, with pip wheel tools/python")
