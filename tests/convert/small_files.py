"""A small network in each format that is read without TensorFlow, written without the big packages."""
import h5py
import numpy as np

import support
import onnx_graph
import tflite_graph
from support import mobilenet_v2, torch

WIDTH = 0.35
FORMATS = ("npz", "tflite", "h5", "onnx", "pth")


def write_npz(path, tensors):
    arrays = {"Logits_Conv2d_1c_1x1_Conv2D/weight": tensors["classifier.1.weight"][:, None, None],
              "Logits_Conv2d_1c_1x1_Conv2D/bias": tensors["classifier.1.bias"]}
    for layer in mobilenet_v2.layers(WIDTH):
        name = f"{layer.slim.replace('/', '_')}_{'depthwise' if layer.depthwise else 'Conv2D'}"
        weight = tensors[f"{layer.conv}.weight"]
        arrays[f"{name}/weight"] = weight.transpose((1, 2, 3, 0) if layer.depthwise else (0, 2, 3, 1))
        arrays[f"{name}/bias"] = tensors[f"{layer.conv}.bias"]
    np.savez(path, **arrays)


def write_h5(path, tensors):
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [layer.keras[0] for layer in mobilenet_v2.layers(WIDTH)] + ["predictions"]
        for layer in mobilenet_v2.layers(WIDTH):
            kernel = tensors[f"{layer.conv}.weight"].transpose((2, 3, 0, 1) if layer.depthwise else (2, 3, 1, 0))
            write_h5_layer(file, layer.keras[0], kernel, tensors[f"{layer.conv}.bias"])
        write_h5_layer(file, "predictions", tensors["classifier.1.weight"].T, tensors["classifier.1.bias"])


def write_h5_layer(file, name, kernel, bias):
    group = file.create_group(name)
    group.attrs["weight_names"] = [f"{name}/kernel:0", f"{name}/bias:0"]
    group[f"{name}/kernel:0"], group[f"{name}/bias:0"] = kernel, bias


def write(path, tensors):
    """A small network in the format of the path's ending."""
    kind = path.suffix[1:]
    if kind == "npz":
        write_npz(path, tensors)
    elif kind == "h5":
        write_h5(path, tensors)
    elif kind == "pth":
        torch.save({name: torch.from_numpy(values) for name, values in tensors.items()}, path)
    elif kind == "tflite":
        tflite_graph.save(path, tensors, WIDTH)
    else:
        onnx_graph.save(path, support.unfolded(tensors, 1e-3, width=WIDTH), WIDTH)
