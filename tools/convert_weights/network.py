"""What every reader of a format hands over: tensors under cistern's names, and what the card must say of them."""
import contextlib
import dataclasses

import numpy as np

# Input ranges, as value = (pixel/255 - mean) / std for each of red, green, blue.
MINUS_ONE_TO_ONE = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
ZERO_TO_ONE = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

# How each layout of a kernel becomes out, in, height, width (a matrix: out, in).
AXES = {"OIHW": (0, 1, 2, 3), "HWIO": (3, 2, 0, 1), "OHWI": (0, 3, 1, 2), "1HWC": (3, 0, 1, 2), "HWC1": (2, 3, 0, 1),
        "OI": (0, 1), "IO": (1, 0), "C": (0,)}


class ConvertError(Exception):
    """One line for the user: what is wrong with the file, where, and where that helps, what to do."""


@contextlib.contextmanager
def parsing(what):
    """Foreign parsers fail with anything, struct.error to KeyError; whatever it is, the file is no `what`."""
    try:
        yield
    except ConvertError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise ConvertError(f"is no {what}, or damaged: {reason}") from error


@dataclasses.dataclass
class Tensor:
    source: str  # the name in the file it came from
    source_shape: tuple
    values: np.ndarray  # float32, contiguous, in cistern's layout


@dataclasses.dataclass
class Network:
    model: str = "mobilenet_v2"
    tensors: dict = dataclasses.field(default_factory=dict)  # cistern's name -> Tensor
    skipped: list = dataclasses.field(default_factory=list)  # (name in the file, why it is not needed)
    padding: str = None  # same unless the file says otherwise
    epsilon: float = None  # 1e-3 likewise
    size: int = 224
    range: tuple = MINUS_ONE_TO_ONE
    origin: str = ""

    def add(self, target, source, values, layout):
        """Takes `values`, called `source` in the file and laid out as AXES says, as the tensor `target`."""
        if target in self.tensors:
            raise ConvertError(f"has two tensors for {target}: {self.tensors[target].source} and {source}")
        values = np.asarray(values)
        if values.ndim != len(AXES[layout]):
            raise ConvertError(f"tensor {source} has shape {list(values.shape)}, {target} wants the axes {layout}")
        converted = np.ascontiguousarray(values.transpose(AXES[layout]), dtype=np.float32)
        self.tensors[target] = Tensor(source, values.shape, converted)

    def flatten_classifier(self):
        """A classifier that is a 1x1 convolution becomes the matrix it is."""
        tensor = self.tensors.get("classifier.1.weight")
        if tensor is not None and tensor.values.shape[2:] == (1, 1):
            tensor.values = tensor.values.reshape(tensor.values.shape[:2])

    def check_shapes(self, shapes):
        """Fails with ConvertError unless there is exactly a tensor of each name and shape, of finite numbers."""
        for name, tensor in self.tensors.items():
            if name not in shapes:
                raise ConvertError(f"tensor {tensor.source} belongs to no layer of {self.model}")
        for name, shape in shapes.items():
            if name not in self.tensors:
                raise ConvertError(f"has no tensor for {name}")
            tensor = self.tensors[name]
            if tensor.values.shape != shape:
                raise ConvertError(f"tensor {tensor.source} has shape {list(tensor.source_shape)}, which becomes "
                                   f"{list(tensor.values.shape)}; {name} wants {list(shape)}")
            if not np.isfinite(tensor.values).all():
                raise ConvertError(f"tensor {tensor.source} holds values that are no numbers")

    def set_once(self, key, value, source):
        """Sets padding or epsilon, which must be one for the whole network."""
        before = getattr(self, key)
        if before is not None and before != value:
            raise ConvertError(f"{source} has {key} {value}, what came before it has {before}")
        setattr(self, key, value)

    def set_size(self, shape):
        """Takes height, width, channels of the pictures; one that the file leaves open (None, -1) stays 224."""
        height, width, channels = (size if size and size > 0 else None for size in shape)
        wanted = 1 if self.model == "mnist_cnn" else 3
        if height != width or channels != wanted:
            raise ConvertError(f"takes pictures of height, width, channels {list(shape)}, "
                               f"not square ones of channels {wanted}")
        self.size = height or self.size

    def set_scaling(self, factor, offset):
        """Takes over that the file's graph itself does factor*x + offset to its input, which ours does not.

        Such an x is 0 to 1 (TF-Hub's convention) or, if the factor is that small, 0 to 255.
        """
        highest = 1 if factor > 0.1 else 255
        self.set_range(offset, factor * highest + offset)

    def set_range(self, lowest, highest):
        """Takes what black and white become; the small error of quantised borders is no range of its own."""
        std = 1 / (highest - lowest)
        self.range = ((-lowest * std,) * 3, (std,) * 3)
        for known in (MINUS_ONE_TO_ONE, ZERO_TO_ONE):
            if np.allclose(self.range, known, rtol=0, atol=0.005):
                self.range = known
