"""Layers whose weight is computed of others: weight normalisation and spectral normalisation, in both of torch's forms.

torch's hooks and parametrizations change a layer in place and give it back; here another module holds it.
"""

from migrate.layers.layer import Layer, Layout, Sample, Weight

_ONLY_WEIGHT: dict[str, tuple[tuple[object, ...], str]] = {
    "name": (("weight",), "only the weight of a layer is computed")
}


def _weight_norm(path: str, own: str, scale: str, samples: tuple[Sample, ...]) -> Layer:
    return Layer(
        torch=f"torch.nn.utils.{path}weight_norm",
        signature="module, name='weight', dim=0",
        template="WeightNorm({module})",
        note="Each output has a norm of its own, which starts as that of its weights.",
        layout=Layout.FIRST,
        wraps="module",
        renames={"weight": own},
        scale=scale,
        refuses={**_ONLY_WEIGHT, "dim": ((0,), "only one norm for each output is supported")},
        snippets=("WeightNorm",),
        samples=samples,
    )


def _spectral_norm(path: str, own: str, vectors: tuple[str, str], form: str, samples: tuple[Sample, ...]) -> Layer:
    u, v = vectors
    return Layer(
        torch=f"torch.nn.utils.{path}spectral_norm",
        signature="module, name='weight', n_power_iterations=1, eps=1e-12, dim=None",
        template="SpectralNorm({module}, n_steps={n_power_iterations?1}, epsilon={eps?1e-12}, "
        f"axis={{dim:kernel_axis?-1}}{form}, training=self.training)",
        note="Divides by the largest singular value, whose vectors follow by power iteration in train mode.",
        layout=Layout.FIRST,
        wraps="module",
        renames={"weight": own},
        weights=(
            Weight(u, "u", ("?",), collection="batch_stats"),
            Weight(v, "v", ("?",), collection="batch_stats"),
        ),
        trains=True,
        refuses=_ONLY_WEIGHT,
        snippets=("SpectralNorm",),
        samples=samples,
    )


LAYERS = (
    _weight_norm(
        "",
        "weight_v",
        "weight_g",
        (
            Sample("nn.utils.weight_norm(nn.Linear(6, 4))", (3, 6)),
            Sample("nn.utils.weight_norm(nn.ConvTranspose2d(4, 6, 3, bias=False), name='weight')", (2, 4, 5, 4)),
        ),
    ),
    _weight_norm(
        "parametrizations.",
        "parametrizations.weight.original1",
        "parametrizations.weight.original0",
        (Sample("nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 6, 3))", (2, 4, 9)),),
    ),
    _spectral_norm(
        "",
        "weight_orig",
        ("weight_u", "weight_v"),
        ", legacy=True",
        (
            Sample("nn.utils.spectral_norm(nn.Conv2d(3, 8, (3, 2)))", (2, 3, 8, 7)),
            Sample("nn.utils.spectral_norm(nn.ConvTranspose1d(4, 6, 3), n_power_iterations=2)", (2, 4, 5)),
        ),
    ),
    _spectral_norm(
        "parametrizations.",
        "parametrizations.weight.original",
        ("parametrizations.weight.0._u", "parametrizations.weight.0._v"),
        "",
        (
            Sample("nn.utils.parametrizations.spectral_norm(nn.Linear(6, 4))", (3, 6)),
            Sample("nn.utils.parametrizations.spectral_norm(nn.ConvTranspose2d(4, 6, 3), eps=1e-6)", (2, 4, 5, 4)),
        ),
    ),
)
