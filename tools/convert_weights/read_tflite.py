"""TFLite flatbuffers of MobileNetV2: float, or quantised (then every tensor becomes the float that it stands for)."""
import numpy as np
import tflite

import graph
import network as net
from network import ConvertError, Network, parsing

DTYPES = {tflite.TensorType.FLOAT32: np.float32, tflite.TensorType.FLOAT16: np.float16, tflite.TensorType.INT8: np.int8,
          tflite.TensorType.UINT8: np.uint8, tflite.TensorType.INT16: np.int16, tflite.TensorType.INT32: np.int32,
          tflite.TensorType.INT64: np.int64}
OPERATIONS = {value: name for name, value in vars(tflite.BuiltinOperator).items() if isinstance(value, int)}
KINDS = {"ADD": "add", "MEAN": "pool", "AVERAGE_POOL_2D": "pool", "SOFTMAX": "softmax", "RELU6": "relu6", "PAD": "pad",
         "QUANTIZE": "pass", "DEQUANTIZE": "pass", "RESHAPE": "pass", "SQUEEZE": "pass"}

ARITHMETIC = {"ADD": tflite.AddOptions, "SUB": tflite.SubOptions, "MUL": tflite.MulOptions, "DIV": tflite.DivOptions}


def read(path):
    data = path.read_bytes()
    with parsing("TFLite file"):
        if not tflite.Model.ModelBufferHasIdentifier(data, 0):
            raise ConvertError("is no TFLite file")
        model = tflite.Model.GetRootAs(data, 0)
        if model.SubgraphsLength() != 1:
            raise ConvertError(f"has {model.SubgraphsLength()} graphs, MobileNetV2 is one")
        file = File(model)
        steps = list(file.steps())
        network = Network(origin="TFLite file of a MobileNetV2")
        file.describe_input(network)
    graph.assemble(steps, file.subgraph.Inputs(0), network)
    return network


