#!/usr/bin/env python3
"""A CUDA tensor between two processes, both served by cistern, as torch.multiprocessing sends it, over the preloaded
fake runtime.

    c10_cuda_sharing_test.py <libcistern_c10_cuda.so>
"""
import ctypes
import sys

import torch
import torch.multiprocessing as multiprocessing

MIB = 1 << 20


def install(library, source):
    error = ctypes.create_string_buffer(1024)
    options = f"source:{source}".encode()
    assert ctypes.CDLL(library).cistern_install_c10_cuda(options, error, len(error)) == 0, error.value.decode()


def receive(library, source, sent, answered):
    install(library, source)
    tensor = sent.get(timeout=60)
    answered.put((tensor[1000:1010].cpu().tolist(), torch.cuda.get_allocator_backend()))
    tensor[:4].copy_(torch.tensor([9, 8, 7, 6], dtype=torch.uint8))
    torch.cuda.synchronize()
    answered.put(torch.cuda.memory_allocated())
    del tensor


def share(library, source):
    install(library, source)
    context = multiprocessing.get_context("spawn")
    sent, answered = context.Queue(), context.Queue()
    child = context.Process(target=receive, args=(library, source, sent, answered))
    child.start()
    before = torch.empty(300, dtype=torch.uint8, device="cuda")
    tensor = (torch.arange(5 * MIB) % 251).to(torch.uint8).cuda()
    sent.put(tensor)
    values, backend = answered.get(timeout=60)
    assert values == [i % 251 for i in range(1000, 1010)], values
    assert backend == "cistern"
    assert answered.get(timeout=60) == 0, "what is another's counts as another's"
    child.join(60)
    assert child.exitcode == 0
    assert tensor[:4].cpu().tolist() == [9, 8, 7, 6]
    del before


if __name__ == "__main__":
    share(*sys.argv[1:])
