import jax
import jax.numpy as jnp


def clip_grad_p_norm(grads, max_norm, norm_type):
    """Scales gradients down to a p-norm as torch does, which divides by norm + 1e-6; and returns the old norm."""
    norms = [jnp.linalg.norm(g.ravel(), ord=norm_type) for g in jax.tree.leaves(grads)]
    norm = jnp.linalg.norm(jnp.stack(norms), ord=norm_type)
    scale = jnp.minimum(1.0, max_norm / (norm + 1e-6))
    return jax.tree.map(lambda g: g * scale, grads), norm
