"""The fastest MNIST epoch found for PyTorch in Python: tensors in memory, channels_last, fused Adam.

    mnist_torch.py DATA EPOCHS BATCH THREADS
"""
import torch

import mnist_idx


def main():
    data, epochs, batch, threads = mnist_idx.arguments()
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    x, y, x_test, y_test = (torch.from_numpy(array) for array in mnist_idx.load(data))
    x, x_test = (images.unsqueeze(1).contiguous(memory_format=torch.channels_last) for images in (x, x_test))
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 32, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
                                torch.nn.Linear(5408, 10)).to(memory_format=torch.channels_last)
    for layer in (model[0], model[4]):
        torch.nn.init.xavier_uniform_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-7, fused=True)
    loss_of = torch.nn.CrossEntropyLoss()

    def train():
        order = torch.randperm(len(x))
        images, labels = x[order], y[order]
        for first in range(0, len(x), batch):
            optimizer.zero_grad(set_to_none=True)
            loss_of(model(images[first:first + batch]), labels[first:first + batch]).backward()
            optimizer.step()

    report = mnist_idx.Report()
    for _ in range(epochs):
        report.epoch(train)
    with torch.no_grad():
        report.print((model(x_test).argmax(1) == y_test).float().mean().item())


if __name__ == "__main__":
    main()
