"""Keras files: .keras, and .h5 of Keras 2 and 3, a whole model's or its weights'; MobileNetV2 or the MNIST network."""
import io
import json
import re
import zipfile

import h5py
import numpy as np

import mobilenet_v2
import network as net
from keras_layers import Layer, check_config
from network import ConvertError, Network, parsing

# The variables of a layer, in the order in which files without their names have them.
VARIABLES = {"conv2d": ("kernel", "bias"), "depthwise_conv2d": ("kernel", "bias"), "dense": ("kernel", "bias"),
             "batch_normalization": ("gamma", "beta", "moving_mean", "moving_variance")}
PARTS = {"kernel": "weight", "depthwise_kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias",
         "moving_mean": "running_mean", "moving_variance": "running_var"}


def read(path):
    with parsing("Keras file"):
        layers = layers_of_archive(path) if zipfile.is_zipfile(path) else layers_of_h5(path)
    weighted = [layer for layer in layers if layer.variables]
    if not weighted:
        raise ConvertError("holds no layer with weights")
    read_network = read_mnist_cnn if len(weighted) == 2 else read_mobilenet_v2
    network = read_network(weighted)
    check_config(layers, network)
    return network


def layers_of_archive(path):
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))
        with h5py.File(io.BytesIO(archive.read("model.weights.h5")), "r") as file:
            return list(numbered_layers(config, file))


def numbered_layers(config, group):
    """The layers of a model whose weights lie under its layers' kinds, counted: layers/conv2d_1/vars/0."""
    counts = {}
    for entry in config["config"]["layers"]:
        kind = snake_case(entry["class_name"])
        counts[kind] = counts.get(kind, -1) + 1
        place = group.get(f"layers/{kind}_{counts[kind]}" if counts[kind] else f"layers/{kind}")
        if "layers" in entry["config"]:  # A model as a layer of another.
            yield from numbered_layers(entry, place)
        else:
            yield Layer(entry["config"]["name"], kind, entry["config"], numbered_variables(kind, place))


def snake_case(name):
    return re.sub("([a-z])([A-Z])", r"\1_\2", re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)).lower()


def numbered_variables(kind, group):
    variables = {} if group is None else group.get("vars", {})
    if len(variables) > len(VARIABLES.get(kind, ())):
        raise ConvertError(f"{group.name} has {len(variables)} tensors: more than this tool knows of such a layer")
    return {VARIABLES[kind][int(number)]: (values.name, np.asarray(values)) for number, values in variables.items()}


def layers_of_h5(path):
    with h5py.File(path, "r") as file:
        if "layers" in file and "layer_names" not in file.attrs:
            return list(unnamed_layers(file["layers"]))
        group = file.get("model_weights", file)
        if "layer_names" not in group.attrs:
            raise ConvertError("is an HDF5 file, but not one of Keras' weights")
        variables = {}
        for layer in attribute(group, "layer_names"):
            for name in attribute(group[layer], "weight_names"):
                # Of a model as a layer of another, all variables are in one group, each with its own layer's name.
                owner, variable = ([layer] + name.split("/"))[-2:]
                values = group[layer][name]
                variables.setdefault(owner, {})[variable.removesuffix(":0")] = (values.name, np.asarray(values))
        config = json.loads(file.attrs["model_config"]) if "model_config" in file.attrs else None
        if config is None:
            return [Layer(name, "", None, tensors) for name, tensors in variables.items()]
        return list(named_layers(config, variables))


def attribute(group, name):
    """A list of names; long ones are in pieces, name0, name1 and so on."""
    names = [name] + [f"{name}{k}" for k in range(len(group.attrs))]
    pieces = [piece for piece in names if piece in group.attrs]
    return [text.decode() if isinstance(text, bytes) else text for piece in pieces for text in group.attrs[piece]]


def named_layers(config, variables):
    layers = config["config"]["layers"] if isinstance(config["config"], dict) else config["config"]
    for entry in layers:
        if "layers" in entry["config"]:
            yield from named_layers(entry, variables)
        else:
            name = entry["config"]["name"]
            yield Layer(name, snake_case(entry["class_name"]), entry["config"], variables.pop(name, {}))

def unnamed_layers(group):
    """The layers of a .weights.h5, which has neither their names nor their order, only their kinds, counted.

    Within a kind they count in the order they run, so MobileNetV2's names are known all the same.
    """
    convolutions = mobilenet_v2.layers(1.0)
    names = {"conv2d": [layer.keras[0] for layer in convolutions if not layer.depthwise],
             "depthwise_conv2d": [layer.keras[0] for layer in convolutions if layer.depthwise],
             "batch_normalization": [layer.keras[1] for layer in convolutions]}
    for key, place in group.items():
        kind, number = re.fullmatch(r"(.*?)(?:_(\d+))?", key).groups()
        known = names.get(kind, [])
        index = int(number or 0)
        yield Layer(known[index] if index < len(known) else key, kind, None, numbered_variables(kind, place))


def read_mobilenet_v2(layers):
    network = Network(origin="Keras' mobilenet_v2 (Apache-2.0)")
    targets = {}
    for layer in mobilenet_v2.layers(1.0):
        targets[layer.keras[0]] = (layer.conv, "HWC1" if layer.depthwise else "HWIO")
        targets[layer.keras[1]] = (layer.norm, "C")
    for layer in layers:
        kernel = layer.variables.get("kernel")
        is_classifier = layer.name not in targets and kernel is not None and kernel[1].ndim == 2
        add_layer(network, layer, *(("classifier.1", "IO") if is_classifier else targets.get(layer.name, (None, None))))
    return network


def add_layer(network, layer, target, layout):
    for variable, (source, values) in layer.variables.items():
        if target is None or variable not in PARTS:
            raise ConvertError(f"tensor {source} of layer {layer.name} belongs to no layer of MobileNetV2")
        network.add(f"{target}.{PARTS[variable]}", source, values, layout if "kernel" in variable else "C")


def read_mnist_cnn(layers):
    network = Network(model="mnist_cnn", size=28, range=net.ZERO_TO_ONE, origin="Keras' tutorial network for MNIST")
    for layer in layers:
        source, kernel = layer.variables.get("kernel", (layer.name, np.empty(0)))
        add_layer(network, layer, *(("conv", "HWIO") if kernel.ndim == 4 else ("dense", "IO")))
    dense = network.tensors.get("dense.weight")
    if dense is not None and dense.values.shape == (10, 5408):
        # Keras flattens height, width, channels; torch channels, height, width.
        by_place = dense.values.reshape(10, 13, 13, 32)
        dense.values = np.ascontiguousarray(by_place.transpose(0, 3, 1, 2)).reshape(10, 5408)
    return network
