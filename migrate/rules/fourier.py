"""Fourier transforms and windows. The same conventions as numpy, and the same three norms."""

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Tensor
from migrate.rules.creation import FACTORY
from migrate.rules.rule import Call, Rule, Value, axes, register, rule, signature
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


def _one_axis(name: str, example: str, text: str) -> Rule:
    def function(call: Call) -> Value:
        given = call.given("n", "norm", dim="axis")
        return Value(nodes.call(f"jnp.fft.{name}", call.node("input"), **given), Tensor())

    doc = (
        f"{text}\n\n    >>> torch.fft.{name}(x)  # x: {example}\n    jnp.fft.{name}(x)\n"
        f'    >>> torch.fft.{name}(x, n=4, dim=0, norm="ortho")  # x: {example}\n'
        f'    jnp.fft.{name}(x, n=4, norm="ortho", axis=0)\n'
    )
    parameters = signature("input, n=None, dim=-1, norm=None, *, out=None")
    return Rule((f"torch.fft.{name}",), parameters, function, False, "", doc, "fourier")


for _name, _text in (
    ("fft", "Of real numbers too."),
    ("ifft", "Divides by n."),
    ("rfft", "Half of the spectrum of real numbers."),
    ("irfft", "Real numbers from half of a spectrum; an odd length must be given as n."),
    ("hfft", "Of half of a signal that is symmetric."),
    ("ihfft", "The inverse of hfft."),
):
    register(_one_axis(_name, "f32[6, 5]", _text))


def _several_axes(name: str, default: str) -> Rule:
    def function(call: Call) -> Value:
        given, target = call.given("s", "norm"), name
        if call.has("dim"):
            given["axes"] = axes(call, "dim")
            if isinstance(nodes.literal(given["axes"]), int):
                given["axes"] = nodes.tuple_of([given["axes"]])
            if nodes.length(given["axes"]) != 2:
                target = name.replace("2", "n")  # jax's two-dimensional forms take two axes, torch's any number
        return Value(nodes.call(f"jnp.fft.{target}", call.node("input"), **given), Tensor())

    doc = (
        f"{'The last two axes' if default != 'None' else 'All axes'} by default.\n\n"
        f"    >>> torch.fft.{name}(x)  # x: f32[2, 4, 6]\n    jnp.fft.{name}(x)\n"
        f"    >>> torch.fft.{name}(x, dim=(0, 1))  # x: f32[2, 4, 6]\n    jnp.fft.{name}(x, axes=(0, 1))\n"
        f"    >>> torch.fft.{name}(x, dim=1)  # x: f32[2, 4, 6]\n    jnp.fft.{name.replace('2', 'n')}(x, axes=(1,))\n"
    )
    parameters = signature(f"input, s=None, dim={default}, norm=None, *, out=None")
    return Rule((f"torch.fft.{name}",), parameters, function, False, "", doc, "fourier")


for _name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"):
    register(_several_axes(_name, "(-2, -1)" if _name.endswith("2") else "None"))


def _frequencies(name: str) -> Rule:
    def function(call: Call) -> Value:
        return Value(nodes.call(f"jnp.fft.{name}", call.node("n"), **call.given("d", "dtype")), Tensor("float", 1))

    doc = f"In cycles per unit of d.\n\n    >>> x * torch.fft.{name}(6, d=0.5)[:3]  # x: f32[2, 3]\n"
    doc += f"    x * jnp.fft.{name}(6, d=0.5)[:3]\n"
    parameters = signature(f"n, d=1.0, *, {FACTORY}")
    return Rule((f"torch.fft.{name}",), parameters, function, False, "float", doc, "fourier")


register(_frequencies("fftfreq"))
register(_frequencies("rfftfreq"))


def _shift(name: str) -> Rule:
    def function(call: Call) -> Expr:
        more = {"axes": axes(call, "dim")} if call.has("dim") else {}
        return nodes.call(f"jnp.fft.{name}", call.node("input"), **more)

    doc = f"All axes by default.\n\n    >>> torch.fft.{name}(x, dim=1)  # x: f32[2, 5]\n    jnp.fft.{name}(x, axes=1)\n"
    return Rule((f"torch.fft.{name}",), signature("input, dim=None"), function, False, "like", doc, "fourier")


register(_shift("fftshift"))
register(_shift("ifftshift"))


