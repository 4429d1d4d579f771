"""A small convolutional network on handwritten digits (scikit-learn's, enlarged to 16x16)."""

import argparse
from pathlib import Path

import numpy as np
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import serialization
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset


def nll_loss(log_probs, labels, ignore_index=-100, reduction="mean"):
    """Negative log-likelihood of integer labels as torch has it: classes on axis 1, `ignore_index` left out."""
    axis = min(1, log_probs.ndim - 1)
    kept = labels != ignore_index
    index = jnp.expand_dims(jnp.where(kept, labels, 0), axis)
    losses = jnp.where(kept, -jnp.take_along_axis(log_probs, index, axis).squeeze(axis), 0)
    if reduction == "none":
        return losses
    return losses.sum() / kept.sum() if reduction == "mean" else losses.sum()


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    training: bool = False

    def setup(self):
        self.conv1 = nn.Conv(16, (3, 3), padding="VALID", **torch_init(fan_in=1 * 3 * 3))
        self.conv2 = nn.Conv(32, (3, 3), padding="VALID", **torch_init(fan_in=16 * 3 * 3))
        self.dropout1 = nn.Dropout(0.25, deterministic=not self.training)
        self.dropout2 = nn.Dropout(0.5, deterministic=not self.training)
        self.fc1 = nn.Dense(64, **torch_init(fan_in=1152))
        self.fc2 = nn.Dense(10, **torch_init(fan_in=64))

    def __call__(self, x):
        x = nn.relu(self.conv1(x.transpose(0, 2, 3, 1)))  # 16 x 14 x 14
        x = nn.relu(self.conv2(x))  # 32 x 12 x 12
        x = nn.max_pool(x, window_shape=(2, 2), strides=(2, 2))  # 32 x 6 x 6
        x = self.dropout1(x)
        x = x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1)
        x = nn.relu(self.fc1(x))
        x = self.dropout2(x)
        x = self.fc2(x)
        return nn.log_softmax(x, axis=1)


def load_data(num_train=1500):
    digits = load_digits()
    images = digits.images.astype(np.float32) / 16.0
    images = images.repeat(2, axis=1).repeat(2, axis=2)
    images = (images - 0.305) / 0.376
    data = torch.from_numpy(images).unsqueeze(1)
    target = torch.from_numpy(digits.target).long()
    train_set = TensorDataset(data[:num_train], target[:num_train])
    test_set = TensorDataset(data[num_train:], target[num_train:])
    return train_set, test_set


@jax.jit(static_argnames=("model", "optimizer"), donate_argnames=("params", "opt_state"))
def train_step(model, optimizer, params, opt_state, data, target, key):
    def loss_fn(params):
        output = model.clone(training=True).apply({"params": params}, data, rngs={"dropout": key})
        loss = nll_loss(output, target)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


def train(args, model, params, train_loader, optimizer, opt_state, epoch, key):
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = jnp.asarray(data), jnp.asarray(target)
        key, subkey = jax.random.split(key)
        params, opt_state, metrics = train_step(model, optimizer, params, opt_state, data, target, subkey)
        loss = metrics["loss"]
        if batch_idx % args.log_interval == 0:
            print(
                "Train Epoch: {} [{}/{} ({:.0f}%)]\tLoss: {:.6f}".format(
                    epoch,
                    batch_idx * len(data),
                    len(train_loader.dataset),
                    100.0 * batch_idx / len(train_loader),
                    loss.item(),
                )
            )
    return params, opt_state


@jax.jit(static_argnames="model")
def eval_step(model, params, *inputs):
    return model.apply({"params": params}, *inputs)


def test(model, params, test_loader):
    test_loss = 0
    correct = 0
    for data, target in test_loader:
        data, target = jnp.asarray(data), jnp.asarray(target)
        output = eval_step(model, params, data)
        test_loss += nll_loss(output, target, reduction="sum").item()  # sum up batch loss
        pred = output.argmax(axis=1, keepdims=True)
        correct += (pred == target.reshape(pred.shape)).sum().item()

    test_loss /= len(test_loader.dataset)

    print(
        "\nTest set: Average loss: {:.4f}, Accuracy: {}/{} ({:.1f}%)\n".format(
            test_loss, correct, len(test_loader.dataset), 100.0 * correct / len(test_loader.dataset)
        )
    )


def main():
    parser = argparse.ArgumentParser(description="A CNN on handwritten digits")
    parser.add_argument("--batch-size", type=int, default=64, help="batch size for training (default: 64)")
    parser.add_argument("--test-batch-size", type=int, default=297, help="batch size for testing (default: 297)")
    parser.add_argument("--epochs", type=int, default=9, help="number of epochs to train (default: 9)")
    parser.add_argument("--lr", type=float, default=1.0, help="learning rate (default: 1.0)")
    parser.add_argument("--gamma", type=float, default=0.7, help="learning rate decay per epoch (default: 0.7)")
    parser.add_argument("--seed", type=int, default=1, help="random seed (default: 1)")
    parser.add_argument("--log-interval", type=int, default=8, help="batches between two reports (default: 8)")
    parser.add_argument("--no-cuda", action="store_true", help="disables CUDA")
    parser.add_argument("--save-model", action="store_true", help="saves the model at the end")
    args = parser.parse_args()

    use_cuda = not args.no_cuda and (jax.default_backend() == "gpu")
    torch.manual_seed(args.seed)
    key = jax.random.key(args.seed)

    train_set, test_set = load_data()
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=args.test_batch_size)

    model = Net()
    key, subkey = jax.random.split(key)
    example = train_loader.collate_fn([train_loader.dataset[0]])
    params = model.init(subkey, jnp.asarray(example[0]))["params"]
    optimizer = optax.inject_hyperparams(lambda learning_rate: optax.adadelta(learning_rate))(
        learning_rate=args.lr
    )
    opt_state = optimizer.init(params)
    scheduler = optax.exponential_decay(args.lr, transition_steps=1, decay_rate=args.gamma, staircase=True)
    scheduler_steps = 0

    for epoch in range(1, args.epochs + 1):
        key, subkey = jax.random.split(key)
        params, opt_state = train(args, model, params, train_loader, optimizer, opt_state, epoch, subkey)
        test(model, params, test_loader)
        scheduler_steps += 1
        opt_state = optax.tree_utils.tree_set(opt_state, learning_rate=np.asarray(scheduler(scheduler_steps)))

    if args.save_model:
        Path("mnist_cnn.pt").write_bytes(serialization.to_bytes(params))


if __name__ == "__main__":
    main()
