import jax.numpy as jnp


def istft(spectra, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, length=None):
    """The real signal of half spectra of overlapping frames, (..., frequency, frame), as torch has it."""
    hop_length, win_length = hop_length or n_fft // 4, win_length or n_fft
    window = jnp.ones(win_length) if window is None else window
    before = (n_fft - win_length) // 2
    window = jnp.pad(window, (before, n_fft - win_length - before))
    frames = jnp.fft.irfft(spectra.swapaxes(-1, -2), n_fft) * (window * n_fft**0.5 if normalized else window)
    places = hop_length * jnp.arange(frames.shape[-2])[:, None] + jnp.arange(n_fft)
    total = n_fft + hop_length * (frames.shape[-2] - 1)
    signal = jnp.zeros((*frames.shape[:-2], total), frames.dtype).at[..., places].add(frames)
    weight = jnp.zeros(total, frames.dtype).at[places].add(jnp.square(window))
    start = n_fft // 2 if center else 0
    end = min(total, start + length) if length else total - start
    signal = signal[..., start:end] / weight[start:end]
    short = (length or 0) - signal.shape[-1]
    return jnp.pad(signal, [(0, 0)] * (signal.ndim - 1) + [(0, short)]) if short > 0 else signal
