"""The MNIST epoch of Keras' fit, as its example writes it.

    mnist_keras.py DATA EPOCHS BATCH THREADS
"""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras  # noqa: E402
import tensorflow  # noqa: E402

import mnist_idx  # noqa: E402


def main():
    data, epochs, batch, threads = mnist_idx.arguments()
    tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
    tensorflow.config.threading.set_inter_op_parallelism_threads(threads)
    keras.utils.set_random_seed(0)
    x, y, x_test, y_test = mnist_idx.load(data)
    model = keras.Sequential([keras.Input((28, 28, 1)), keras.layers.Conv2D(32, 3, activation="relu"),
                              keras.layers.MaxPooling2D(), keras.layers.Flatten(),
                              keras.layers.Dense(10, activation="softmax")])
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    report = mnist_idx.Report()
    for _ in range(epochs):
        report.epoch(lambda: model.fit(x[..., None], y, batch_size=batch, epochs=1, verbose=0))
    report.print(float(model.evaluate(x_test[..., None], y_test, batch_size=1000, verbose=0)[1]))


if __name__ == "__main__":
    main()
