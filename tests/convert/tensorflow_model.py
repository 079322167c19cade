"""Run by TensorFlow's own Python: writes MobileNetV2 as TF-Hub's module of it is, and what it computes.

    tensorflow_model.py TENSORS_NPZ PICTURES_NPY OUT_FOLDER

TENSORS_NPZ has the tensors by cistern's names, batch norm separate. OUT_FOLDER gets hub/ (a SavedModel that takes 0 to
1 and scales it inside), plain/ (one that does not scale), hub.tar.gz, slim.ckpt.* (a checkpoint with moving averages
and an optimizer's slots), and logits.npy of the pictures (u8) by the hub's.
"""
import os
import pathlib
import sys
import tarfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "convert_weights"))
import mobilenet_v2  # noqa: E402

NORM = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}


def slim_variables(tensors):
    """(name, values) of each variable, as TF-slim names them and lays them out."""
    for layer in mobilenet_v2.layers(1.0):
        scope, kernel = f"MobilenetV2/{layer.slim}", tensors[f"{layer.conv}.weight"]
        if layer.depthwise:
            yield f"{scope}/depthwise_weights", kernel.transpose(2, 3, 0, 1)
        else:
            yield f"{scope}/weights", kernel.transpose(2, 3, 1, 0)
        for part, ours in NORM.items():
            yield f"{scope}/BatchNorm/{part}", tensors[f"{layer.norm}.{ours}"]
    yield "MobilenetV2/Logits/Conv2d_1c_1x1/weights", tensors["classifier.1.weight"].T[None, None]
    yield "MobilenetV2/Logits/Conv2d_1c_1x1/biases", tensors["classifier.1.bias"]


class Module(tf.Module):
    def __init__(self, tensors, scales_inside):
        super().__init__()
        self.scales_inside = scales_inside
        self.all = {name.replace("/", "."): tf.Variable(values, name=name) for name, values in slim_variables(tensors)}

    def get(self, name):
        return self.all[f"MobilenetV2/{name}".replace("/", ".")]

    @tf.function(input_signature=[tf.TensorSpec([None, 224, 224, 3])])
    def __call__(self, pictures):
        values = pictures * 2.0 - 1.0 if self.scales_inside else pictures
        for layer in mobilenet_v2.layers(1.0):
            if layer.opens_block:
                shortcut = values
            if layer.depthwise:
                kernel = self.get(f"{layer.slim}/depthwise_weights")
                values = tf.nn.depthwise_conv2d(values, kernel, [1, layer.stride, layer.stride, 1], "SAME")
            else:
                values = tf.nn.conv2d(values, self.get(f"{layer.slim}/weights"), layer.stride, "SAME")
            norm = [self.get(f"{layer.slim}/BatchNorm/{part}") for part in NORM]
            values = tf.compat.v1.nn.fused_batch_norm(values, *norm, epsilon=1e-3, is_training=False)[0]
            if not layer.linear:
                values = tf.nn.relu6(values)
            if layer.residual:
                values = values + shortcut
        pooled = tf.reduce_mean(values, [1, 2], keepdims=True)
        logits = tf.nn.conv2d(pooled, self.get("Logits/Conv2d_1c_1x1/weights"), 1, "SAME")
        return tf.squeeze(tf.nn.bias_add(logits, self.get("Logits/Conv2d_1c_1x1/biases")), [1, 2])


def save_slim_checkpoint(tensors, prefix):
    """As TF-slim's training leaves it: the weights to use are the moving averages."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = [tf.compat.v1.Variable(np.int64(7), name="global_step")]
        for name, values in slim_variables(tensors):
            variables.append(tf.compat.v1.Variable(values + 1, name=name))
            variables.append(tf.compat.v1.Variable(values, name=f"{name}/ExponentialMovingAverage"))
            variables.append(tf.compat.v1.Variable(np.zeros_like(values), name=f"{name}/RMSProp"))
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver(variables).save(session, str(prefix), write_meta_graph=False)


def main(tensors_file, pictures_file, out):
    tensors, pictures, out = dict(np.load(tensors_file)), np.load(pictures_file), pathlib.Path(out)
    hub = Module(tensors, scales_inside=True)
    tf.saved_model.save(hub, str(out / "hub"))
    tf.saved_model.save(Module(tensors, scales_inside=False), str(out / "plain"))
    with tarfile.open(out / "hub.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(out / "hub", ".")
    save_slim_checkpoint(tensors, out / "slim.ckpt")
    np.save(out / "logits.npy", hub(tf.constant(pictures / np.float32(255))).numpy())


main(*sys.argv[1:])
