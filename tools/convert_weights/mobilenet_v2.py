"""MobileNetV2's layers in the order they run, under the names of cistern's weights file (torchvision's state_dict)."""
import dataclasses

# Expansion, channels, repeats, first stride; at width 1.
STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
BATCH_NORM = ("weight", "bias", "running_mean", "running_var")


@dataclasses.dataclass(frozen=True)
class Layer:
    conv: str  # e.g. features.0.0
    norm: str  # e.g. features.0.1
    slim: str  # TF-slim's name, e.g. expanded_conv_3/expand
    keras: tuple  # Keras' names of convolution and batch norm
    inputs: int
    outputs: int
    kernel: int
    stride: int
    depthwise: bool
    opens_block: bool = False
    linear: bool = False  # no relu6 after it: the last of its block
    residual: bool = False  # the block's input is added to it

    @property
    def shape(self):
        return (self.outputs, 1 if self.depthwise else self.inputs, self.kernel, self.kernel)


def divisible(channels):
    """The multiple of 8 that all implementations round to: never below 8, never more than a tenth down."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def layers(width):
    """All 52 convolutions; the classifier, a dense layer without batch norm, is not among them."""
    stem = divisible(32 * width)
    result = [Layer("features.0.0", "features.0.1", "Conv", ("Conv1", "bn_Conv1"), 3, stem, 3, 2, False)]
    inputs, block = stem, 0
    for expansion, channels, repeats, first_stride in STAGES:
        outputs = divisible(channels * width)
        for stride in [first_stride] + [1] * (repeats - 1):
            result += block_layers(block, inputs, inputs * expansion, outputs, stride)
            inputs, block = outputs, block + 1
    last = divisible(1280 * max(1.0, width))
    result.append(Layer("features.18.0", "features.18.1", "Conv_1", ("Conv_1", "Conv_1_bn"), inputs, last, 1, 1, False))
    return result


def block_layers(block, inputs, hidden, outputs, stride):
    slim = f"expanded_conv_{block}" if block else "expanded_conv"
    keras = f"block_{block}" if block else "expanded_conv"
    part = [0]

    def layer(name, inputs, outputs, **properties):
        conv = f"features.{block + 1}.conv.{part[0]}"
        names = (conv, f"features.{block + 1}.conv.{part[0] + 1}") if name == "project" else (f"{conv}.0", f"{conv}.1")
        part[0] += 1
        return Layer(*names, f"{slim}/{name}", (f"{keras}_{name}", f"{keras}_{name}_BN"), inputs, outputs, **properties)

    expand = [layer("expand", inputs, hidden, kernel=1, stride=1, depthwise=False, opens_block=True)] if block else []
    return expand + [
        layer("depthwise", hidden, hidden, kernel=3, stride=stride, depthwise=True, opens_block=not block),
        layer("project", hidden, outputs, kernel=1, stride=1, depthwise=False, linear=True,
              residual=stride == 1 and inputs == outputs)]


def shapes(width, classes, folded):
    """Every tensor of the weights file and its shape."""
    result = {}
    for layer in layers(width):
        result[f"{layer.conv}.weight"] = layer.shape
        if folded:
            result[f"{layer.conv}.bias"] = (layer.outputs,)
        else:
            result.update({f"{layer.norm}.{part}": (layer.outputs,) for part in BATCH_NORM})
    result["classifier.1.weight"] = (classes, layers(width)[-1].outputs)
    result["classifier.1.bias"] = (classes,)
    return result


def width_of(network):
    """The width multiplier whose channels the file has; where several have the same channels, a published one."""
    found = {name: tensor.values.shape[0] for name, tensor in network.tensors.items() if tensor.values.ndim == 4}
    published = [1.0, 1.4, 1.3, 0.75, 0.5, 0.35]
    for width in published + [hundredths / 100 for hundredths in range(5, 301)]:
        if all(found.get(f"{layer.conv}.weight", layer.outputs) == layer.outputs for layer in layers(width)):
            return width
    return 1.0  # The check of shapes will name the first tensor that differs.


def check(network):
    """The card's entries for this model. Fails with ConvertError, naming a tensor that is missing or wrong."""
    folded = "features.0.0.bias" in network.tensors
    width = width_of(network)
    classifier = network.tensors.get("classifier.1.bias")
    classes = len(classifier.values) if classifier is not None else 1001
    network.check_shapes(shapes(width, classes, folded))
    return {"model": "mobilenet_v2", "width": width, "classes": classes, "channels": 3,
            "padding": network.padding or "same", "epsilon": network.epsilon or 1e-3, "stem_stride": 2,
            "batch_norm": "folded" if folded else "separate"}
