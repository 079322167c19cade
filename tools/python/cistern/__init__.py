"""cistern under torch's tensors.

    import cistern
    cistern.install(strategy="growth", limit="8GiB")    # before the tensors that should be in it
    ...
    cistern.memory_info("cpu")["peak"]

Sizes are numbers of bytes or texts such as "512MiB", "8GiB", "80%". A device is "cpu", "cuda:0", "pinned", a number
(that of a CUDA device) or a torch.device. Whatever goes wrong is a cistern.Error of one line; running out of memory is
torch's OutOfMemoryError. Under `cistern run` nothing has to be installed, and all but install() works the same.
"""
import ctypes
import os
import pathlib

__version__ = "0.1.0"
__all__ = ["Error", "install", "memory_info", "reset_peak", "set_limit", "snapshot", "trim"]


class Error(RuntimeError):
    """What cistern refused to do, and why, in one line."""


class _Stats(ctypes.Structure):
    """struct cistern_stats of allocator/cistern/adapters/c_abi/cistern.h."""
    _fields_ = [(name, ctypes.c_uint64) for name in (
        "requested", "peak_requested", "allocated", "peak_allocated", "active", "peak_active", "reserved",
        "peak_reserved", "limit", "largest_free", "live_count", "allocation_count", "grow_count", "failure_count",
        "source_call_count")]


def _candidates():
    """Folders that may hold the libraries: the one of CISTERN_LIBRARY_DIR alone, else the package's, else build trees."""
    if "CISTERN_LIBRARY_DIR" in os.environ:
        return [pathlib.Path(os.environ["CISTERN_LIBRARY_DIR"])]
    package = pathlib.Path(__file__).resolve().parent
    builds = sorted((package.parents[2] / "build").glob("*/lib"), key=os.path.getmtime, reverse=True)
    return [package / "lib", *builds]


def _load():
    name = "libcistern_c_abi.so." + ".".join(__version__.split(".")[:2])
    folders = _candidates()
    for folder in folders:
        if (folder / name).exists():
            library = ctypes.CDLL(str(folder / name))
            break
    else:
        raise ImportError(f"{name} is in none of {', '.join(map(str, folders))}; CISTERN_LIBRARY_DIR says where it is")
    text, size = ctypes.c_char_p, ctypes.c_uint64
    library.cistern_version.restype = library.cistern_last_error.restype = text
    library.cistern_install.argtypes = [text, text]
    library.cistern_get_stats.argtypes = [text, ctypes.POINTER(_Stats), ctypes.c_size_t]
    library.cistern_reset_peak.argtypes = [text]
    library.cistern_trim.argtypes = [text, size, ctypes.POINTER(size)]
    library.cistern_set_limit.argtypes = [text, text]
    library.cistern_snapshot.argtypes = [text, text]
    return library


_library = _load()


def _check(outcome):
    if outcome != 0:
        raise Error(_library.cistern_last_error().decode())


def _device(device):
    name = f"cuda:{device}" if isinstance(device, int) else str(device)
    return ("cuda:0" if name == "cuda" else name).encode()


def install(strategy=None, limit=None, devices=None, **options):
    """Puts cistern under torch's tensors of each kind of device: "cpu", "cuda" (before CUDA's first use), "pinned";
    unless told, "cpu" and, where torch sees a CUDA device, "cuda". Tensors that exist keep working.

    `strategy` is "growth" (the default), "geometric" or "preallocate"; `limit` the most that may be reserved on each
    device; `options` are further keys of CISTERN_CONF: preallocate, headroom, trim, high_water, remap_slack, misuse,
    record. The environment variable CISTERN_CONF is applied on top.
    """
    import torch  # The plugs find its libraries in the process.
    if devices is None:
        devices = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
    chosen = {"strategy": strategy, "limit": limit, **options}
    items = [f"{key}:{value}" for key, value in chosen.items() if value is not None]
    for item in items:
        if "," in item:
            raise Error(f"a comma in '{item}' cannot be passed on")
    for device in [devices] if isinstance(devices, str) else devices:
        _check(_library.cistern_install(device.encode(), ",".join(items).encode()))


def memory_info(device="cpu"):
    """What the memory of a device is like, as a dict of bytes and, under names that end in _count, counts.

    current and peak are what is handed out to tensors, rounded up as granted; requested is that as asked for; active
    also has what was freed while a stream still uses it; reserved is what was taken from the system or the device.
    limit is None where there is none, largest_free the largest free block. Peaks are those since reset_peak.
    """
    stats = _Stats()
    _check(_library.cistern_get_stats(_device(device), ctypes.byref(stats), ctypes.sizeof(stats)))
    info = {name: getattr(stats, name) for name, _ in _Stats._fields_}
    info["current"], info["peak"] = info.pop("allocated"), info.pop("peak_allocated")
    if info["limit"] == 2**64 - 1:
        info["limit"] = None
    return info


def reset_peak(device="cpu"):
    """Peaks start anew from what is current."""
    _check(_library.cistern_reset_peak(_device(device)))


def trim(device=None, keep=0):
    """Gives idle memory back to the system until at most `keep` bytes are reserved, on every device unless one is
    named. Returns how many bytes were given back."""
    returned = ctypes.c_uint64()
    _check(_library.cistern_trim(None if device is None else _device(device), keep, ctypes.byref(returned)))
    return returned.value


def set_limit(limit, device="cpu"):
    """Changes the limit of a device; None means no limit. Idle memory is given back first; below what is in use it is
    an Error, and the old limit stays."""
    _check(_library.cistern_set_limit(_device(device), None if limit is None else str(limit).encode()))


def snapshot(path, device="cpu"):
    """Writes all segments and blocks to a file for torch/cuda/_memory_viz.py and pytorch.org/memory_viz."""
    _check(_library.cistern_snapshot(_device(device), os.fsencode(path)))
