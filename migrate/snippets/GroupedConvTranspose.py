import flax.linen as nn
import jax
import jax.numpy as jnp


class GroupedConvTranspose(nn.Module):
    """A transposed convolution of channel-last data in groups; the kernel is (*window, features / groups, inputs)."""

    features: int
    kernel_size: tuple
    strides: tuple
    padding: tuple
    kernel_dilation: tuple
    groups: int
    use_bias: bool = True
    kernel_init: nn.initializers.Initializer = nn.initializers.lecun_normal()
    bias_init: nn.initializers.Initializer = nn.initializers.zeros

    @nn.compact
    def __call__(self, x):
        inputs, groups, spatial = x.shape[-1], self.groups, len(self.kernel_size)
        kernel = self.param("kernel", self.kernel_init, (*self.kernel_size, self.features // groups, inputs))
        kernel = jnp.flip(kernel, range(spatial)).reshape(*self.kernel_size, -1, groups, inputs // groups)
        kernel = jnp.moveaxis(kernel, -1, spatial).swapaxes(-1, -2).reshape(*self.kernel_size, -1, self.features)
        x, kernel = (each.astype(jnp.result_type(x, kernel)) for each in (x, kernel))
        letters = "DHW"[-spatial:]
        y = jax.lax.conv_general_dilated(
            x,
            kernel,
            window_strides=(1,) * spatial,
            padding=self.padding,
            lhs_dilation=self.strides,
            rhs_dilation=self.kernel_dilation,
            dimension_numbers=(f"N{letters}C", f"{letters}IO", f"N{letters}C"),
            feature_group_count=groups,
        )
        return y + self.param("bias", self.bias_init, (self.features,)) if self.use_bias else y
