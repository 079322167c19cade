#!/usr/bin/env python3
"""Keras files into weights files: MobileNetV2 and the tutorial's MNIST network, written by Keras (over torch) and, as
Keras 2 wrote them, with h5py."""
import gzip
import os
import unittest

import h5py
import numpy as np

import support
from support import Case, forward, needs_shared, torch

os.environ["KERAS_BACKEND"] = "torch"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import keras  # noqa: E402

import mobilenet_v2  # noqa: E402

OURS = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias", "moving_mean": "running_mean",
        "moving_variance": "running_var"}


def keras_mobilenet_v2(tensors, **options):
    model = keras.applications.MobileNetV2(weights=None, classifier_activation=None, **options)
    for layer in mobilenet_v2.layers(1.0):
        kernel = tensors[f"{layer.conv}.weight"].transpose((2, 3, 0, 1) if layer.depthwise else (2, 3, 1, 0))
        model.get_layer(layer.keras[0]).set_weights([kernel])
        norm = [tensors[f"{layer.norm}.{part}"] for part in mobilenet_v2.BATCH_NORM]
        model.get_layer(layer.keras[1]).set_weights(norm)
    if options.get("include_top", True):
        model.get_layer("predictions").set_weights([tensors["classifier.1.weight"].T, tensors["classifier.1.bias"]])
    return model


def save_as_keras_2(model, path, whole):
    """Layer names and weight names in attributes; a depthwise kernel by its own name; every name with :0."""
    with h5py.File(path, "w") as file:
        root = file.create_group("model_weights") if whole else file
        if whole:
            file.attrs["model_config"] = model.to_json()
        root.attrs["layer_names"] = [layer.name.encode() for layer in model.layers]
        for layer in model.layers:
            group = root.create_group(layer.name)
            depthwise = layer.__class__.__name__ == "DepthwiseConv2D"
            names = [f"{layer.name}/{'depthwise_' if depthwise else ''}{weight.name}:0" for weight in layer.weights]
            group.attrs["weight_names"] = [name.encode() for name in names]
            for name, weight in zip(names, layer.weights):
                group[name] = keras.ops.convert_to_numpy(weight)


@needs_shared
class MobileNetV2(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.tensors = support.unfolded(support.folded_weights(), 1e-3)
        cls.model = keras_mobilenet_v2(cls.tensors, classes=1001)
        cls.logits = cls.computed(cls.model)

    @staticmethod
    def computed(model):
        pictures = keras.applications.mobilenet_v2.preprocess_input(support.pictures().astype(np.float32))
        with torch.inference_mode():
            return keras.ops.convert_to_numpy(model(pictures, training=False))

    def check(self, name, *options):
        card, tensors = self.converted(self.folder / name, *options)
        self.assertEqual((card["padding"], card["epsilon"], card["batch_norm"]), ("same", 0.001, "separate"))
        self.assertEqual((card["preprocessing"]["mean"], card["preprocessing"]["std"]), ([0.5] * 3, [0.5] * 3))
        found = forward(card, tensors, support.pictures())
        self.assert_close(found, self.logits, 1e-4)
        self.assert_close(found, support.reference_logits(), 1e-4)

    def test_a_keras_archive_computes_what_keras_computes(self):
        self.model.save(self.folder / "model.keras")
        self.check("model.keras")

    def test_a_whole_model_in_h5_computes_what_keras_computes(self):
        self.model.save(self.folder / "model.h5")
        self.check("model.h5")

    def test_weights_alone_without_their_layers_names_compute_what_keras_computes(self):
        self.model.save_weights(self.folder / "model.weights.h5")
        self.check("model.weights.h5")

    def test_keras_2_h5_files_of_weights_or_a_whole_model_compute_what_keras_computes(self):
        for whole in (False, True):
            save_as_keras_2(self.model, self.folder / "keras2.h5", whole)
            self.check("keras2.h5")

    def test_a_network_with_another_head_is_taken_out_of_the_model_that_wraps_it(self):
        base = keras_mobilenet_v2(self.tensors, include_top=False, input_shape=(224, 224, 3))
        head = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dropout(0.2), keras.layers.Dense(1001)]
        model = keras.Sequential([keras.Input((224, 224, 3)), base, *head])
        model.layers[-1].set_weights([self.tensors["classifier.1.weight"].T, self.tensors["classifier.1.bias"]])
        for name in ("wrapped.keras", "wrapped.h5"):
            model.save(self.folder / name)
            self.check(name)

    def test_the_range_follows_from_a_rescaling_layer_in_the_model(self):
        small = keras.applications.MobileNetV2(weights=None, alpha=0.35, input_shape=(96, 96, 3))
        pixels = keras.Input((96, 96, 3))
        for scale, offset, mean, std in ((1 / 255, 0.0, 0.0, 1.0), (1 / 127.5, -1.0, 0.5, 0.5)):
            keras.Model(pixels, small(keras.layers.Rescaling(scale, offset)(pixels))).save(self.folder / "scaled.keras")
            card, _ = self.converted(self.folder / "scaled.keras")
            self.assertEqual((card["width"], card["preprocessing"]["size"]), (0.35, 96))
            self.assertEqual((card["preprocessing"]["mean"], card["preprocessing"]["std"]), ([mean] * 3, [std] * 3))


