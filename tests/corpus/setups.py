"""Files and services that single scripts read: made in the working folder before the script runs."""

from __future__ import annotations

import io
import pickle
import tarfile
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.corpus import datasets, synthetic


def small_data(train: int = 512, test: int = 128) -> None:
    """Other sizes of the synthetic datasets."""
    datasets.SIZES.update(train=train, test=test)


def text_file(path: str = "input.txt", length: int = 40_000, seed: int = 0) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(synthetic.text(length, seed))


def word_lm(folder: str = "data/wikitext-2") -> None:
    """The three splits of a word-level corpus."""
    for seed, (name, length) in enumerate({"train": 30_000, "valid": 12_000, "test": 12_000}.items()):
        text_file(f"{folder}/{name}.txt", length, seed)


def character_tokens(folder: str = "data/shakespeare_char") -> None:
    """Character tokens as uint16 files with their vocabulary."""
    text = synthetic.text(60_000)
    vocabulary = sorted(set(text))
    index = {character: i for i, character in enumerate(vocabulary)}
    tokens = np.array([index[character] for character in text], dtype=np.uint16)
    Path(folder).mkdir(parents=True, exist_ok=True)
    split = len(tokens) * 9 // 10
    tokens[:split].tofile(f"{folder}/train.bin")
    tokens[split:].tofile(f"{folder}/val.bin")
    meta = {"vocab_size": len(vocabulary), "itos": dict(enumerate(vocabulary)), "stoi": index}
    Path(folder, "meta.pkl").write_bytes(pickle.dumps(meta))


def sine_waves(path: str = "traindata.pt", count: int = 12, length: int = 120, period: int = 20) -> None:
    """float64 sine waves [count, length] as an array in a torch file, which its reader must allow."""
    import torch

    starts = np.random.RandomState(2).randint(-4 * period, 4 * period, count).reshape(count, 1)
    torch.save(np.sin((np.arange(length) + starts) / period), path)
    load = torch.load
    vars(torch)["load"] = lambda *arguments, **named: load(*arguments, **{**named, "weights_only": False})


def citations(folder: str = "cora", papers: int = 2708, words: int = 100) -> None:
    """A citation graph with word counts, served as an archive to whoever asks `requests`."""
    import requests

    fields = (
        *("Case_Based", "Genetic_Algorithms", "Neural_Networks", "Probabilistic_Methods", "Reinforcement_Learning"),
        *("Rule_Learning", "Theory"),
    )
    draws = np.random.RandomState(0)
    field = draws.randint(0, len(fields), papers)
    usual = draws.rand(len(fields), words) < 0.15
    content, cites = [], []
    for paper in range(papers):
        found = (draws.rand(words) < np.where(usual[field[paper]], 0.6, 0.05)).astype(int)
        found[draws.randint(words)] = 1
        content.append("\t".join([str(paper), *map(str, found), fields[field[paper]]]))
    for _ in range(2 * papers):
        one = draws.randint(papers)
        near = np.where(field == field[one])[0]
        other = draws.choice(near) if draws.rand() < 0.8 else draws.randint(papers)
        if one != other:
            cites.append(f"{one}\t{other}")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, lines in (("cora.content", content), ("cora.cites", cites)):
            data = ("\n".join(lines) + "\n").encode()
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    _serve(requests, archive.getvalue())


def downloaded_text(length: int = 20_000) -> None:
    """Synthetic text for scripts that download a book."""
    import urllib.request

    import requests

    data = synthetic.text(length).encode()
    _serve(requests, data)
    vars(urllib.request)["urlopen"] = lambda *_, **__: io.BytesIO(data)


def _serve(requests: Any, data: bytes) -> None:
    class Response(SimpleNamespace):
        raw = property(lambda self: io.BytesIO(data))

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: Any) -> None: ...

    def get(*_: Any, **__: Any) -> Response:
        return Response(
            content=data,
            text=data.decode(errors="replace"),
            status_code=200,
            raise_for_status=lambda: None,
        )

    requests.get = get


