#!/usr/bin/env python3
"""What cistern-classify makes of converted weights: padding, batch norm and range of each format, by the card alone.

    classify_test.py PROGRAM [arguments of unittest]
"""
import gzip
import json
import subprocess
import sys
import unittest

import numpy as np
from PIL import Image

import support
import small_files
from support import Case, forward, needs_shared, torch

PROGRAM = ""


class Classify(Case):
    def classified(self, weights, pictures):
        """The five best of each picture, as [(class, probability)]. They have the network's size already."""
        files = []
        for number, pixels in enumerate(pictures):
            files.append(self.folder / f"{number}.png")
            Image.fromarray(pixels).save(files[-1])
        command = [PROGRAM, "--json", "--top", "5", "--threads", "1", "--device", "cpu", "--weights", weights, *files]
        result = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        best = {line["image"]: line["top"] for line in lines if "top" in line}
        return [[(top["index"], top["probability"]) for top in best[str(file)]] for file in files]

    def check(self, logits, found):
        probabilities = torch.from_numpy(np.asarray(logits)).softmax(1).numpy()
        for wanted, best in zip(probabilities, found):
            self.assertEqual(best[0][0], int(wanted.argmax()))
            for index, probability in best:
                self.assertAlmostEqual(probability, float(wanted[index]), delta=1e-4)

    def check_network(self, file):
        card, tensors = self.converted(file)
        pictures = support.pictures()
        self.check(forward(card, tensors, pictures), self.classified(self.folder / "out.safetensors", pictures))

    @needs_shared
    def test_torchvision_s_padding_and_range(self):
        tensors = support.unfolded(support.folded_weights(), 1e-5)
        torch.save({name: torch.from_numpy(values) for name, values in tensors.items()}, self.folder / "model.pth")
        self.check_network(self.folder / "model.pth")

    @needs_shared
    def test_the_quantised_tflite_file_and_its_top_1(self):
        file = support.SHARED / "tf2_mobilenet_v2_1.0_224_ptq.tflite"
        self.check_network(file)
        found = self.classified(self.folder / "out.safetensors", support.pictures())
        self.assertEqual([best[0][0] for best in found], support.reference_logits().argmax(1).tolist())

    def test_a_network_of_another_width_with_its_batch_norm_apart(self):
        small_files.write(self.folder / "small.onnx", support.made_up(small_files.WIDTH))
        card, tensors = self.converted(self.folder / "small.onnx")
        pictures = np.random.default_rng(2).integers(0, 256, (3, 224, 224, 3), np.uint8)
        self.check(forward(card, tensors, pictures), self.classified(self.folder / "out.safetensors", pictures))

    def test_the_mnist_network(self):
        draw = np.random.default_rng(4)
        shapes = {"conv2d": ((3, 3, 1, 32), (32,)), "dense": ((5408, 10), (10,))}
        kernels = {name: [draw.normal(0, 0.05, shape) for shape in both] for name, both in shapes.items()}
        with small_files.h5py.File(self.folder / "mnist.h5", "w") as file:
            file.attrs["layer_names"] = list(shapes)
            for name, (kernel, bias) in kernels.items():
                small_files.write_h5_layer(file, name, kernel, bias)
        self.converted(self.folder / "mnist.h5")
        with gzip.open(support.ROOT / "data" / "mnist" / "t10k-images-idx3-ubyte.gz") as file:
            pictures = np.frombuffer(file.read(16 + 20 * 784)[16:], np.uint8).reshape(20, 28, 28)
        found = self.classified(self.folder / "out.safetensors", pictures)
        self.check(keras_mnist(kernels, pictures / 255), found)


def keras_mnist(kernels, pictures):
    """The network as Keras computes it: height, width, channels throughout."""
    (kernel, bias), (dense, dense_bias) = kernels["conv2d"], kernels["dense"]
    windows = np.lib.stride_tricks.sliding_window_view(pictures, (3, 3), (1, 2))
    values = np.maximum(np.einsum("nhwij,ijc->nhwc", windows, kernel[:, :, 0]) + bias, 0)
    pooled = values.reshape(len(pictures), 13, 2, 13, 2, 32).max((2, 4))
    return pooled.reshape(len(pictures), -1) @ dense + dense_bias


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
