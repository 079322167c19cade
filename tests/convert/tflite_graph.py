"""Writes MobileNetV2 as a TFLite flatbuffer in the manner of Keras' models: stride 2 padded by an operation of its own,
a fully connected classifier; weights as float32, as float16 that are widened when run, or as uint8 of one scale and
zero point each."""
import flatbuffers
import numpy as np
import tflite

import mobilenet_v2

TYPES = {"float32": tflite.TensorType.FLOAT32, "float16": tflite.TensorType.FLOAT16, "uint8": tflite.TensorType.UINT8,
         "int32": tflite.TensorType.INT32}
RELU6 = tflite.ActivationFunctionType.RELU6


def quantised(values):
    """uint8 codes, scale and zero point."""
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    scale = (high - low) / 255
    zero = round(-low / scale)
    return np.clip(np.round(values / scale) + zero, 0, 255).astype(np.uint8), scale, zero


class Writer:
    def __init__(self, stored):
        self.builder = flatbuffers.Builder(1 << 24)
        self.stored = stored
        self.buffers, self.tensors, self.operators, self.codes = [self.table("Buffer")], [], [], []

    def table(self, kind, **fields):
        getattr(tflite, f"{kind}Start")(self.builder)
        for name, value in fields.items():
            getattr(tflite, f"{kind}Add{name}")(self.builder, value)
        return getattr(tflite, f"{kind}End")(self.builder)

    def vector(self, offsets):
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return self.builder.EndVector()

    def integers(self, values):
        return self.builder.CreateNumpyVector(np.array(values, np.int32))

    def tensor(self, name, shape, dtype="float32", buffer=0, **fields):
        fields.update(Shape=self.integers(shape), Name=self.builder.CreateString(name))
        self.tensors.append(self.table("Tensor", Type=TYPES[dtype], Buffer=buffer, **fields))
        return len(self.tensors) - 1

    def constant(self, name, values, **fields):
        values = np.ascontiguousarray(values)
        data = self.builder.CreateNumpyVector(values.reshape(-1).view(np.uint8))
        self.buffers.append(self.table("Buffer", Data=data))
        return self.tensor(name, values.shape, values.dtype.name, len(self.buffers) - 1, **fields)

    def weight(self, name, values):
        if self.stored == "uint8":
            codes, scale, zero = quantised(values)
            fields = {"Scale": np.float32([scale]), "ZeroPoint": np.int64([zero])}
            fields = {name: self.builder.CreateNumpyVector(values) for name, values in fields.items()}
            quantization = self.table("QuantizationParameters", **fields)
            return self.constant(name, codes, Quantization=quantization)
        index = self.constant(name, values.astype(self.stored))
        if self.stored == "float32":
            return index
        return self.operator("DEQUANTIZE", [index], values.shape)

    def operator(self, operation, inputs, shape, kind=None, **options):
        output = self.tensor(f"{operation}_{len(self.operators)}", shape)
        code = getattr(tflite.BuiltinOperator, operation)
        if code not in self.codes:
            self.codes.append(code)
        fields = {"OpcodeIndex": self.codes.index(code), "Inputs": self.integers(inputs),
                  "Outputs": self.integers([output])}
        if kind is not None:
            fields["BuiltinOptions"] = self.table(kind, **options)
            fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, kind)
        self.operators.append(self.table("Operator", **fields))
        return output

    def save(self, path, first, last):
        graph = self.table("SubGraph", Tensors=self.vector(self.tensors), Operators=self.vector(self.operators),
                           Inputs=self.integers([first]), Outputs=self.integers([last]))
        codes = [self.table("OperatorCode", BuiltinCode=code, DeprecatedBuiltinCode=min(code, 127))
                 for code in self.codes]
        model = self.table("Model", Version=3, OperatorCodes=self.vector(codes), Subgraphs=self.vector([graph]),
                           Buffers=self.vector(self.buffers))
        self.builder.Finish(model, b"TFL3")
        path.write_bytes(self.builder.Output())


def add_convolution(writer, layer, tensors, values, side):
    padding = tflite.Padding.SAME
    if layer.stride == 2:
        amounts = writer.constant(f"{layer.slim}/paddings", np.int32([[0, 0], [0, 1], [0, 1], [0, 0]]))
        values = writer.operator("PAD", [values, amounts], [1, side + 1, side + 1, layer.inputs], "PadOptions")
        padding, side = tflite.Padding.VALID, side // 2
    kernel = tensors[f"{layer.conv}.weight"].transpose((1, 2, 3, 0) if layer.depthwise else (0, 2, 3, 1))
    inputs = [values, writer.weight(f"{layer.slim}/weights", kernel),
              writer.constant(f"{layer.slim}/biases", tensors[f"{layer.conv}.bias"])]
    name, kind = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions") if layer.depthwise else ("CONV_2D", "Conv2DOptions")
    options = {"DepthMultiplier": 1} if layer.depthwise else {}
    values = writer.operator(name, inputs, [1, side, side, layer.outputs], kind, Padding=padding, StrideH=layer.stride,
                             StrideW=layer.stride, FusedActivationFunction=0 if layer.linear else RELU6, **options)
    return values, side


def save(path, tensors, width=1.0, stored="float32", scaling=()):
    """`scaling`: operations with one number that are done to the pictures first, as (name, number)."""
    writer = Writer(stored)
    side = 224
    first = values = writer.tensor("pictures", [1, side, side, 3])
    for operation, number in scaling:
        constant = writer.constant(f"{operation}/y", np.float32(number))
        values = writer.operator(operation, [values, constant], [1, side, side, 3], f"{operation.title()}Options")
    for layer in mobilenet_v2.layers(width):
        if layer.opens_block:
            shortcut = values
        values, side = add_convolution(writer, layer, tensors, values, side)
        if layer.residual:
            values = writer.operator("ADD", [shortcut, values], [1, side, side, layer.outputs], "AddOptions")
    classes, features = tensors["classifier.1.weight"].shape
    axes = writer.constant("axes", np.int32([1, 2]))
    values = writer.operator("MEAN", [values, axes], [1, features], "ReducerOptions")
    inputs = [values, writer.weight("Logits/weights", tensors["classifier.1.weight"]),
              writer.constant("Logits/biases", tensors["classifier.1.bias"])]
    values = writer.operator("FULLY_CONNECTED", inputs, [1, classes], "FullyConnectedOptions")
    values = writer.operator("SOFTMAX", [values], [1, classes], "SoftmaxOptions", Beta=1.0)
    writer.save(path, first, values)