def images_and_masks(folder: str = "data", count: int = 24, size: int = 64) -> None:
    """Bright discs on noise, and the masks of the discs."""
    from PIL import Image

    draws = np.random.RandomState(0)
    for name in ("imgs", "masks"):
        Path(folder, name).mkdir(parents=True, exist_ok=True)
    rows, columns = np.mgrid[:size, :size]
    for i in range(count):
        y, x = draws.randint(size // 4, 3 * size // 4, 2)
        radius = draws.randint(size // 8, size // 4)
        mask = ((rows - y) ** 2 + (columns - x) ** 2 < radius**2).astype(np.uint8)
        image = (draws.rand(size, size, 3) * 80 + mask[..., None] * 140).astype(np.uint8)
        Image.fromarray(image).save(f"{folder}/imgs/{i:03d}.png")
        Image.fromarray(mask).save(f"{folder}/masks/{i:03d}.png")


def one_process_group() -> None:
    """`init_process_group` makes a group of this one process."""
    import torch.distributed as dist

    init = dist.init_process_group

    def alone(*_: Any, **__: Any) -> None:
        if not dist.is_initialized():
            init("gloo", init_method=f"file://{tempfile.mkdtemp()}/group", rank=0, world_size=1)

    dist.init_process_group = alone


def pooled_latents() -> None:
    """diffusers' AutoencoderKL without weights: a fixed encoder of 8 x 8 pixels to four channels."""
    import diffusers.models
    import torch

    class Pooled(torch.nn.Module):
        @classmethod
        def from_pretrained(cls, *_: Any, **__: Any) -> Any:
            return cls()

        def encode(self, pixels: torch.Tensor) -> Any:
            latents = torch.nn.functional.avg_pool2d(pixels, 8)
            latents = torch.cat([latents, latents.mean(1, keepdim=True)], 1) * 5
            draw = latents.clone
            return SimpleNamespace(latent_dist=SimpleNamespace(sample=draw, mode=draw))

    diffusers.models.AutoencoderKL = Pooled


def cuda_is_cpu() -> None:
    """Everything that asks for the GPU gets the CPU, for scripts that refuse to start without one."""
    import torch
    from torch.overrides import TorchFunctionMode

    def cpu(value: Any) -> Any:
        named = isinstance(value, str) and value.partition(":")[0] == "cuda"
        return "cpu" if named or (isinstance(value, torch.device) and value.type == "cuda") else value

    class CudaIsCpu(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = getattr(func, "__name__", "")
            if name == "cuda":
                return args[0]
            if name in ("__set__", "__get__"):
                return func(*args, **(kwargs or {}))
            if name == "to" and len(args) > 1 and type(args[1]) is int:
                args = (args[0], "cpu", *args[2:])
            kwargs = {
                key: "cpu" if key == "device" and type(value) is int else cpu(value)
                for key, value in (kwargs or {}).items()
            }
            return func(*map(cpu, args), **kwargs)

    to = torch.nn.Module.to

    def module_to(module: Any, *args: Any, **kwargs: Any) -> Any:
        moved = ["cpu" if type(value) is int else cpu(value) for value in args]
        return to(module, *moved, **{key: cpu(value) for key, value in kwargs.items()})

    for owner in (torch.nn.Module, torch.Tensor):
        owner.cuda = lambda self, *_, **__: self
    vars_of_module: Any = torch.nn.Module
    vars_of_module.to = module_to
    for name in ("set_device", "synchronize", "empty_cache", "manual_seed", "manual_seed_all"):
        setattr(torch.cuda, name, lambda *_, **__: None)
    for name, value in (("device_count", 1), ("is_available", True), ("current_device", 0)):
        setattr(torch.cuda, name, lambda *_, value=value, **__: value)
    CudaIsCpu().__enter__()
