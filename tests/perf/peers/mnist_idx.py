"""MNIST's IDX files as numpy arrays, for the peers, and how they report."""
import gzip
import json
import pathlib
import resource
import sys
import time

import numpy


def load(folder):
    """x_train, y_train, x_test, y_test: float32 in 0..1 of [n, 28, 28], int64."""
    def read(name, header):
        data = gzip.decompress((pathlib.Path(folder) / (name + "-ubyte.gz")).read_bytes())
        return numpy.frombuffer(data, numpy.uint8, offset=header)

    arrays = []
    for prefix in ("train", "t10k"):
        arrays.append((read(prefix + "-images-idx3", 16).reshape(-1, 28, 28) / numpy.float32(255)))
        arrays.append(read(prefix + "-labels-idx1", 8).astype(numpy.int64))
    return arrays


class Report:
    """Times epochs; prints {"epoch_seconds": [...], "epoch_page_faults": [...], "val_accuracy": ...}."""

    def __init__(self):
        self.seconds, self.faults = [], []

    def epoch(self, train):
        faults, start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
        train()
        self.seconds.append(time.perf_counter() - start)
        self.faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults)

    def print(self, accuracy):
        json.dump({"epoch_seconds": self.seconds, "epoch_page_faults": self.faults, "val_accuracy": accuracy}, sys.stdout)


def arguments():
    """data folder, epochs, batch size, threads"""
    return sys.argv[1], *map(int, sys.argv[2:5])
