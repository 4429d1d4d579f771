"""What the names of torch and its sister packages are about: data, or the recording of gradients."""

_DATA = ("torch.utils.data", "torchvision", "torch.utils.tensorboard", "torchtext", "torchaudio")
_NO_GRAD = ("torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.set_grad_enabled")


def is_data_api(name: str) -> bool:
    """Whether a torch name belongs to data loading or logging, which stays torch."""
    return name.startswith(_DATA)


def is_grad_mode(name: str | None) -> bool:
    """Whether a torch name switches gradients on or off, which says nothing in JAX."""
    return name in _NO_GRAD


def stops_gradients(name: str | None) -> bool:
    """Whether a torch name is a context in which no gradients are recorded."""
    return name in ("torch.no_grad", "torch.inference_mode")
