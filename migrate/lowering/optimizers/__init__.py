"""Optimizers and their schedules as optax has them, with parameter groups and hyperparameters that change."""