class MnistCnn(Case):
    """The tutorial's Sequential: Conv2D, MaxPooling2D, Flatten, Dense."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        keras.utils.set_random_seed(11)
        layers = keras.layers
        cls.model = keras.Sequential([keras.Input((28, 28, 1)), layers.Conv2D(32, 3, activation="relu"),
                                      layers.MaxPooling2D(2), layers.Flatten(), layers.Dense(10, activation="softmax")])
        draw = np.random.default_rng(5)  # Keras' biases start as zeros, which would hide one that is left out.
        for layer in (cls.model.layers[0], cls.model.layers[3]):
            kernel, bias = layer.get_weights()
            layer.set_weights([kernel, draw.normal(0, 0.3, bias.shape)])
        with gzip.open(support.ROOT / "data" / "mnist" / "t10k-images-idx3-ubyte.gz") as file:
            cls.pictures = np.frombuffer(file.read(16 + 1000 * 784)[16:], np.uint8).reshape(1000, 28, 28, 1)
        with torch.inference_mode():
            cls.probabilities = keras.ops.convert_to_numpy(cls.model(cls.pictures / np.float32(255)))
            cls.model.layers[3].activation = keras.activations.linear
            cls.logits = keras.ops.convert_to_numpy(cls.model(cls.pictures / np.float32(255)))
            cls.model.layers[3].activation = keras.activations.softmax

    def check(self, name):
        card, tensors = self.converted(self.folder / name)
        self.assertEqual((card["model"], card["labels"]), ("mnist_cnn", [str(digit) for digit in range(10)]))
        self.assertEqual(card["preprocessing"], {"size": 28, "channels": 1, "mean": [0.0], "std": [1.0]})
        functional = torch.nn.functional
        pictures = support.normalised(card, self.pictures)
        values = functional.conv2d(pictures, tensors["conv.weight"], tensors["conv.bias"])
        flat = functional.max_pool2d(functional.relu(values), 2).flatten(1)
        logits = functional.linear(flat, tensors["dense.weight"], tensors["dense.bias"])
        self.assert_close(logits.numpy(), self.logits, 1e-5)
        self.assert_close(logits.softmax(1).numpy(), self.probabilities, 1e-6)

    def test_the_logits_of_1000_test_pictures_are_keras_own_from_every_kind_of_file(self):
        self.model.save(self.folder / "mnist.keras")
        self.model.save(self.folder / "mnist.h5")
        self.model.save_weights(self.folder / "mnist.weights.h5")
        save_as_keras_2(self.model, self.folder / "mnist2.h5", whole=True)
        for name in ("mnist.keras", "mnist.h5", "mnist.weights.h5", "mnist2.h5"):
            with self.subTest(name):
                self.check(name)

    def test_another_network_for_mnist_is_refused_by_the_name_of_what_differs(self):
        layers = keras.layers
        others = {"none of mnist_cnn's": ("valid", [layers.Activation("tanh"), layers.Dense(10)]),
                  "has padding same": ("same", [layers.Dense(10)]),
                  "dense.weight wants [10, 5408]": ("valid", [layers.Dense(12)])}
        for message, (padding, head) in others.items():
            stack = [keras.Input((28, 28, 1)), layers.Conv2D(32, 3, padding=padding, activation="relu"),
                     layers.MaxPooling2D(2), layers.Flatten(), *head]
            keras.Sequential(stack).save(self.folder / "other.keras")
            result = support.convert(self.folder / "other.keras", self.folder / "other.safetensors")
            self.assertEqual(result.returncode, 1)
            self.assertIn(message, result.stderr)
            self.assertFalse((self.folder / "other.safetensors").exists())


if __name__ == "__main__":
    unittest.main()
