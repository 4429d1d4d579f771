import flax.linen as nn

import config
from nets.blocks.residual import Block


class Classifier(nn.Module):
    classes: int
    hidden: int = config.HIDDEN
    training: bool = False

    def setup(self):
        self.stem = nn.Dense(
            self.hidden, kernel_init=nn.initializers.variance_scaling(2.0, "fan_in", "normal")
        )
        self.block = Block(self.hidden, training=self.training)
        self.head = nn.Dense(
            self.classes, kernel_init=nn.initializers.variance_scaling(2.0, "fan_in", "normal")
        )

    def __call__(self, x):
        x = nn.relu(self.stem(x))
        return self.head(self.block(x))