def _window(name: str, target: str) -> Rule:
    def function(call: Call) -> Value:
        call.only("periodic", True, False)
        if call.has("dtype") and nodes.code(call.node("dtype")) != "jnp.float32":
            raise Unsupported("MIG302", f"{call.api}: only float32")
        if not call.literal("periodic"):
            return Value(call.make(f"jnp.{target}({{window_length}})"), Tensor("float", 1))
        length = nodes.literal(call.node("window_length"))
        more = str(length + 1) if isinstance(length, int) else "{window_length} + 1"
        return Value(call.make(f"jnp.{target}({more})[:-1]"), Tensor("float", 1))

    doc = (
        "Periodic by default, numpy's is symmetric.\n\n"
        f"    >>> x * torch.{name}(6)  # x: f32[2, 6]\n    x * jnp.{target}(7)[:-1]\n"
        f"    >>> x * torch.{name}(6, periodic=False)  # x: f32[2, 6]\n    x * jnp.{target}(6)\n"
    )
    parameters = signature(f"window_length, periodic=True, *, {FACTORY}")
    return Rule((f"torch.{name}",), parameters, function, False, "float", doc, "fourier")


for _name, _target in (
    ("hann_window", "hanning"),
    ("hamming_window", "hamming"),
    ("blackman_window", "blackman"),
    ("bartlett_window", "bartlett"),
):
    register(_window(_name, _target))


@rule("torch.kaiser_window", signature=f"window_length, periodic=True, beta=12.0, *, {FACTORY}", dtype="float")
def kaiser_window(call: Call) -> Value:
    """Periodic by default, numpy's is symmetric.

    >>> x * torch.kaiser_window(6, periodic=False, beta=8.0)  # x: f32[2, 6]
    x * jnp.kaiser(6, 8.0)
    """
    call.only("dtype", None)
    call.only("periodic", True, False)
    text = (
        "jnp.kaiser({window_length} + 1, {beta})[:-1]"
        if call.literal("periodic")
        else "jnp.kaiser({window_length}, {beta})"
    )
    return Value(call.make(text), Tensor("float", 1))


@rule(
    "torch.stft", "Tensor.stft",
    signature="input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode='reflect', "
    "normalized=False, onesided=None, return_complex=None, align_to_window=None", dtype="",
)  # fmt: skip
def short_time(call: Call) -> Expr:
    """Half of each spectrum where the signal is real; complex numbers alone.

    >>> torch.stft(x, 8, 2, window=torch.hann_window(8), return_complex=True).abs()  # x: f32[2, 20]
    absolute(stft(x, 8, hop_length=2, window=jnp.hanning(9)[:-1]))
    >>> torch.stft(x, 8, 2, 6, torch.ones(6), center=False, normalized=True, return_complex=True).real  # x: f32[20]
    stft(x, 8, hop_length=2, win_length=6, window=jnp.ones(6), center=False, normalized=True).real
    """
    call.only("pad_mode", "reflect", "constant")
    call.only("onesided", None)
    call.only("return_complex", None, True)
    call.only("align_to_window", None)
    call.snippet("stft")
    more = call.given("hop_length", "win_length", "window", "center", "pad_mode", "normalized")
    return nodes.call("stft", call.node("input"), call.node("n_fft"), **more)


@rule(
    "torch.istft", "Tensor.istft",
    signature="input, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, "
    "onesided=None, length=None, return_complex=False", dtype="float",
)  # fmt: skip
def inverse_short_time(call: Call) -> Expr:
    """A real signal, of half spectra.

    >>> torch.istft(torch.fft.rfft(x).mT, 8, 2, window=torch.hamming_window(8))  # x: f32[2, 6, 8]
    istft(jnp.fft.rfft(x).mT, 8, hop_length=2, window=jnp.hamming(9)[:-1])
    >>> torch.istft(torch.fft.rfft(x).mT, 8, 4, None, torch.ones(8), False, True, length=20)  # x: f32[6, 8]
    istft(jnp.fft.rfft(x).mT, 8, hop_length=4, window=jnp.ones(8), center=False, normalized=True, length=20)
    """
    call.only("onesided", None, True)
    call.only("return_complex", False)
    call.snippet("istft")
    more = call.given("hop_length", "win_length", "window", "center", "normalized", "length")
    return nodes.call("istft", call.node("input"), call.node("n_fft"), **more)
