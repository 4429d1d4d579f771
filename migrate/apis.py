"""What the names of torch and its sister packages are about: data, or the recording of gradients."""

_DATA = ("torch.utils.data", "torchvision", "torch.utils.tensorboard", "torchtext", "torchaudio")
_STOPPING = ("torch.no_grad", "torch.inference_mode")
_GRAD_MODES = (*_STOPPING, "torch.enable_grad", "torch.set_grad_enabled")


def is_data_api(name: str) -> bool:
    """Whether a torch name belongs to data loading or logging, which stays torch."""
    return name.startswith(_DATA)


def is_grad_mode(name: str | None) -> bool:
    """Whether a torch name switches gradients on or off, which says nothing in JAX."""
    return name in _GRAD_MODES


def stops_gradients(name: str | None) -> bool:
    """Whether a torch name is a context in which no gradients are recorded."""
    return name in _STOPPING
