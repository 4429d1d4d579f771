"""The names of torch and its sister packages: how the public one reads, and what they are about."""

import functools
import re

# torch and its sister packages, of which an output imports what stays theirs.
PACKAGES = ("torch", "torchvision", "torchtext", "torchaudio", "torch_geometric")

# Modules that define what a package above them offers: the place that a name is imported from says nothing.
_HOMES = (
    *(
        (re.compile(f"torch\\.{home}\\.({named})"), f"torch.{public}" + r"\1")
        for home, named, public in (
            (r"nn\.modules(?:\.[a-z]\w*)?", r"[A-Z]\w*", "nn."),
            (r"nn\.parameter", r"[A-Z]\w*", "nn."),
            (r"nn\.parallel(?:\.data_parallel)?", "DataParallel", "nn."),
            (r"nn\.parallel\.distributed", r"[A-Z]\w*", "nn.parallel."),
            (r"nn\.utils\.(?:clip_grad|convert_parameters|spectral_norm|weight_norm)", r"\w+", "nn.utils."),
            (r"optim\.(?!lr_scheduler|swa_utils)[a-z]\w*", r"[A-Z]\w*", "optim."),
            (r"distributions\.[a-z]\w*", r"(?:[A-Z]|kl_)\w*", "distributions."),
            (r"utils\.data\.(?:dataloader|dataset|distributed|sampler)", r"[A-Za-z]\w*", "utils.data."),
            (r"cuda\.amp\.(?:autocast_mode|grad_scaler)", r"\w+", "cuda.amp."),
            (r"amp\.(?:autocast_mode|grad_scaler)", r"\w+", "amp."),
            (r"autograd\.(?:function|variable)", r"[A-Z]\w*", "autograd."),
            (r"autograd(?:\.grad_mode)?", r"no_grad|enable_grad|set_grad_enabled|inference_mode", ""),
            (r"distributed\.distributed_c10d", r"\w+", "distributed."),
            (r"multiprocessing\.spawn", "spawn", "multiprocessing."),
            (r"(?:functional|random|serialization)", r"\w+", ""),
        )
    ),
    (
        re.compile(r"torch_geometric\.nn\.(?:conv|dense|models|norm|pool)(?:\.[a-z]\w*)*\.(\w+)"),
        r"torch_geometric.nn.\1",
    ),
    (re.compile(r"torch_geometric\.data\.(\w*DataLoader)"), r"torch_geometric.loader.\1"),  # before its version 2
)

_DATA = (
    *("torch.utils.data", "torchvision", "torch.utils.tensorboard", "torchtext", "torchaudio"),
    *(f"torch_geometric.{part}" for part in ("data", "datasets", "loader", "logging", "transforms", "utils")),
)
_STOPPING = ("torch.no_grad", "torch.inference_mode")
_GRAD_MODES = (*_STOPPING, "torch.enable_grad", "torch.set_grad_enabled")


@functools.cache
def public_name(name: str) -> str:
    """The name by which a thing of torch's is known, whichever of torch's modules it was taken from.

    >>> public_name("torch.nn.modules.conv.Conv2d")
    'torch.nn.Conv2d'
    """
    made = ((home.fullmatch(name), public) for home, public in _HOMES)
    return next((found.expand(public) for found, public in made if found), name)


def is_data_api(name: str) -> bool:
    """Whether a torch name belongs to data loading or logging, which stays torch."""
    return name.startswith(_DATA)


def is_grad_mode(name: str | None) -> bool:
    """Whether a torch name switches gradients on or off, which says nothing in JAX."""
    return name in _GRAD_MODES


def stops_gradients(name: str | None) -> bool:
    """Whether a torch name is a context in which no gradients are recorded."""
    return name in _STOPPING
