"""Runs MobileNetV2 in one inference engine for classify_pairs.py.

    mobilenet.py ENGINE FOLDER THREADS BATCH

FOLDER holds what mobilenet_files.py writes and images.f32, eight pictures [8][224][224][3]. Prints one line, the top-1
of each picture and the first picture's logits; then, for each number read, a line with the milliseconds of as many calls,
each by the wall's clock and by the processor's.
"""
import json
import pathlib
import sys
import time

import numpy as np

WARM_UP = 6


def onnxruntime(folder, threads, images):
    import onnxruntime as engine
    options = engine.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = engine.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    feed = {"pictures": np.ascontiguousarray(images.transpose(0, 3, 1, 2))}
    return lambda: session.run(None, feed)[0]


def openvino(folder, threads, images):
    import openvino as engine
    core = engine.Core()
    model = core.read_model(folder / "model.onnx")
    model.reshape([len(images), 3, 224, 224])
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY",
                "NUM_STREAMS": 1}
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    request.set_input_tensor(engine.Tensor(np.ascontiguousarray(images.transpose(0, 3, 1, 2)), shared_memory=True))

    def call():
        request.infer()
        return request.get_output_tensor().data
    return call


def litert(folder, threads, images):
    from ai_edge_litert.interpreter import Interpreter
    interpreter = Interpreter(str(folder / f"model_{len(images)}.tflite"), num_threads=threads)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], images)
    output = interpreter.get_output_details()[0]["index"]

    def call():
        interpreter.invoke()
        return interpreter.get_tensor(output)
    return call


def opencv(folder, threads, images):
    import cv2
    cv2.setNumThreads(threads)
    network = cv2.dnn.readNetFromONNX(str(folder / "model.onnx"))
    feed = np.ascontiguousarray(images.transpose(0, 3, 1, 2))

    def call():
        network.setInput(feed)
        return network.forward()
    return call


def torch_network(folder):
    import torch
    tensors = {name: torch.from_numpy(values) for name, values in np.load(folder / "tensors.npz").items()}
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "tools" / "convert_weights"))
    import mobilenet_v2

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.steps, self.convolutions = [], torch.nn.ModuleList()
            for layer in mobilenet_v2.layers(1.0):
                convolution = torch.nn.Conv2d(layer.inputs, layer.outputs, layer.kernel, layer.stride,
                                              padding=layer.kernel // 2 if layer.stride == 1 else 0,
                                              groups=layer.outputs if layer.depthwise else 1)
                convolution.weight.data, convolution.bias.data = (tensors[f"{layer.conv}.{part}"] for part in ("weight", "bias"))
                self.convolutions.append(convolution)
                self.steps.append((layer.opens_block, layer.stride, layer.linear, layer.residual))
            self.classifier = torch.nn.Linear(*reversed(tensors["classifier.1.weight"].shape))
            self.classifier.weight.data, self.classifier.bias.data = tensors["classifier.1.weight"], tensors["classifier.1.bias"]

        def forward(self, values):
            shortcut = values
            for convolution, (opens, stride, linear, residual) in zip(self.convolutions, self.steps):
                if opens:
                    shortcut = values
                if stride == 2:
                    values = torch.nn.functional.pad(values, (0, 1, 0, 1))
                values = convolution(values)
                if not linear:
                    values = torch.nn.functional.relu6(values)
                if residual:
                    values = values + shortcut
            return self.classifier(values.mean((2, 3)))

    return torch, Network().eval().to(memory_format=torch.channels_last)


def torch_engine(prepare):
    def build(folder, threads, images):
        torch, network = torch_network(folder)
        torch.set_num_threads(threads)
        feed = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
        with torch.inference_mode():
            run = prepare(torch, network, feed)

        def call():
            with torch.inference_mode():
                return run(feed).numpy()
        return call
    return build


def frozen(torch, network, feed):
    return torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(network, feed)))


ENGINES = {"onnxruntime": onnxruntime, "openvino": openvino, "litert": litert, "opencv": opencv,
           "torch-eager": torch_engine(lambda torch, network, feed: network),
           "torch-frozen": torch_engine(frozen),
           "torch-compile": torch_engine(lambda torch, network, feed: torch.compile(network))}


def main():
    engine, folder, threads, batch = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    images = np.fromfile(folder / "images.f32", np.float32).reshape(-1, 224, 224, 3)[:batch]
    call = ENGINES[engine](folder, threads, images)
    for _ in range(WARM_UP):
        logits = call()
    print(json.dumps({"top1": logits.argmax(1).tolist(), "logits": logits[0].tolist()}), flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            times.append(((time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3))
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
