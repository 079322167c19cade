"""Writes one MobileNetV2 as the files that inference engines read, batch norm folded, without softmax.

    mobilenet_files.py WEIGHTS OUT          in .venv-convert

OUT gets model.onnx (any batch), model_N.tflite for batches 1 and 8, and tensors.npz.
"""
import json
import pathlib
import sys

import numpy as np
import onnx
import tflite
from onnx import TensorProto, helper, numpy_helper
from safetensors import safe_open

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(TESTS.parent / "tools" / "convert_weights"), str(TESTS / "convert")]

import mobilenet_v2  # noqa: E402
import tflite_graph  # noqa: E402

SIDE = 224


def read(path):
    with safe_open(path, "np") as file:
        card = json.loads(file.metadata()["cistern"])
        if card["batch_norm"] != "folded" or card["padding"] != "same":
            sys.exit(f"mobilenet_files: {path}: wants folded weights with padding same")
        return card["width"], {name: file.get_tensor(name) for name in file.keys()}


def write_onnx(path, tensors, width):
    nodes, constants = [], []

    def constant(name, values):
        constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def add(kind, inputs, **attributes):
        nodes.append(helper.make_node(kind, inputs, [f"{kind}_{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    zero, six = constant("zero", np.float32(0)), constant("six", np.float32(6))
    values = "pictures"
    for layer in mobilenet_v2.layers(width):
        if layer.opens_block:
            shortcut = values
        pads = [0] * 4 if layer.kernel == 1 else [1] * 4 if layer.stride == 1 else [0, 0, 1, 1]
        inputs = [values] + [constant(f"{layer.conv}.{part}", tensors[f"{layer.conv}.{part}"]) for part in ("weight", "bias")]
        values = add("Conv", inputs, pads=pads, strides=[layer.stride] * 2, group=layer.outputs if layer.depthwise else 1)
        if not layer.linear:
            values = add("Clip", [values, zero, six])
        if layer.residual:
            values = add("Add", [shortcut, values])
    values = add("Flatten", [add("GlobalAveragePool", [values])])
    weight, bias = (constant(f"classifier.1.{part}", tensors[f"classifier.1.{part}"]) for part in ("weight", "bias"))
    values = add("Gemm", [values, weight, bias], transB=1)
    pictures = helper.make_tensor_value_info("pictures", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])
    logits = helper.make_tensor_value_info(values, TensorProto.FLOAT, ["n", len(tensors["classifier.1.bias"])])
    graph = helper.make_graph(nodes, "mobilenet_v2", [pictures], [logits], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def write_tflite(path, tensors, width, batch):
    writer, side = tflite_graph.Writer("float32"), SIDE
    first = values = writer.tensor("pictures", [batch, side, side, 3])
    for layer in mobilenet_v2.layers(width):
        if layer.opens_block:
            shortcut = values
        side //= layer.stride
        kernel = tensors[f"{layer.conv}.weight"].transpose((1, 2, 3, 0) if layer.depthwise else (0, 2, 3, 1))
        inputs = [values, writer.weight(layer.conv, kernel), writer.constant(f"{layer.conv}.bias", tensors[f"{layer.conv}.bias"])]
        name, kind = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions") if layer.depthwise else ("CONV_2D", "Conv2DOptions")
        values = writer.operator(name, inputs, [batch, side, side, layer.outputs], kind, Padding=tflite.Padding.SAME,
                                 StrideH=layer.stride, StrideW=layer.stride,
                                 FusedActivationFunction=0 if layer.linear else tflite_graph.RELU6,
                                 **({"DepthMultiplier": 1} if layer.depthwise else {}))
        if layer.residual:
            values = writer.operator("ADD", [shortcut, values], [batch, side, side, layer.outputs], "AddOptions")
    classes, features = tensors["classifier.1.weight"].shape
    values = writer.operator("MEAN", [values, writer.constant("axes", np.int32([1, 2]))], [batch, features], "ReducerOptions")
    inputs = [values, writer.weight("logits", tensors["classifier.1.weight"]), writer.constant("bias", tensors["classifier.1.bias"])]
    values = writer.operator("FULLY_CONNECTED", inputs, [batch, classes], "FullyConnectedOptions")
    writer.save(path, first, values)


def main():
    weights, out = sys.argv[1], pathlib.Path(sys.argv[2])
    width, tensors = read(weights)
    write_onnx(out / "model.onnx", tensors, width)
    for batch in (1, 8):
        write_tflite(out / f"model_{batch}.tflite", tensors, width, batch)
    np.savez(out / "tensors.npz", **tensors)


if __name__ == "__main__":
    main()
