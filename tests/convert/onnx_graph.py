"""Writes MobileNetV2 as an ONNX graph in the manner of TensorFlow's converters: padding SAME, MatMul + Add."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import mobilenet_v2


class Graph:
    def __init__(self, tensors):
        self.nodes, self.initializers, self.tensors = [], [], tensors

    def constant(self, name, values):
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def add(self, operation, inputs, **attributes):
        output = f"{operation}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, inputs, [output], name=output, **attributes))
        return output

    def convolution(self, layer, values):
        weight = self.constant(f"{layer.slim}/weights", self.tensors[f"{layer.conv}.weight"])
        values = self.add("Conv", [values, weight], auto_pad="SAME_UPPER", strides=[layer.stride] * 2,
                          group=layer.outputs if layer.depthwise else 1)
        norm = [self.constant(f"{layer.slim}/{part}", self.tensors[f"{layer.norm}.{part}"])
                for part in mobilenet_v2.BATCH_NORM]
        return self.add("BatchNormalization", [values, *norm], epsilon=1e-3)


def model(tensors, width=1.0, scaling=()):
    """`scaling`: operations with one number that are done to the pictures first, as (name, number)."""
    graph = Graph(tensors)
    zero, six = graph.constant("zero", np.float32(0)), graph.constant("six", np.float32(6))
    values = "pictures"
    for operation, number in scaling:
        values = graph.add(operation, [values, graph.constant(f"{operation}/y", np.float32(number))])
    values = graph.add("Transpose", [values], perm=[0, 3, 1, 2])
    for layer in mobilenet_v2.layers(width):
        if layer.opens_block:
            shortcut = values
        values = graph.convolution(layer, values)
        if not layer.linear:
            values = graph.add("Clip", [values, zero, six])
        if layer.residual:
            values = graph.add("Add", [shortcut, values])
    values = graph.add("GlobalAveragePool", [values])
    values = graph.add("Flatten", [values])
    values = graph.add("MatMul", [values, graph.constant("Logits/weights", tensors["classifier.1.weight"].T)])
    values = graph.add("Add", [values, graph.constant("Logits/biases", tensors["classifier.1.bias"])])
    values = graph.add("Softmax", [values])
    pictures = helper.make_tensor_value_info("pictures", TensorProto.FLOAT, ["n", 224, 224, 3])
    result = helper.make_tensor_value_info(values, TensorProto.FLOAT, ["n", len(tensors["classifier.1.bias"])])
    return helper.make_model(helper.make_graph(graph.nodes, "mobilenet_v2", [pictures], [result], graph.initializers))


def save(path, tensors, width=1.0, scaling=()):
    onnx.save(model(tensors, width, scaling), path)
