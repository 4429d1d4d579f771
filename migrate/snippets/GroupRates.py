class GroupRates:
    """What a scheduler sees of an optimizer: the learning rates of its parameter groups."""

    def __init__(self, *rates):
        self.param_groups = [{"lr": rate, "initial_lr": rate} for rate in rates]
