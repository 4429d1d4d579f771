"""Optimizers, schedules and losses: data that says what each torch class is in optax.

An optimizer's template is filled from torch's arguments; a keyword whose value is optax's own default is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

REFUSED = "foreach=None, maximize=False, capturable=False, differentiable=False, fused=None"


@dataclass(frozen=True)
class OptimizerEntry:
    """`decay`: "coupled" where torch adds weight_decay * w to the gradient first, "own" where the template takes it."""

    torch: str
    signature: str
    template: str
    decay: str = "coupled"
    refuses: tuple[str, ...] = ()


OPTIMIZERS: dict[str, OptimizerEntry] = {
    entry.torch: entry
    for entry in (
        OptimizerEntry(
            "torch.optim.SGD",
            "params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False, "
            "foreach=None, differentiable=False, fused=None",
            "optax.sgd({lr}, momentum={momentum?0}, nesterov={nesterov?False})",
            refuses=("dampening", "maximize"),
        ),
        OptimizerEntry(
            "torch.optim.Adam",
            "params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, " + REFUSED,
            "optax.adam({lr}, b1={betas:item0?0.9}, b2={betas:item1?0.999}, eps={eps?1e-8})",
            refuses=("amsgrad", "maximize"),
        ),
        OptimizerEntry(
            "torch.optim.AdamW",
            "params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, amsgrad=False, *, " + REFUSED,
            "optax.adamw({lr}, b1={betas:item0?0.9}, b2={betas:item1?0.999}, eps={eps?1e-8}, "
            "weight_decay={weight_decay?1e-4})",
            decay="own",
            refuses=("amsgrad", "maximize"),
        ),
        OptimizerEntry(
            "torch.optim.Adadelta",
            "params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False, maximize=False, "
            "differentiable=False",
            "optax.adadelta({lr}, rho={rho?0.9}, eps={eps?1e-6})",
            refuses=("maximize",),
        ),
        OptimizerEntry(
            "torch.optim.RMSprop",
            "params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, capturable=False, "
            "foreach=None, maximize=False, differentiable=False",
            "optax.rmsprop({lr}, decay={alpha}, eps={eps?1e-8}, eps_in_sqrt=False, centered={centered?False}, "
            "momentum={momentum?0})",
            refuses=("maximize",),
        ),
        OptimizerEntry(
            "torch.optim.Adagrad",
            "params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10",
            # torch adds 1e-10 to the root, optax its epsilon below it: the square keeps gradients down to 1e-9 alike.
            "optax.chain(optax.scale_by_rss({initial_accumulator_value}, eps=1e-20), "
            "optax.scale_by_learning_rate({lr}))",
            refuses=("lr_decay", "eps"),
        ),
        OptimizerEntry(
            "torch.optim.Adamax",
            "params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *, maximize=False, "
            "differentiable=False, capturable=False",
            "optax.adamax({lr}, b1={betas:item0?0.9}, b2={betas:item1?0.999}, eps={eps?1e-8})",
            refuses=("maximize",),
        ),
    )
}

# torch class: (signature after the optimizer, the schedule as a function of the number of scheduler steps).
# {lr} is the optimizer's own learning rate.
SCHEDULES: dict[str, tuple[str, str]] = {
    "torch.optim.lr_scheduler.StepLR": (
        "step_size, gamma=0.1, last_epoch=-1",
        "optax.exponential_decay({lr}, transition_steps={step_size}, decay_rate={gamma}, staircase=True)",
    ),
    "torch.optim.lr_scheduler.ExponentialLR": (
        "gamma, last_epoch=-1",
        "optax.exponential_decay({lr}, transition_steps=1, decay_rate={gamma})",
    ),
    "torch.optim.lr_scheduler.LambdaLR": ("lr_lambda, last_epoch=-1", "(lambda epoch: {lr} * {lr_lambda}(epoch))"),
    "torch.optim.lr_scheduler.CosineAnnealingLR": (
        "T_max, eta_min=0.0, last_epoch=-1",
        "(lambda epoch: {eta_min} + ({lr} - {eta_min}) * (1 + math.cos(math.pi * epoch / {T_max})) / 2)",
    ),
    "torch.optim.lr_scheduler.MultiStepLR": (
        "milestones, gamma=0.1, last_epoch=-1",
        "(lambda epoch: {lr} * {gamma} ** sum(epoch >= milestone for milestone in {milestones}))",
    ),
    "torch.optim.lr_scheduler.PolynomialLR": (
        "total_iters=5, power=1.0, last_epoch=-1",
        "optax.polynomial_schedule({lr}, 0.0, {power}, {total_iters})",
    ),
}

# Schedules whose rate at step 0 is not the optimizer's own: torch sets it as soon as the scheduler is made.
STARTING = frozenset(
    f"torch.optim.lr_scheduler.{name}" for name in ("LambdaLR", "LinearLR", "ConstantLR", "OneCycleLR", "CyclicLR")
)

# torch loss class: the functional rule that it stands for
LOSSES: dict[str, str] = {
    "torch.nn.CrossEntropyLoss": "torch.nn.functional.cross_entropy",
    "torch.nn.NLLLoss": "torch.nn.functional.nll_loss",
    "torch.nn.MSELoss": "torch.nn.functional.mse_loss",
    "torch.nn.L1Loss": "torch.nn.functional.l1_loss",
    "torch.nn.HuberLoss": "torch.nn.functional.huber_loss",
    "torch.nn.KLDivLoss": "torch.nn.functional.kl_div",
    "torch.nn.SmoothL1Loss": "torch.nn.functional.smooth_l1_loss",
    "torch.nn.BCELoss": "torch.nn.functional.binary_cross_entropy",
    "torch.nn.BCEWithLogitsLoss": "torch.nn.functional.binary_cross_entropy_with_logits",
}

# torch.nn.init function: (signature, initialiser). The distribution is that of torch, over (out, in, ...) weights.
INITIALIZERS: dict[str, tuple[str, str]] = {
    "normal_": ("tensor, mean=0.0, std=1.0, generator=None", "nn.initializers.normal({std})"),
    "trunc_normal_": (
        "tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None",
        "nn.initializers.truncated_normal({std}, lower={a} / {std}, upper={b} / {std})",
    ),
    "zeros_": ("tensor", "nn.initializers.zeros"),
    "ones_": ("tensor", "nn.initializers.ones"),
    "constant_": ("tensor, val", "nn.initializers.constant({val})"),
    "uniform_": (
        "tensor, a=0.0, b=1.0, generator=None",
        "lambda key, shape, dtype=jnp.float32: jax.random.uniform(key, shape, dtype, {a}, {b})",
    ),
    "orthogonal_": ("tensor, gain=1, generator=None", "nn.initializers.orthogonal({gain})"),
    "xavier_uniform_": ("tensor, gain=1.0, generator=None", "nn.initializers.xavier_uniform()"),
    "xavier_normal_": (
        "tensor, gain=1.0, generator=None",
        'nn.initializers.variance_scaling(1.0, "fan_avg", "normal")',
    ),
    "kaiming_normal_": (
        "tensor, a=0, mode='fan_in', nonlinearity='leaky_relu', generator=None",
        'nn.initializers.variance_scaling(2.0, "{mode}", "normal")',
    ),
    "kaiming_uniform_": (
        "tensor, a=0, mode='fan_in', nonlinearity='leaky_relu', generator=None",
        'nn.initializers.variance_scaling(2.0, "{mode}", "uniform")',
    ),
}
