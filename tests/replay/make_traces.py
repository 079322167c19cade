#!/usr/bin/env python3
"""Writes the project's own traces: what small networks ask of an allocator, step by step.

Each program below follows the tensors of a model through forward, backward and optimizer (or through serving) and
writes the CSV that `cistern replay` reads. No clock and a fixed seed: the same files each time.

    make_traces.py FOLDER
"""
import gzip
import io
import pathlib
import random
import sys

FLOAT = 4


class Recorder:
    def __init__(self):
        self.lines, self.live, self.count, self.now, self.peak = [], {}, 0, 0, 0

    def alloc(self, *shape, element=FLOAT):
        size = element
        for extent in shape:
            size *= extent
        block, self.count = self.count, self.count + 1
        self.live[block] = size
        self.now += size
        self.peak = max(self.peak, self.now)
        self.lines.append(f"alloc,{block},{size},0\n")
        return block

    def free(self, *blocks):
        for block in blocks:
            size = self.live.pop(block)
            self.now -= size
            self.lines.append(f"free,{block},{size},0\n")

    def write(self, path):
        text = f"# peak_live_bytes={self.peak}\naction,id,bytes,stream\n" + "".join(self.lines)
        packed = io.BytesIO()
        with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=9, mtime=0) as stream:
            stream.write(text.encode())
        path.write_bytes(packed.getvalue())


def adam(recorder, shapes, states, gradients):
    """First step makes the two moments of each parameter; each step has one temporary per parameter."""
    for index, shape in enumerate(shapes):
        if index not in states:
            states[index] = (recorder.alloc(*shape), recorder.alloc(*shape))
        recorder.free(recorder.alloc(*shape))
    recorder.free(*gradients)


