"""A character-level GPT small enough for one CPU core.

python train.py                     trains, saves a checkpoint at every evaluation, prints a sample
python train.py --data book.txt     trains on a text of yours
python train.py --resume gpt.pt     goes on from a checkpoint
"""

import argparse
import math
from functools import partial
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization
from sklearn import datasets


def clip_grad_norm(grads, max_norm):
    """Scales gradients down to a global norm as torch does, which divides by norm + 1e-6; and returns the old norm."""
    norm = optax.tree.norm(grads)
    scale = jnp.minimum(1.0, max_norm / (norm + 1e-6))
    return jax.tree.map(lambda g: g * scale, grads), norm


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


def multinomial(key, probs, num_samples):
    """Draws indices with probability proportional to each row of `probs`, on a new last axis."""
    shape = (num_samples, *probs.shape[:-1])
    return jnp.moveaxis(jax.random.categorical(key, jnp.log(probs), shape=shape), 0, -1)


def split_by_size(x, size, axis=0):
    """Parts of `size` along an axis; the last one is shorter where the length does not divide."""
    return jnp.split(x, list(range(size, x.shape[axis], size)), axis)


class CausalSelfAttention(nn.Module):
    n_embd: int
    n_head: int
    block_size: Any
    dropout: float
    training: bool = False

    def setup(self):
        assert self.n_embd % self.n_head == 0
        # key, query and value projections for all heads in one
        self.qkv = nn.Dense(3 * self.n_embd, kernel_init=nn.initializers.normal(0.02))
        self.proj = nn.Dense(self.n_embd, kernel_init=nn.initializers.normal(0.02))
        self.attn_dropout = nn.Dropout(self.dropout, deterministic=not self.training)
        self.resid_dropout = nn.Dropout(self.dropout, deterministic=not self.training)
        self.mask = jnp.tril(jnp.ones((self.block_size, self.block_size))).reshape(
            1, 1, self.block_size, self.block_size
        )

    def __call__(self, x):
        B, T, C = x.shape
        q, k, v = split_by_size(self.qkv(x), C, axis=2)
        q = q.reshape(B, T, self.n_head, C // self.n_head).swapaxes(1, 2)  # (B, nh, T, hs)
        k = k.reshape(B, T, self.n_head, C // self.n_head).swapaxes(1, 2)
        v = v.reshape(B, T, self.n_head, C // self.n_head).swapaxes(1, 2)

        att = (q @ k.swapaxes(-2, -1)) * (1.0 / math.sqrt(k.shape[-1]))
        att = jnp.where(self.mask[:, :, :T, :T] == 0, float("-inf"), att)
        att = nn.softmax(att, axis=-1)
        att = self.attn_dropout(att)
        y = att @ v
        y = y.swapaxes(1, 2).reshape(B, T, C)
        return self.resid_dropout(self.proj(y))


class MLP(nn.Module):
    n_embd: int
    dropout: float
    training: bool = False

    def setup(self):
        self.fc = nn.Dense(4 * self.n_embd, kernel_init=nn.initializers.normal(0.02))
        self.gelu = partial(nn.gelu, approximate=False)
        self.proj = nn.Dense(self.n_embd, kernel_init=nn.initializers.normal(0.02))
        self.dropout_layer = nn.Dropout(self.dropout, deterministic=not self.training)

    def __call__(self, x):
        return self.dropout_layer(self.proj(self.gelu(self.fc(x))))


class Block(nn.Module):
    n_embd: int
    n_head: int
    block_size: Any
    dropout: float
    training: bool = False

    def setup(self):
        self.ln_1 = nn.LayerNorm(epsilon=1e-5)
        self.attn = CausalSelfAttention(
            self.n_embd, self.n_head, self.block_size, self.dropout, training=self.training
        )
        self.ln_2 = nn.LayerNorm(epsilon=1e-5)
        self.mlp = MLP(self.n_embd, self.dropout, training=self.training)

    def __call__(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class GPT(nn.Module):
    vocab_size: int
    block_size: int
    n_layer: int
    n_head: int
    n_embd: int
    dropout: float
    training: bool = False

    def setup(self):
        self.tok_emb = nn.Embed(self.vocab_size, self.n_embd, embedding_init=nn.initializers.normal(0.02))
        self.pos_emb = nn.Embed(self.block_size, self.n_embd, embedding_init=nn.initializers.normal(0.02))
        self.drop = nn.Dropout(self.dropout, deterministic=not self.training)
        self.blocks = [
            Block(self.n_embd, self.n_head, self.block_size, self.dropout, training=self.training)
            for _ in range(self.n_layer)
        ]
        self.ln_f = nn.LayerNorm(epsilon=1e-5)

    def __call__(self, idx, targets=None):
        B, T = idx.shape
        pos = jnp.arange(0, T, dtype=jnp.int32)
        x = self.drop(self.tok_emb(idx) + self.pos_emb(pos))
        for block in self.blocks:
            x = block(x)
        x = self.ln_f(x)
        logits = self.tok_emb.attend(x)

        loss = None
        if targets is not None:
            loss = cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
        return logits, loss

    def generate(self, idx, max_new_tokens, temperature=1.0):
        for _ in range(max_new_tokens):
            idx_cond = idx[:, -self.block_size :]
            logits, _ = self(idx_cond)
            logits = logits[:, -1, :] / temperature
            probs = nn.softmax(logits, axis=-1)
            idx_next = multinomial(self.make_rng("sample"), probs, num_samples=1)
            idx = jnp.concatenate((idx, idx_next), axis=1)
        return idx


def load_text(path):
    if path:
        with open(path, encoding="utf-8") as f:
            return f.read()
    # a little English that is already on this machine: the descriptions of scikit-learn's data sets
    loaders = [datasets.load_iris, datasets.load_wine, datasets.load_breast_cancer, datasets.load_diabetes]
    return "\n".join(load().DESCR for load in loaders)


@jax.jit(static_argnames="model")
def eval_step(model, params, *inputs):
    return model.apply({"params": params}, *inputs)


@jax.jit(static_argnames=("model", "optimizer"), donate_argnames=("params", "opt_state"))
def train_step(model, optimizer, params, opt_state, micro_batches, grad_accum, grad_clip):
    grads = jax.tree.map(jnp.zeros_like, params)

    def accumulate(grads, micro_batch):
        xb, yb, key = micro_batch

        def loss_fn(params):
            _, loss = model.clone(training=True).apply({"params": params}, xb, yb, rngs={"dropout": key})
            loss = loss / grad_accum
            return loss

        loss, new_grads = jax.value_and_grad(loss_fn)(params)
        return jax.tree.map(jnp.add, grads, new_grads), {"loss": loss}

    micro_batches = jax.tree.map(lambda *arrays: jnp.stack(arrays), *micro_batches)
    grads, metrics = jax.lax.scan(accumulate, grads, micro_batches)
    grads, _ = clip_grad_norm(grads, grad_clip)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, metrics


def main():
    parser = argparse.ArgumentParser(description="A character-level GPT")
    parser.add_argument("--data", default="", help="text file to train on")
    parser.add_argument("--max-steps", type=int, default=240, help="optimizer steps")
    parser.add_argument("--batch-size", type=int, default=8, help="sequences per micro batch")
    parser.add_argument("--grad-accum", type=int, default=2, help="micro batches per optimizer step")
    parser.add_argument("--block-size", type=int, default=48, help="context length")
    parser.add_argument("--n-layer", type=int, default=2)
    parser.add_argument("--n-head", type=int, default=4)
    parser.add_argument("--n-embd", type=int, default=64)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--lr", type=float, default=3e-3, help="highest learning rate")
    parser.add_argument("--min-lr", type=float, default=3e-4, help="learning rate at the end")
    parser.add_argument("--warmup-steps", type=int, default=20)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--grad-clip", type=float, default=1.0)
    parser.add_argument("--eval-interval", type=int, default=60, help="steps between two evaluations")
    parser.add_argument("--eval-iters", type=int, default=10)
    parser.add_argument("--sample-tokens", type=int, default=120, help="characters to generate at the end")
    parser.add_argument("--out", default="gpt.pt", help="where the checkpoint is written")
    parser.add_argument("--resume", default="", help="checkpoint to go on from")
    parser.add_argument("--seed", type=int, default=1337)
    args = parser.parse_args()

    key = jax.random.key(args.seed)

    text = load_text(args.data)
    chars = sorted(set(text))
    vocab_size = len(chars)
    stoi = {ch: i for i, ch in enumerate(chars)}
    itos = {i: ch for i, ch in enumerate(chars)}
    data = jnp.array([stoi[c] for c in text], dtype=jnp.int32)
    n = int(0.9 * len(data))
    train_data, val_data = data[:n], data[n:]

    def get_batch(split, key):
        source = train_data if split == "train" else val_data
        ix = jax.random.randint(key, (args.batch_size,), 0, len(source) - args.block_size)
        x = source[ix[:, None] + jnp.arange(args.block_size)]
        y = source[ix[:, None] + jnp.arange(1, args.block_size + 1)]
        return x, y

    model = GPT(vocab_size, args.block_size, args.n_layer, args.n_head, args.n_embd, args.dropout)
    key, subkey, subkey2 = jax.random.split(key, 3)
    params = model.init(subkey2, get_batch("train", subkey)[0])["params"]
    print(f"{sum(p.size for p in jax.tree.leaves(params))} parameters, {vocab_size} characters")

    # weight decay for matrices and embeddings, none for biases and layer norms
    optimizer = optax.inject_hyperparams(
        lambda learning_rate: optax.adamw(
            learning_rate,
            b2=0.95,
            weight_decay=args.weight_decay,
            mask=lambda params: jax.tree.map(lambda p: p.ndim >= 2, params),
        )
    )(learning_rate=args.lr)
    opt_state = optimizer.init(params)

    def get_lr(step):
        # linear warm-up, then a cosine down to min_lr
        if step < args.warmup_steps:
            return args.lr * (step + 1) / args.warmup_steps
        ratio = (step - args.warmup_steps) / max(1, args.max_steps - args.warmup_steps)
        return args.min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (args.lr - args.min_lr)

    def estimate_loss(params, key):
        out = {}
        for split in ["train", "val"]:
            losses = jnp.zeros(args.eval_iters)
            for k in range(args.eval_iters):
                key, subkey = jax.random.split(key)
                x, y = get_batch(split, subkey)
                _, loss = eval_step(model, params, x, y)
                losses = losses.at[k].set(loss.item())
            out[split] = losses.mean().item()
        return out

    start_step = 0
    if args.resume:
        checkpoint = serialization.msgpack_restore(Path(args.resume).read_bytes())
        params = serialization.from_state_dict(params, checkpoint["model"])
        opt_state = serialization.from_state_dict(opt_state, checkpoint["optimizer"])
        start_step = checkpoint["step"]
        print(f"resumed at step {start_step}")

    for step in range(start_step, args.max_steps):
        lr = get_lr(step)
        opt_state = optax.tree_utils.tree_set(opt_state, learning_rate=np.asarray(lr))

        total_loss = 0.0
        micro_batches = []
        for _ in range(args.grad_accum):
            key, subkey = jax.random.split(key)
            xb, yb = get_batch("train", subkey)
            key, subkey = jax.random.split(key)
            micro_batches.append((xb, yb, subkey))
        params, opt_state, metrics = train_step(
            model, optimizer, params, opt_state, micro_batches, args.grad_accum, args.grad_clip
        )
        for loss in metrics["loss"]:
            total_loss += loss.item()

        if (step + 1) % 20 == 0:
            print(f"step {step + 1:4d}  loss {total_loss:.4f}  lr {lr:.2e}")

        if (step + 1) % args.eval_interval == 0 or step + 1 == args.max_steps:
            key, subkey = jax.random.split(key)
            losses = estimate_loss(params, subkey)
            print(f"step {step + 1:4d}  train {losses['train']:.4f}  val {losses['val']:.4f}")
            checkpoint = {"model": params, "optimizer": opt_state, "step": step + 1}
            Path(args.out).write_bytes(serialization.to_bytes(checkpoint))

    if args.sample_tokens > 0:
        # the model goes on from the start of the validation text
        context = jnp.expand_dims(val_data[: args.block_size], 0)
        key, subkey = jax.random.split(key)
        sample = model.apply(
            {"params": params}, context, max_new_tokens=args.sample_tokens, method="generate", rngs={"sample": subkey}
        )[0].tolist()
        print("".join(itos[i] for i in sample))


if __name__ == "__main__":
    main()
