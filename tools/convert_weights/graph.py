"""Takes a graph of operations (TFLite, ONNX) for MobileNetV2 only if it is one, step by step in the order they run."""
import dataclasses

import mobilenet_v2
from network import ConvertError


@dataclasses.dataclass
class Step:
    # scale, shift, conv, norm, relu6, add, bias, pad, pool, dense, softmax, pass; any other has no place in the network
    kind: str
    name: str  # what the user may find it by in the file
    inputs: list  # ids of the tensors that it takes, weights left out
    output: object  # id of its result
    weights: dict = dataclasses.field(default_factory=dict)  # part (weight, bias, ...) -> (source, values, layout)
    value: float = 0.0  # of scale and shift
    stride: tuple = (1, 1)
    padding: object = (0, 0, 0, 0)  # top, left, bottom, right, or "same"
    depthwise: bool = False
    epsilon: float = 0.0

    def make_scaling(self, operation, value):
        """Arithmetic with one number, of which a graph's input may be brought into the network's range."""
        self.kind = "scale" if operation in ("MUL", "DIV") else "shift"
        self.value = {"MUL": value, "DIV": 1 / value if value else 0.0, "ADD": value, "SUB": -value}[operation]


class Chain:
    """The steps, each of which takes the result of the one before; passes (a change of shape, say) do nothing."""

    def __init__(self, steps, input_id):
        self.steps = list(steps)
        self.tensor = input_id

    def next_is(self, kind):
        while self.steps and self.steps[0].kind == "pass" and self.tensor in self.steps[0].inputs:
            self.tensor = self.steps.pop(0).output
        return bool(self.steps) and self.steps[0].kind == kind

    def take(self, kinds, wanted):
        if not any(self.next_is(kind) for kind in kinds):
            raise ConvertError(f"ends where MobileNetV2 has {wanted}" if not self.steps else
                               f"{self.steps[0].name} stands where MobileNetV2 has {wanted}")
        step = self.steps.pop(0)
        if self.tensor not in step.inputs:
            raise ConvertError(f"{step.name} does not take the result of the step before it, as MobileNetV2 does")
        self.tensor = step.output
        return step


def add_weights(network, step, target, parts):
    for part in parts:
        if part in step.weights:
            network.add(f"{target}.{part}", *step.weights[part])


def padding_of(step, layer):
    """same or symmetric; None where the two are one."""
    around = layer.kernel // 2
    kinds = {"same": "same"}
    if layer.stride == 2:
        kinds.update({(0, 0, 1, 1): "same", (1, 1, 1, 1): "symmetric"})
    else:
        kinds = {"same": None, (around,) * 4: None}
    if step.padding not in kinds:
        raise ConvertError(f"{step.name} is padded by {step.padding}, as no MobileNetV2 is")
    return kinds[step.padding]


def take_convolution(chain, network, layer):
    pad = chain.take(["pad"], "padding").padding if chain.next_is("pad") else None
    step = chain.take(["conv"], f"the convolution {layer.conv}")
    if pad is not None:
        if step.padding != (0, 0, 0, 0):
            raise ConvertError(f"{step.name} is padded twice")
        step.padding = pad
    if step.stride != (layer.stride,) * 2 or step.depthwise != layer.depthwise:
        kind = "depthwise" if layer.depthwise else "full"
        raise ConvertError(f"{step.name} stands where MobileNetV2 has a {kind} convolution of stride {layer.stride}")
    add_weights(network, step, layer.conv, ("weight", "bias"))
    if chain.next_is("norm"):
        norm = chain.take(["norm"], "batch norm")
        network.set_once("epsilon", norm.epsilon, norm.name)
        add_weights(network, norm, layer.norm, mobilenet_v2.BATCH_NORM)
    return padding_of(step, layer), step.name


def take_scaling(chain, network):
    """A graph that takes 0..1 or 0..255 and brings it into the network's range by itself."""
    factor, offset = 1.0, 0.0
    while chain.next_is("scale") or chain.next_is("shift"):
        step = chain.take(["scale", "shift"], "the input's range")
        if step.kind == "scale":
            factor, offset = factor * step.value, offset * step.value
        else:
            offset += step.value
    if (factor, offset) != (1.0, 0.0):
        network.set_scaling(factor, offset)


def assemble(steps, input_id, network):
    """Fills `network` from `steps`. Fails with ConvertError at the first step that MobileNetV2 does not have."""
    chain = Chain(steps, input_id)
    take_scaling(chain, network)
    shortcut = None
    for layer in mobilenet_v2.layers(1.0):
        if layer.opens_block:
            shortcut = chain.tensor
        padding, name = take_convolution(chain, network, layer)
        if padding is not None:
            network.set_once("padding", padding, name)
        if not layer.linear:
            chain.take(["relu6"], f"relu6 after {layer.conv}")
        if layer.residual:
            add = chain.take(["add"], f"the sum after {layer.conv}")
            if shortcut not in add.inputs:
                raise ConvertError(f"{add.name} does not add the input of its block, as MobileNetV2 does")
    chain.take(["pool"], "the average over the picture")
    classifier = chain.take(["dense", "conv"], "the classifier")
    add_weights(network, classifier, "classifier.1", ("weight", "bias"))
    if "bias" not in classifier.weights and chain.next_is("bias"):
        add_weights(network, chain.take(["bias"], "the classifier's bias"), "classifier.1", ("bias",))
    if chain.next_is("softmax"):
        chain.take(["softmax"], "softmax")
    if chain.next_is("pass") or chain.steps:
        raise ConvertError(f"{chain.steps[0].name} stands where MobileNetV2 ends")
    network.flatten_classifier()