def convolution_training():
    """A network of four convolutions over 32x32 pictures, batch 256, a shorter last batch, then validation."""
    recorder = Recorder()
    channels = [3, 32, 64, 128, 256]
    shapes = [(channels[i + 1], channels[i], 3, 3) for i in range(4)] + [(10, 256 * 4)]
    for shape in shapes:
        recorder.alloc(*shape)
        recorder.alloc(shape[0])
    states = {}

    def forward(batch, keep):
        side, saved = 32, [recorder.alloc(batch, 3, 32, 32)]
        for layer in range(4):
            workspace = recorder.alloc(channels[layer + 1], side, side, 9)
            convolved = recorder.alloc(batch, channels[layer + 1], side, side)
            recorder.free(workspace)
            relu = recorder.alloc(batch, channels[layer + 1], side, side)
            if not keep:
                recorder.free(convolved)
            out = relu
            if layer:
                side //= 2
                out = recorder.alloc(batch, channels[layer + 1], side, side)
                index = recorder.alloc(batch, channels[layer + 1], side, side, element=8)
            if keep:
                saved += [convolved, relu] + ([out, index] if layer else [])
            else:
                recorder.free(saved.pop(), *([relu, index] if layer else []))
                saved.append(out)
        return saved, recorder.alloc(batch, 10)

    for epoch in range(2):
        for batch in [256] * 12 + [96]:
            saved, logits = forward(batch, keep=True)
            loss = recorder.alloc(1)
            gradient, gradients = recorder.alloc(batch, 10), []
            recorder.free(logits)
            for shape in reversed(shapes):
                gradients.append(recorder.alloc(*shape))
                size = max(recorder.live[block] for block in saved[-2:])
                passed = recorder.alloc(size // FLOAT)
                recorder.free(gradient)
                gradient = passed
                for _ in range(2 if shape is shapes[0] or shape is shapes[1] else 4):
                    if len(saved) > 1:
                        recorder.free(saved.pop())
            recorder.free(gradient, loss, *saved)
            adam(recorder, shapes, states, gradients)
        for batch in [1000] * 3:
            saved, logits = forward(batch, keep=False)
            recorder.free(*saved, logits)
    return recorder


def transformer_training():
    """Six blocks of width 512 over token sequences of changing length; activations die in reverse order."""
    recorder, chance = Recorder(), random.Random(7)
    width, blocks, batch, words = 512, 6, 16, 8000
    shapes = [(words, width)]
    for _ in range(blocks):
        shapes += [(3 * width, width), (width, width), (4 * width, width), (width, 4 * width), (width,), (width,)]
    for shape in shapes:
        recorder.alloc(*shape)
    states = {}
    for _ in range(10):
        length = chance.randrange(64, 513, 8)
        tokens = recorder.alloc(batch, length, element=8)
        hidden = recorder.alloc(batch, length, width)
        saved = [tokens, hidden]
        for _ in range(blocks):
            norm = recorder.alloc(batch, length, width)
            qkv = recorder.alloc(batch, length, 3 * width)
            scores = recorder.alloc(batch, 8, length, length)
            weights = recorder.alloc(batch, 8, length, length)
            recorder.free(scores)
            mixed = recorder.alloc(batch, length, width)
            projected = recorder.alloc(batch, length, width)
            wide = recorder.alloc(batch, length, 4 * width)
            gelu = recorder.alloc(batch, length, 4 * width)
            out = recorder.alloc(batch, length, width)
            recorder.free(projected)
            saved += [norm, qkv, weights, mixed, wide, gelu, out]
        logits = recorder.alloc(batch, length, words)
        gradient = recorder.alloc(batch, length, words)
        recorder.free(logits)
        gradients = []
        for number, shape in enumerate(reversed(shapes)):
            gradients.append(recorder.alloc(*shape))
            passed = recorder.alloc(batch, length, shape[-1])
            recorder.free(gradient)
            gradient = passed
            if number and saved[2:]:
                recorder.free(saved.pop())
                if number % 6 == 0 and saved[2:]:
                    recorder.free(saved.pop())
        recorder.free(gradient, *saved)
        adam(recorder, shapes, states, gradients)
    return recorder


def segmentation_inference():
    """An encoder and decoder with skip connections over pictures of changing size, without gradients."""
    recorder, chance = Recorder(), random.Random(11)
    widths = [32, 64, 128, 256, 512]
    for inside, outside in zip([3] + widths, widths):
        recorder.alloc(outside, inside, 3, 3)
        recorder.alloc(outside, outside, 3, 3)
        recorder.alloc(inside, outside * 2, 3, 3)
    for _ in range(60):
        height, breadth = (32 * chance.randrange(8, 25) for _ in range(2))
        current, skips = recorder.alloc(3, height, breadth), []
        for width in widths:
            for _ in range(2):
                following = recorder.alloc(width, height, breadth)
                recorder.free(current)
                current = following
            skips.append(current)
            height, breadth = height // 2, breadth // 2
            current = recorder.alloc(width, height, breadth)
        for width in reversed(widths):
            height, breadth = height * 2, breadth * 2
            upward = recorder.alloc(width, height, breadth)
            recorder.free(current)
            joined = recorder.alloc(2 * width, height, breadth)
            recorder.free(upward, skips.pop())
            current = recorder.alloc(width, height, breadth)
            recorder.free(joined)
        recorder.free(current)
    return recorder


def generation_serving():
    """Requests come and go at random; each keeps a cache that is copied into a longer one every 64 tokens."""
    recorder, chance = Recorder(), random.Random(13)
    layers, width = 4, 1024
    for _ in range(layers):
        recorder.alloc(12 * width, width)
    running = []
    for _ in range(420):
        if len(running) < 12 and chance.random() < 0.35:
            length = chance.randrange(64, 1025, 64)
            caches = [recorder.alloc(2, length, width) for _ in range(layers)]
            running.append([length, length + chance.randrange(64, 513), caches])
        for request in list(running):
            request[0] += 16
            if request[0] >= request[1]:
                recorder.free(*request[2])
                running.remove(request)
            elif request[0] % 64 == 0:
                for layer, old in enumerate(request[2]):
                    request[2][layer] = recorder.alloc(2, request[0] + 64, width)
                    recorder.free(old)
        if running:
            hidden = recorder.alloc(len(running), width)
            wide = recorder.alloc(len(running), 4 * width)
            recorder.free(hidden, wide)
    return recorder


def main():
    folder = pathlib.Path(sys.argv[1])
    for program in (convolution_training, transformer_training, segmentation_inference, generation_serving):
        program().write(folder / f"{program.__name__}.csv.gz")


if __name__ == "__main__":
    main()
