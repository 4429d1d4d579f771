"""The training loop of the "Training with PyTorch" tutorial's kind, on scikit-learn's handwritten digits."""

from functools import partial
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import serialization
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset
from torch.utils.tensorboard import SummaryWriter

torch.manual_seed(42)
key = jax.random.key(42)

REPORT_EVERY = 50
EPOCHS = 4


class Digits(Dataset):
    """8x8 grey images with values in [-1, 1] and their labels."""

    def __init__(self, train=True, num_train=1400):
        digits = load_digits()
        images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 8.0 - 1.0
        labels = torch.tensor(digits.target, dtype=torch.long)
        if train:
            self.images, self.labels = images[:num_train], labels[:num_train]
        else:
            self.images, self.labels = images[num_train:], labels[num_train:]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


training_set = Digits(train=True)
validation_set = Digits(train=False)

training_loader = DataLoader(training_set, batch_size=8, shuffle=True)
validation_loader = DataLoader(validation_set, batch_size=8, shuffle=False)

print("Training set has {} instances".format(len(training_set)))
print("Validation set has {} instances".format(len(validation_set)))


def cross_entropy(logits, labels, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """Softmax cross entropy as torch has it: classes on axis 1, labels of `ignore_index` left out."""
    axis = min(1, logits.ndim - 1)
    log_probs = jax.nn.log_softmax(logits, axis)
    if labels.shape == logits.shape:  # probabilities
        losses = -(labels * log_probs).sum(axis)
        kept = jnp.ones_like(losses, bool)
    else:
        kept = labels != ignore_index
        index = jnp.expand_dims(jnp.where(kept, labels, 0), axis)
        losses = -jnp.take_along_axis(log_probs, index, axis).squeeze(axis)
    if label_smoothing:  # not 0 times the mean, which may be infinite
        losses = (1 - label_smoothing) * losses - label_smoothing * log_probs.mean(axis)
    losses = jnp.where(kept, losses, 0)
    if reduction == "none":
        return losses
    return losses.sum() / kept.sum() if reduction == "mean" else losses.sum()


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class DigitClassifier(nn.Module):
    def setup(self):
        self.conv1 = nn.Conv(8, (3, 3), padding=1, **torch_init(fan_in=1 * 3 * 3))
        self.pool = partial(nn.max_pool, window_shape=(2, 2), strides=(2, 2))
        self.conv2 = nn.Conv(16, (3, 3), padding=1, **torch_init(fan_in=8 * 3 * 3))
        self.fc1 = nn.Dense(48, **torch_init(fan_in=16 * 2 * 2))
        self.fc2 = nn.Dense(10, **torch_init(fan_in=48))

    def __call__(self, x):
        x = self.pool(nn.relu(self.conv1(x.transpose(0, 2, 3, 1))))
        x = self.pool(nn.relu(self.conv2(x)))
        x = x.transpose(0, 3, 1, 2).reshape(-1, 16 * 2 * 2)
        x = nn.relu(self.fc1(x))
        x = self.fc2(x)
        return x


model = DigitClassifier()
key, subkey = jax.random.split(key)
example = training_loader.collate_fn([training_loader.dataset[0]])
params = model.init(subkey, jnp.asarray(example[0]))["params"]
loss_fn = cross_entropy
optimizer = optax.sgd(0.005, momentum=0.9)
opt_state = optimizer.init(params)


@jax.jit(donate_argnames=("params", "opt_state"))
def train_step(params, opt_state, inputs, labels):
    def compute_loss(params):
        # Make predictions for this batch
        outputs = model.apply({"params": params}, inputs)

        # Compute the loss and its gradients
        loss = loss_fn(outputs, labels)
        return loss

    loss, grads = jax.value_and_grad(compute_loss)(params)
    # Adjust learning weights
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


def train_one_epoch(params, opt_state, epoch_index, tb_writer):
    running_loss = 0.0
    last_loss = 0.0

    for i, data in enumerate(training_loader):
        # Every data instance is an input + label pair
        inputs, labels = data
        inputs, labels = jnp.asarray(inputs), jnp.asarray(labels)

        params, opt_state, metrics = train_step(params, opt_state, inputs, labels)
        loss = metrics["loss"]

        # Gather data and report
        running_loss += loss.item()
        if i % REPORT_EVERY == REPORT_EVERY - 1:
            last_loss = running_loss / REPORT_EVERY  # loss per batch
            print("  batch {} loss: {:.6f}".format(i + 1, last_loss))
            tb_x = epoch_index * len(training_loader) + i + 1
            tb_writer.add_scalar("Loss/train", last_loss, tb_x)
            running_loss = 0.0

    return params, opt_state, last_loss


writer = SummaryWriter("runs/digits")
best_vloss = 1_000_000.0


@jax.jit
def eval_step(params, *inputs):
    return model.apply({"params": params}, *inputs)


for epoch in range(EPOCHS):
    print("EPOCH {}:".format(epoch + 1))

    # Make sure gradient tracking is on, and do a pass over the data
    params, opt_state, avg_loss = train_one_epoch(params, opt_state, epoch, writer)

    # Validate with the model in evaluation mode
    running_vloss = 0.0
    for i, vdata in enumerate(validation_loader):
        vinputs, vlabels = vdata
        vinputs, vlabels = jnp.asarray(vinputs), jnp.asarray(vlabels)
        voutputs = eval_step(params, vinputs)
        vloss = loss_fn(voutputs, vlabels)
        running_vloss += vloss.item()

    avg_vloss = running_vloss / (i + 1)
    print("LOSS train {:.6f} valid {:.6f}".format(avg_loss, avg_vloss))

    # Log the running loss averaged per batch for both training and validation
    writer.add_scalars("Training vs. Validation Loss", {"Training": avg_loss, "Validation": avg_vloss}, epoch + 1)
    writer.flush()

    # Track best performance, and save the model's state
    if avg_vloss < best_vloss:
        best_vloss = avg_vloss
        model_path = "digits_best.pt"
        Path(model_path).write_bytes(serialization.to_bytes(params))

writer.close()