class File:
    def __init__(self, model):
        self.model = model
        self.subgraph = model.Subgraphs(0)
        self.widened = {}  # result of a DEQUANTIZE of a constant -> that constant

    def name(self, index):
        return self.subgraph.Tensors(index).Name().decode(errors="replace").split(";")[0]

    def is_constant(self, index):
        return self.model.Buffers(self.subgraph.Tensors(index).Buffer()).DataLength() > 0

    def constant(self, index):
        """The numbers of a constant tensor, dequantised."""
        index = self.widened.get(index, index)
        tensor = self.subgraph.Tensors(index)
        buffer = self.model.Buffers(tensor.Buffer())
        if tensor.Type() not in DTYPES or tensor.Sparsity() is not None or not self.is_constant(index):
            raise ConvertError(f"tensor {self.name(index)} is of a kind that this tool does not know")
        shape = tensor.ShapeAsNumpy() if tensor.ShapeLength() else ()
        values = buffer.DataAsNumpy().view(DTYPES[tensor.Type()]).reshape(shape)
        return values if values.dtype.kind == "f" else self.dequantised(index, values)

    def dequantised(self, index, values):
        quantization = self.subgraph.Tensors(index).Quantization()
        if quantization is None or not quantization.ScaleLength():
            raise ConvertError(f"tensor {self.name(index)} is of integers without a scale")
        scale = quantization.ScaleAsNumpy().astype(np.float64)
        zero = quantization.ZeroPointAsNumpy() if quantization.ZeroPointLength() else np.zeros(1, np.int64)
        along = [1] * values.ndim
        if len(scale) > 1:
            along[quantization.QuantizedDimension()] = len(scale)
        zero = zero.reshape(along if len(zero) > 1 else [1] * values.ndim)
        return (values.astype(np.float64) - zero) * scale.reshape(along)

    def steps(self):
        for number in range(self.subgraph.OperatorsLength()):
            operator = self.subgraph.Operators(number)
            code = self.model.OperatorCodes(operator.OpcodeIndex())
            operation = OPERATIONS.get(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()), "unknown")
            yield from self.steps_of(operator, operation)

    def steps_of(self, operator, operation):
        inputs = [int(index) for index in operator.InputsAsNumpy() if index >= 0]
        output = int(operator.Outputs(0))
        if operation == "DEQUANTIZE" and self.is_constant(inputs[0]):
            self.widened[output] = inputs[0]
            return
        step = graph.Step(KINDS.get(operation, operation), f"{operation} {self.name(output)}", inputs, output)
        activation = tflite.ActivationFunctionType.NONE
        if operation in ("CONV_2D", "DEPTHWISE_CONV_2D"):
            activation = self.make_convolution(step, operator, operation)
        elif operation == "FULLY_CONNECTED":
            step.kind, step.weights = "dense", self.weights(inputs, "OI")
            activation = self.options(operator, tflite.FullyConnectedOptions).FusedActivationFunction()
        elif operation in ARITHMETIC:
            activation = self.options(operator, ARITHMETIC[operation]).FusedActivationFunction()
            if self.is_constant(inputs[1]) and self.constant(inputs[1]).size == 1:
                step.make_scaling(operation, self.constant(inputs[1]).item())
        elif operation == "PAD":
            step.padding = self.padding(inputs[1], step.name)
        if activation == tflite.ActivationFunctionType.RELU6:
            step.output = ("before relu6", output)
            yield step
            step = graph.Step("relu6", step.name, [step.output], output)
        elif activation != tflite.ActivationFunctionType.NONE:
            raise ConvertError(f"{step.name} ends in an activation that MobileNetV2 does not have")
        yield step

    def make_convolution(self, step, operator, operation):
        step.kind, step.depthwise = "conv", operation == "DEPTHWISE_CONV_2D"
        options = self.options(operator, tflite.DepthwiseConv2DOptions if step.depthwise else tflite.Conv2DOptions)
        step.weights = self.weights(step.inputs, "1HWC" if step.depthwise else "OHWI")
        step.stride = (options.StrideH(), options.StrideW())
        step.padding = "same" if options.Padding() == tflite.Padding.SAME else (0, 0, 0, 0)
        if (options.DilationHFactor(), options.DilationWFactor()) != (1, 1):
            raise ConvertError(f"{step.name} is dilated, as no MobileNetV2 is")
        return options.FusedActivationFunction()

    def weights(self, inputs, layout):
        parts = zip(("weight", "bias"), inputs[1:3], (layout, "C"))
        return {part: (self.name(index), self.constant(index), axes) for part, index, axes in parts}

    def padding(self, index, name):
        tensor = self.subgraph.Tensors(index)
        amounts = self.model.Buffers(tensor.Buffer()).DataAsNumpy().view(DTYPES[tensor.Type()]).reshape(4, 2).tolist()
        if amounts[0] != [0, 0] or amounts[3] != [0, 0]:
            raise ConvertError(f"{name} pads more than height and width")
        return (amounts[1][0], amounts[2][0], amounts[1][1], amounts[2][1])

    @staticmethod
    def options(operator, kind):
        table = operator.BuiltinOptions()
        options = kind()
        options.Init(table.Bytes, table.Pos)
        return options

    def describe_input(self, network):
        """Size and range of the pictures. A float file does not say its range: TF-slim's is -1 to 1."""
        tensor = self.subgraph.Tensors(self.subgraph.Inputs(0))
        network.set_size(tensor.ShapeAsNumpy().tolist()[1:])
        network.range = net.MINUS_ONE_TO_ONE
        if tensor.Type() in (tflite.TensorType.UINT8, tflite.TensorType.INT8):
            scale, zero = float(tensor.Quantization().Scale(0)), int(tensor.Quantization().ZeroPoint(0))
            first = 0 if tensor.Type() == tflite.TensorType.UINT8 else -128
            network.set_range(scale * (first - zero), scale * (first + 255 - zero))
