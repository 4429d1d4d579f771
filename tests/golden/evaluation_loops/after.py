import numpy as np
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import torch
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm


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


def top_k_along(x, k, axis=-1, largest=True):
    """The k largest (or smallest) values along any axis, and where they are."""
    moved = jnp.moveaxis(x, axis, -1)
    values, indices = jax.lax.top_k(moved if largest else -moved, k)
    values = values if largest else -values
    return jnp.moveaxis(values, -1, axis), jnp.moveaxis(indices, -1, axis)


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Net(nn.Module):
    training: bool = False

    def setup(self):
        self.fc = nn.Dense(3, **torch_init(fan_in=4))
        self.drop = nn.Dropout(0.1, deterministic=not self.training)

    def __call__(self, x):
        return self.drop(self.fc(x))


class AverageMeter:
    def __init__(self):
        self.sum, self.count = 0, 0

    def update(self, val, n=1):
        self.sum += val * n
        self.count += n

    @property
    def avg(self):
        return self.sum / self.count


def accuracy(output, target, topk=(1,)):
    maxk = max(topk)
    batch_size = target.size(0)
    _, pred = top_k_along(output, maxk, axis=1)
    pred = pred.T
    correct = pred == jnp.broadcast_to(jnp.asarray(target.view(1, -1)), pred.shape)
    res = []
    for k in topk:
        correct_k = correct[:k].reshape(-1).astype(jnp.float32).sum(axis=0)
        correct_k = correct_k * (100.0 / batch_size)
        res.append(correct_k)
    return res


@jax.jit(static_argnames=("model", "optimizer", "criterion"), donate_argnames=("params", "opt_state"))
def train_step(model, optimizer, criterion, params, opt_state, inputs, targets, key):
    def loss_fn(params):
        outputs = model.clone(training=True).apply({"params": params}, inputs, rngs={"dropout": key})
        loss = criterion(outputs, targets)
        return loss

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss}


def train_epoch(model, params, loader, criterion, optimizer, opt_state, epoch, key):
    losses = AverageMeter()
    running = 0.0
    for i, (inputs, targets) in enumerate(tqdm(loader, desc=f"epoch {epoch}")):
        inputs, targets = jnp.asarray(inputs), jnp.asarray(targets)
        key, subkey = jax.random.split(key)
        params, opt_state, metrics = train_step(
            model, optimizer, criterion, params, opt_state, inputs, targets, subkey
        )
        loss = metrics["loss"]
        losses.update(loss.item(), inputs.shape[0])
        running += loss.item() * inputs.shape[0]
    return params, opt_state, (losses.avg, running / len(loader.dataset))


@jax.jit(static_argnames="model")
def eval_step(model, params, *inputs):
    return model.apply({"params": params}, *inputs)


def evaluate(model, params, loader, criterion):
    total, correct, test_loss = 0, 0, 0.0
    confusion = np.zeros((3, 3), dtype=int)
    all_preds = []
    for inputs, targets in loader:
        outputs = eval_step(model, params, jnp.asarray(inputs))
        test_loss += criterion(outputs, jnp.asarray(targets)).item()
        predicted = outputs.argmax(axis=1)
        total += targets.size(0)
        correct += (predicted == jnp.asarray(targets)).sum().item()
        acc1, acc2 = accuracy(outputs, targets, topk=(1, 2))
        all_preds.append(np.asarray(predicted))
        for t, p in zip(targets.view(-1), predicted.reshape(-1)):
            confusion[t.long(), p.astype(jnp.int32)] += 1
    preds = np.concatenate(all_preds)
    print(f"loss {test_loss / len(loader):.4f} acc {100.0 * correct / total:.2f}% top2 {acc2.item():.1f}", preds.shape)
    return correct / total


def main():
    torch.manual_seed(0)
    key = jax.random.key(0)
    data = TensorDataset(torch.randn(96, 4), torch.randint(0, 3, (96,)))
    train_loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=0, pin_memory=True)
    test_loader = DataLoader(data, batch_size=32)
    model = Net()
    key, subkey = jax.random.split(key)
    example = train_loader.collate_fn([train_loader.dataset[0]])
    params = model.init(subkey, jnp.asarray(example[0]))["params"]
    criterion = cross_entropy
    optimizer = optax.inject_hyperparams(lambda learning_rate: optax.adam(learning_rate))(learning_rate=1e-2)
    opt_state = optimizer.init(params)
    scheduler = optax.exponential_decay(1e-2, transition_steps=2, decay_rate=0.1, staircase=True)
    scheduler_steps = 0
    best = 0
    for epoch in range(3):
        key, subkey = jax.random.split(key)
        params, opt_state, result = train_epoch(
            model, params, train_loader, criterion, optimizer, opt_state, epoch, subkey
        )
        print(result)
        acc = evaluate(model, params, test_loader, criterion)
        scheduler_steps += 1
        opt_state = optax.tree_utils.tree_set(opt_state, learning_rate=np.asarray(scheduler(scheduler_steps)))
        if acc > best:
            best = acc


if __name__ == "__main__":
    main()
