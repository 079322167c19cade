#!/usr/bin/env python3
"""A plain PyTorch program: MNIST from memory, channels_last, fused Adam; prints JSON of what each epoch took.

    mnist_epoch.py [--data data/mnist] [--epochs 2] [--batch 128] [--threads 2] [--images 60000]

An epoch is training and validation. It needs torch alone: torch.optim.Adam(fused=True) is its kernel behind imports
(sympy, networkx, ...) that have nothing to do with training, so the kernel is called here.
"""
import argparse
import gzip
import json
import pathlib
import resource
import time

import torch

DATA = pathlib.Path(__file__).resolve().parent.parent.parent / "data" / "mnist"


def load(folder, prefix, count):
    """Images of [n, 1, 28, 28] in 0..1, channels_last, and labels."""
    def read(name, header):
        return torch.frombuffer(bytearray(gzip.decompress((pathlib.Path(folder) / (name + ".gz")).read_bytes())),
                                dtype=torch.uint8, offset=header)

    images = read(prefix + "-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28)[:count].float() / 255
    return images.contiguous(memory_format=torch.channels_last), read(prefix + "-labels-idx1-ubyte", 8)[:count].long()


class FusedAdam:
    def __init__(self, parameters, rate=1e-3):
        self.parameters, self.rate = list(parameters), rate
        self.means, self.squares = ([torch.zeros_like(p) for p in self.parameters] for _ in range(2))
        self.steps = [torch.zeros(()) for _ in self.parameters]

    @torch.no_grad()
    def step(self):
        for step in self.steps:
            step += 1
        torch._fused_adam_(self.parameters, [p.grad for p in self.parameters], self.means, self.squares, [], self.steps,
                           lr=self.rate, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-7, amsgrad=False,
                           maximize=False)

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=DATA)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--images", type=int, default=60000)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)

    images, labels = load(options.data, "train", options.images)
    test_images, test_labels = load(options.data, "t10k", options.images)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 32, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
                                torch.nn.Linear(5408, 10)).to(memory_format=torch.channels_last)
    optimizer = FusedAdam(model.parameters())
    loss_of = torch.nn.CrossEntropyLoss()

    def epoch():
        order = torch.randperm(len(images))
        shuffled, wanted = images[order], labels[order]
        for first in range(0, len(images), options.batch):
            optimizer.zero_grad()
            loss_of(model(shuffled[first:first + options.batch]), wanted[first:first + options.batch]).backward()
            optimizer.step()
        with torch.no_grad():
            right = sum((model(some).argmax(1) == wanted).sum().item()
                        for some, wanted in zip(test_images.split(1000), test_labels.split(1000)))
        return right / len(test_images)

    seconds, faults, accuracy = [], [], 0.0
    for _ in range(options.epochs):
        faults_before, start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
        accuracy = epoch()
        seconds.append(time.perf_counter() - start)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults_before)
    print(json.dumps({"epoch_seconds": seconds, "epoch_page_faults": faults, "val_accuracy": accuracy,
                      "checksum": sum(p.double().sum().item() for p in model.parameters())}))


if __name__ == "__main__":
    main()
