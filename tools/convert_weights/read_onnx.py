"""ONNX graphs of MobileNetV2, as PyTorch, tf2onnx and the like write them; batch norm folded or not."""
import numpy as np
import onnx
from onnx import numpy_helper

import graph
import network as net
from network import ConvertError, Network, parsing

KINDS = {"GlobalAveragePool": "pool", "ReduceMean": "pool", "AveragePool": "pool", "Softmax": "softmax",
         "Reshape": "pass", "Flatten": "pass", "Squeeze": "pass", "Identity": "pass", "Dropout": "pass",
         "Transpose": "pass"}
ARITHMETIC = {"Add", "Sub", "Mul", "Div"}
# What only works out the shape for a Reshape. One that touched the pictures would break the chain of steps.
SHAPE_ARITHMETIC = {"Shape", "Gather", "Unsqueeze", "Concat", "Slice", "Cast"}
PARTS_OF_NORM = ("weight", "bias", "running_mean", "running_var")


def read(path):
    with parsing("ONNX file"):
        model = onnx.load(path)
        if not model.graph.node:
            raise ConvertError("is no ONNX file, or has no operations")
        file = File(model.graph)
        steps = file.steps()
        network = Network(range=None, origin="ONNX file of a MobileNetV2")
        input_id = file.describe_input(network)
    graph.assemble(steps, input_id, network)
    if network.range is None:  # ONNX does not say it: it follows from where such a padding comes from.
        network.range = net.IMAGENET if network.padding == "symmetric" else net.MINUS_ONE_TO_ONE
    return network


class File:
    def __init__(self, onnx_graph):
        self.graph = onnx_graph
        self.constants = {tensor.name: tensor for tensor in onnx_graph.initializer}
        used = {name for node in onnx_graph.node for name in node.input}
        for name in self.constants:
            if name not in used:
                raise ConvertError(f"tensor {name} is used by no operation")

    def describe_input(self, network):
        inputs = [value for value in self.graph.input if value.name not in self.constants]
        if len(inputs) != 1:
            raise ConvertError(f"takes {len(inputs)} inputs, MobileNetV2 takes one")
        shape = [size.dim_value or None for size in inputs[0].type.tensor_type.shape.dim]
        if len(shape) != 4:
            raise ConvertError(f"takes an input of shape {shape}, MobileNetV2 takes pictures")
        network.set_size(shape[1:] if shape[3] == 3 else [*shape[2:], shape[1]])
        return inputs[0].name

    def values(self, name):
        if name not in self.constants:
            raise ConvertError(f"tensor {name} is computed, not stored: nothing that this tool can take")
        return numpy_helper.to_array(self.constants[name])

    def weight(self, name, layout):
        return (name, self.values(name), layout)

    def steps(self):
        result = []
        for node in self.graph.node:
            attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
            if node.op_type == "Constant":
                self.constants[node.output[0]] = attributes["value"]
            elif node.op_type == "Identity" and node.input[0] in self.constants:
                self.constants[node.output[0]] = self.constants[node.input[0]]
            elif node.op_type not in SHAPE_ARITHMETIC:
                result.append(self.step_of(node, attributes))
        return result

    def step_of(self, node, attributes):
        name = f"{node.op_type} {node.name or node.output[0]}"
        step = graph.Step(KINDS.get(node.op_type, node.op_type), name, list(node.input), node.output[0])
        constants = [name for name in step.inputs if name in self.constants]
        if node.op_type in ARITHMETIC and step.inputs[1:] == constants and self.values(constants[0]).size == 1:
            step.make_scaling(node.op_type.upper(), self.values(constants[0]).item())
            return step
        make = getattr(self, f"make_{node.op_type.lower()}", None)
        if make is not None:
            make(step, attributes)
        return step

    def make_conv(self, step, attributes):
        step.kind = "conv"
        step.weights = {part: self.weight(name, layout)
                        for part, name, layout in zip(("weight", "bias"), step.inputs[1:], ("OIHW", "C"))}
        groups = attributes.get("group", 1)
        step.depthwise = groups > 1 and groups == step.weights["weight"][1].shape[0]
        step.stride = tuple(attributes.get("strides", (1, 1)))
        automatic = attributes.get("auto_pad", b"NOTSET").decode()
        explicit = tuple(attributes.get("pads", (0, 0, 0, 0)))
        paddings = {"NOTSET": explicit, "VALID": (0, 0, 0, 0), "SAME_UPPER": "same"}
        step.padding = paddings.get(automatic, automatic)
        if set(attributes.get("dilations", (1,))) != {1} or groups > 1 and not step.depthwise:
            raise ConvertError(f"{step.name} is dilated or grouped, as none of MobileNetV2 is")

    def make_batchnormalization(self, step, attributes):
        step.kind, step.epsilon = "norm", float(np.float32(attributes.get("epsilon", 1e-5)).astype(str))
        step.weights = {part: self.weight(name, "C") for part, name in zip(PARTS_OF_NORM, step.inputs[1:])}

    def make_clip(self, step, attributes):
        borders = [attributes.get("min"), attributes.get("max")]
        for place, name in enumerate(step.inputs[1:]):
            borders[place] = self.values(name).item()
        if borders == [0, 6]:
            step.kind = "relu6"

    def make_add(self, step, _):
        constants = [name for name in step.inputs if name in self.constants]
        step.kind = "bias" if constants else "add"
        step.weights = {"bias": self.weight(name, "C") for name in constants}

    def make_gemm(self, step, attributes):
        if attributes.get("alpha", 1.0) == attributes.get("beta", 1.0) == 1.0 and not attributes.get("transA", 0):
            self.make_matmul(step, attributes)
            if len(step.inputs) > 2:
                step.weights["bias"] = self.weight(step.inputs[2], "C")

    def make_matmul(self, step, attributes):
        step.kind = "dense"
        step.weights = {"weight": self.weight(step.inputs[1], "OI" if attributes.get("transB", 0) else "IO")}

    def make_pad(self, step, attributes):
        pads = attributes.get("pads") or self.values(step.inputs[1]).tolist()
        by_input = len(step.inputs) > 2 and step.inputs[2]
        value = self.values(step.inputs[2]).item() if by_input else attributes.get("value", 0)
        if attributes.get("mode", b"constant") == b"constant" and value == 0 and [*pads[:2], *pads[4:6]] == [0] * 4:
            step.kind, step.padding = "pad", (pads[2], pads[3], pads[6], pads[7])
