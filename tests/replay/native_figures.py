#!/usr/bin/env python3
"""Replays traces on PyTorch's own allocator over the fake runtime, and says what each round reserved and called.

    FAKE=build/full/fake LD_LIBRARY_PATH=$FAKE LD_PRELOAD="$FAKE/libcudart.so.13 $FAKE/libcuda.so.1" \\
        FAKE_CUDART_DEVICES=1 FAKE_CUDART_BYTES=300647710720 \\
        .venv/bin/python tests/replay/native_figures.py FILE.csv[.gz]... [--rounds 4]

Add PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True for that form of it. native.csv holds the calls of the first round
on the nine shared traces, beside the peak that each trace says was reserved when it was recorded.
"""
import argparse
import ctypes
import gzip
import pathlib

import torch


def operations(path):
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as lines:
        for line in lines:
            if not line.startswith(("#", "action")):
                action, *numbers = line.strip().split(",")
                yield (action, *map(int, numbers[:3]))


def stream_maker():
    runtime, streams = ctypes.CDLL("libcudart.so.13"), {0: torch.cuda.default_stream()}

    def stream(number):
        if number not in streams:
            handle = ctypes.c_void_p()
            assert runtime.cudaStreamCreateWithFlags(ctypes.byref(handle), 1) == 0
            streams[number] = torch.cuda.ExternalStream(handle.value)
        return streams[number]

    return stream


def replay(trace, stream):
    live = {}
    for action, block, size, number in trace:
        if action == "alloc":
            with torch.cuda.stream(stream(number)):
                live[block] = torch.empty(size, dtype=torch.uint8, device="cuda")
        elif action == "free":
            del live[block]
        elif action == "use":
            live[block].record_stream(stream(number))
        else:
            stream(number).synchronize()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    torch.cuda.init()
    stream = stream_maker()
    for path in arguments.files:
        trace = list(operations(path))
        torch.cuda.empty_cache()
        for number in range(1, arguments.rounds + 1):
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_stats()
            replay(trace, stream)
            after = torch.cuda.memory_stats()
            calls = sum(after[name] - before[name] for name in ("num_device_alloc", "num_device_free"))
            print(f"{path.name} round {number}: reserved {after['reserved_bytes.all.peak']}, device calls {calls}", flush=True)


if __name__ == "__main__":
    main()
