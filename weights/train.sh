#!/usr/bin/env bash
# Trains again the weights that are shipped here: weights/train.sh [FOLDER]. About half an hour of one core.
# Needs build/release and Debian's dataset-fashion-mnist (tools/setup.sh --tests).
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-weights}
common=(--device cpu --threads 1)
mkdir -p "$out"
stage=$(mktemp -d)
trap 'rm -r "$stage"' EXIT

train() { OMP_NUM_THREADS=1 build/release/bin/cistern-train "${common[@]}" "$@"; }

train --dataset mnist --epochs 10 --seed 1 --save "$out/mnist_cnn.safetensors"
train --dataset fashion-mnist --model mobilenet_v2 --width 0.35 --batch-size 64 --augment flip \
    --epochs 3 --lr 0.002 --lr-decay 0.55 --seed 1 --save "$stage/first.safetensors"
# Once more from a high rate, and without mirror images: 2 points of accuracy in three epochs.
train --dataset fashion-mnist --weights "$stage/first.safetensors" --batch-size 64 --augment none \
    --epochs 3 --lr 0.001 --lr-decay 0.4 --seed 2 --save "$out/fashion_mnist.safetensors"
