import jax.numpy as jnp


def stft(x, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False):
    """The spectra of overlapping frames, (..., frequency, frame), as torch has them: half of each where x is real."""
    hop_length, win_length = hop_length or n_fft // 4, win_length or n_fft
    window = jnp.ones(win_length) if window is None else window
    before = (n_fft - win_length) // 2
    window = jnp.pad(window, (before, n_fft - win_length - before))
    if center:
        x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(n_fft // 2, n_fft // 2)], mode=pad_mode)
    starts = hop_length * jnp.arange((x.shape[-1] - n_fft) // hop_length + 1)
    frames = x[..., starts[:, None] + jnp.arange(n_fft)] * window
    spectra = jnp.fft.fft(frames) if jnp.iscomplexobj(frames) else jnp.fft.rfft(frames)
    return spectra.swapaxes(-1, -2) / (n_fft**0.5 if normalized else 1)
