"""Names of other packages that are torch's own under another name, or add nothing to what a module computes."""

from __future__ import annotations

# Bases that are torch's own module class, with ways to load and save, or with less memory for the backward pass.
_MODULES = frozenset(
    {("diffusers", "ModelMixin"), ("transformers", "GradientCheckpointingLayer"), ("transformers", "PreTrainedModel")}
)

# Bases beside the module class, which load, save and publish, or switch what a user may ask for.
_MIXINS = frozenset(
    {
        *(("huggingface_hub", name) for name in ("PyTorchModelHubMixin", "ModelHubMixin")),
        *(("diffusers", f"{name}Mixin") for name in ("Config", "PeftAdapter", "FromOriginalModel", "Attention")),
        *(("diffusers", f"{name}Mixin") for name in ("Autoencoder", "Cache", "UNet2DConditionLoaders")),
    }
)

# A decorator of constructors, by which `self.config` holds their arguments.
_REGISTERS = frozenset({("diffusers", "register_to_config")})

# Functions that were copied from torch before all had them there.
_SAME = {("timm", "trunc_normal_"): "torch.nn.init.trunc_normal_"}

# Packages that measure torch's tensors, by objects and functions that train nothing.
_METRICS = ("cleanfid", "lpips", "piq", "pytorch_msssim", "torch_fidelity", "torcheval", "torchmetrics")

MODULE, MIXIN, REGISTERS = "torch.nn.Module", "mixin", "registers"


def is_torch(name: str) -> bool:
    """Whether a name of torch's is what some name of another package stands for."""
    return name == MODULE or name in _SAME.values()


def measures_tensors(name: str) -> bool:
    """Whether a full name is one of a package that measures torch's tensors: `torchmetrics.Accuracy`."""
    return name.partition(".")[0] in _METRICS


def role(name: str) -> str:
    """What a name of another package is to a module class: its base, a MIXIN beside it, a decorator that REGISTERS
    the arguments of its constructor, the function of torch's that it is; "" for other names. Packages offer a name in
    several of their modules."""
    whole = (name.partition(".")[0], name.rpartition(".")[2])
    if whole in _SAME:
        return _SAME[whole]
    for names, found in ((_MODULES, MODULE), (_MIXINS, MIXIN), (_REGISTERS, REGISTERS)):
        if whole in names:
            return found
    return ""
