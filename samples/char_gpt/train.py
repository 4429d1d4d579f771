"""A character-level GPT small enough for one CPU core.

python train.py                     trains, saves a checkpoint at every evaluation, prints a sample
python train.py --data book.txt     trains on a text of yours
python train.py --resume gpt.pt     goes on from a checkpoint
"""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn import datasets


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, block_size, dropout):
        super().__init__()
        assert n_embd % n_head == 0
        self.n_head = n_head
        # key, query and value projections for all heads in one
        self.qkv = nn.Linear(n_embd, 3 * n_embd)
        self.proj = nn.Linear(n_embd, n_embd)
        self.attn_dropout = nn.Dropout(dropout)
        self.resid_dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.tril(torch.ones(block_size, block_size)).view(1, 1, block_size, block_size))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.qkv(x).split(C, dim=2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, nh, T, hs)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)

        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        att = self.attn_dropout(att)
        y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.proj(y))


class MLP(nn.Module):
    def __init__(self, n_embd, dropout):
        super().__init__()
        self.fc = nn.Linear(n_embd, 4 * n_embd)
        self.gelu = nn.GELU()
        self.proj = nn.Linear(4 * n_embd, n_embd)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.proj(self.gelu(self.fc(x))))


class Block(nn.Module):
    def __init__(self, n_embd, n_head, block_size, dropout):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention(n_embd, n_head, block_size, dropout)
        self.ln_2 = nn.LayerNorm(n_embd)
        self.mlp = MLP(n_embd, dropout)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class GPT(nn.Module):
    def __init__(self, vocab_size, block_size, n_layer, n_head, n_embd, dropout):
        super().__init__()
        self.block_size = block_size
        self.tok_emb = nn.Embedding(vocab_size, n_embd)
        self.pos_emb = nn.Embedding(block_size, n_embd)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList([Block(n_embd, n_head, block_size, dropout) for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)

        self.apply(self._init_weights)
        # the output layer shares its weights with the token embedding
        self.lm_head.weight = self.tok_emb.weight

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, idx, targets=None):
        B, T = idx.size()
        pos = torch.arange(0, T, dtype=torch.long, device=idx.device)
        x = self.drop(self.tok_emb(idx) + self.pos_emb(pos))
        for block in self.blocks:
            x = block(x)
        x = self.ln_f(x)
        logits = self.lm_head(x)

        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0):
        for _ in range(max_new_tokens):
            idx_cond = idx[:, -self.block_size :]
            logits, _ = self(idx_cond)
            logits = logits[:, -1, :] / temperature
            probs = F.softmax(logits, dim=-1)
            idx_next = torch.multinomial(probs, num_samples=1)
            idx = torch.cat((idx, idx_next), dim=1)
        return idx


def load_text(path):
    if path:
        with open(path, encoding="utf-8") as f:
            return f.read()
    # a little English that is already on this machine: the descriptions of scikit-learn's data sets
    loaders = [datasets.load_iris, datasets.load_wine, datasets.load_breast_cancer, datasets.load_diabetes]
    return "\n".join(load().DESCR for load in loaders)


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

    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    text = load_text(args.data)
    chars = sorted(set(text))
    vocab_size = len(chars)
    stoi = {ch: i for i, ch in enumerate(chars)}
    itos = {i: ch for i, ch in enumerate(chars)}
    data = torch.tensor([stoi[c] for c in text], dtype=torch.long)
    n = int(0.9 * len(data))
    train_data, val_data = data[:n], data[n:]

    def get_batch(split):
        source = train_data if split == "train" else val_data
        ix = torch.randint(len(source) - args.block_size, (args.batch_size,))
        x = torch.stack([source[i : i + args.block_size] for i in ix])
        y = torch.stack([source[i + 1 : i + args.block_size + 1] for i in ix])
        return x.to(device), y.to(device)

    model = GPT(vocab_size, args.block_size, args.n_layer, args.n_head, args.n_embd, args.dropout)
    model = model.to(device)
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {vocab_size} characters")

    # weight decay for matrices and embeddings, none for biases and layer norms
    decay = [p for name, p in model.named_parameters() if p.dim() >= 2]
    no_decay = [p for name, p in model.named_parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [
            {"params": decay, "weight_decay": args.weight_decay},
            {"params": no_decay, "weight_decay": 0.0},
        ],
        lr=args.lr,
        betas=(0.9, 0.95),
    )

    def get_lr(step):
        # linear warm-up, then a cosine down to min_lr
        if step < args.warmup_steps:
            return args.lr * (step + 1) / args.warmup_steps
        ratio = (step - args.warmup_steps) / max(1, args.max_steps - args.warmup_steps)
        return args.min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (args.lr - args.min_lr)

    @torch.no_grad()
    def estimate_loss():
        out = {}
        model.eval()
        for split in ["train", "val"]:
            losses = torch.zeros(args.eval_iters)
            for k in range(args.eval_iters):
                x, y = get_batch(split)
                _, loss = model(x, y)
                losses[k] = loss.item()
            out[split] = losses.mean().item()
        model.train()
        return out

    start_step = 0
    if args.resume:
        checkpoint = torch.load(args.resume, map_location=device)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        start_step = checkpoint["step"]
        print(f"resumed at step {start_step}")

    model.train()
    for step in range(start_step, args.max_steps):
        lr = get_lr(step)
        for group in optimizer.param_groups:
            group["lr"] = lr

        optimizer.zero_grad(set_to_none=True)
        total_loss = 0.0
        for _ in range(args.grad_accum):
            xb, yb = get_batch("train")
            _, loss = model(xb, yb)
            loss = loss / args.grad_accum
            loss.backward()
            total_loss += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.grad_clip)
        optimizer.step()

        if (step + 1) % 20 == 0:
            print(f"step {step + 1:4d}  loss {total_loss:.4f}  lr {lr:.2e}")

        if (step + 1) % args.eval_interval == 0 or step + 1 == args.max_steps:
            losses = estimate_loss()
            print(f"step {step + 1:4d}  train {losses['train']:.4f}  val {losses['val']:.4f}")
            checkpoint = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
            torch.save(checkpoint, args.out)

    if args.sample_tokens > 0:
        model.eval()
        # the model goes on from the start of the validation text
        context = val_data[: args.block_size].unsqueeze(0).to(device)
        sample = model.generate(context, max_new_tokens=args.sample_tokens)[0].tolist()
        print("".join(itos[i] for i in sample))


if __name__ == "__main__":
    main()
