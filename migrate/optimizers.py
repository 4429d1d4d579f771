"""Optimizers, schedules and losses: data that says what each torch class is in optax.

An optimizer's template is filled from torch's arguments; a keyword whose value is optax's own default is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

REFUSED = "foreach=None, maximize=False, capturable=False, differentiable=False, fused=None"

RUNNING = frozenset({"fused", "foreach", "capturable"})  # arguments that only say how torch runs a step


TURNED, AS_IN_TORCH = "turned", "as in torch"  # the axes of what an optimizer trains


@dataclass(frozen=True)
class OptimizerEntry:
    """`decay`: "coupled" where torch adds weight_decay * w to the gradient first, "own" where the template takes it,
    "chosen" where `decoupled_weight_decay` tells. `variants`: templates for where an argument is given, first come
    first served; `flags` are arguments that must be literals. `options`, of an optimizer of the user's own: arguments
    that parameter groups may have of their own; empty for torch's, which have all. `ordered`: the name of such a class
    where the order of the axes matters to its step. `fills`: it takes zeros for a gradient that is not there.
    `spoils`: it changes gradients in place, which a later backward pass would add to."""

    torch: str
    signature: str
    template: str
    decay: str = "coupled"
    refuses: tuple[str, ...] = ()
    variants: tuple[tuple[str, str], ...] = ()
    flags: tuple[str, ...] = ("maximize",)
    options: frozenset[str] = frozenset()
    ordered: str = ""
    fills: bool = False
    spoils: bool = False

    @property
    def evaluates(self) -> bool:
        """Whether `step` is given a closure, which it evaluates as often as it needs."""
        return "max_eval" in self.signature

    @property
    def counts(self) -> bool:
        """Whether an update depends on how many there were before."""
        return any(name in self.signature for name in ("betas", "lr_decay", "etas", "lambd"))


OPTIMIZERS: dict[str, OptimizerEntry] = {
    entry.torch: entry
    for entry in (
        OptimizerEntry(
            "torch.optim.SGD",
            "params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False, "
            "foreach=None, differentiable=False, fused=None",
            "optax.sgd({lr}, momentum={momentum?0}, nesterov={nesterov?False})",
            variants=(
                (
                    "dampening",
                    "optax.chain(dampened_momentum({momentum}, {dampening}, {nesterov?False}), "
                    "optax.scale_by_learning_rate({lr}))",
                ),
            ),
        ),
        OptimizerEntry(
            "torch.optim.Adam",
            "params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, " + REFUSED,
            "optax.adam({lr}, b1={betas:item0?0.9}, b2={betas:item1?0.999}, eps={eps?1e-8})",
            variants=(
                (
                    "amsgrad",
                    "optax.chain(scale_by_amsgrad(b1={betas:item0?0.9}, b2={betas:item1?0.999}, eps={eps?1e-8}), "
                    "optax.scale_by_learning_rate({lr}))",
                ),
            ),
            flags=("maximize", "amsgrad"),
        ),
        OptimizerEntry(
            "torch.optim.AdamW",
            "params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, amsgrad=False, *, " + REFUSED,
            "optax.adamw({lr}, b1={betas:item0?0.9}, b2={betas:item1?0.999}, eps={eps?1e-8}, "
            "weight_decay={weight_decay?1e-4})",
            decay="own",
            variants=(
                (
                    "amsgrad",
                    "optax.chain(scale_by_amsgrad(b1={betas:item0?0.9}, b2={betas:item1?0.999}, eps={eps?1e-8}), "
                    "optax.add_decayed_weights({weight_decay}), optax.scale_by_learning_rate({lr}))",
                ),
            ),
            flags=("maximize", "amsgrad"),
        ),
        OptimizerEntry(
            "torch.optim.LBFGS",
            "params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9, history_size=100, "
            "line_search_fn=None",
            "LBFGS({lr}, max_iter={max_iter?20}, max_eval={max_eval?None}, tolerance_grad={tolerance_grad?1e-7}, "
            "tolerance_change={tolerance_change?1e-9}, history_size={history_size?100})",
            variants=(
                (
                    "line_search_fn",
                    "LBFGS({lr}, max_iter={max_iter?20}, max_eval={max_eval?None}, "
                    "tolerance_grad={tolerance_grad?1e-7}, tolerance_change={tolerance_change?1e-9}, "
                    "history_size={history_size?100}, line_search=strong_wolfe)",
                ),
            ),
            flags=(),
        ),
        OptimizerEntry(
            "torch.optim.Adadelta",
            "params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False, maximize=False, "
            "differentiable=False",
            "optax.adadelta({lr}, rho={rho?0.9}, eps={eps?1e-6})",
        ),
        OptimizerEntry(
            "torch.optim.RMSprop",
            "params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, capturable=False, "
            "foreach=None, maximize=False, differentiable=False",
            "optax.rmsprop({lr}, decay={alpha}, eps={eps?1e-8}, eps_in_sqrt=False, centered={centered?False}, "
            "momentum={momentum?0})",
            # optax applies the momentum after the learning rate, torch before: with a rate that changes they differ
            variants=(
                (
                    "momentum",
                    "optax.chain(optax.scale_by_rms({alpha}, eps={eps}, eps_in_sqrt=False), "
                    "optax.trace({momentum}), optax.scale_by_learning_rate({lr}))",
                ),
            ),
            flags=("maximize", "centered"),
        ),
        OptimizerEntry(
            "torch.optim.Adagrad",
            "params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, foreach=None, *, "
            "maximize=False, differentiable=False, fused=None",
            # torch adds 1e-10 to the root, optax its epsilon below it: the square keeps gradients down to 1e-9 alike.
            "optax.chain(optax.scale_by_rss({initial_accumulator_value}, eps=1e-20), "
            "optax.scale_by_learning_rate({lr}))",
            variants=tuple(
                (
                    given,
                    "optax.chain(scale_by_adagrad({initial_accumulator_value?0.0}, eps={eps?1e-10}, "
                    "lr_decay={lr_decay?0.0}), optax.scale_by_learning_rate({lr}))",
                )
                for given in ("lr_decay", "eps")
            ),
        ),
        OptimizerEntry(
            "torch.optim.Adamax",
            "params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *, maximize=False, "
            "differentiable=False, capturable=False",
            "optax.adamax({lr}, b1={betas:item0?0.9}, b2={betas:item1?0.999}, eps={eps?1e-8})",
        ),
        OptimizerEntry(
            "torch.optim.NAdam",
            "params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3, "
            "decoupled_weight_decay=False, *, " + REFUSED.replace(", fused=None", ""),
            "optax.chain(scale_by_nadam(b1={betas:item0?0.9}, b2={betas:item1?0.999}, eps={eps?1e-8}, "
            "momentum_decay={momentum_decay?4e-3}), optax.scale_by_learning_rate({lr}))",
            decay="chosen",
            flags=("maximize", "decoupled_weight_decay"),
        ),
        OptimizerEntry(
            "torch.optim.RAdam",
            "params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False, *, "
            + REFUSED.replace(", fused=None", ""),
            "optax.chain(scale_by_radam(b1={betas:item0?0.9}, b2={betas:item1?0.999}, eps={eps?1e-8}), "
            "optax.scale_by_learning_rate({lr}))",
            decay="chosen",
            flags=("maximize", "decoupled_weight_decay"),
        ),
        OptimizerEntry(
            "torch.optim.Rprop",
            "params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False, foreach=None, "
            "maximize=False, differentiable=False",
            "rprop({lr}, etas={etas?(0.5, 1.2)}, step_sizes={step_sizes?(1e-6, 50)})",
        ),
        OptimizerEntry(
            "torch.optim.ASGD",
            "params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None, maximize=False, "
            "differentiable=False, capturable=False",
            "asgd({lr}, lambd={lambd?1e-4}, alpha={alpha?0.75})",
        ),
    )
}


@dataclass(frozen=True)
class ScheduleEntry:
    """A schedule as a function of the number of scheduler steps; {lr} is the optimizer's own rate. `starts`: its rate
    at step 0 is not that one, and torch sets it as soon as the scheduler is made. `scales`: it only multiplies the
    rate by factors, so that it can be chained with others. `momentum`: the schedule of the momentum (of Adam's first
    beta) that goes with it unless `cycle_momentum` is False. `closed`: torch computes each rate from the first one, not
    from the one before. `going_on`: the schedule as a function of the rate before, too, which the script may have set.
    """

    torch: str
    signature: str
    template: str
    starts: bool = False
    scales: bool = False
    momentum: str = ""
    closed: bool = False
    going_on: str = ""


SCHEDULES: dict[str, ScheduleEntry] = {
    f"torch.optim.lr_scheduler.{entry.torch}": entry
    for entry in (
        ScheduleEntry(
            "StepLR",
            "step_size, gamma=0.1, last_epoch=-1",
            "optax.exponential_decay({lr}, transition_steps={step_size}, decay_rate={gamma}, staircase=True)",
            scales=True,
            going_on="(lambda epoch, rate: rate * {gamma} if epoch % {step_size} == 0 else rate)",
        ),
        ScheduleEntry(
            "ExponentialLR",
            "gamma, last_epoch=-1",
            "optax.exponential_decay({lr}, transition_steps=1, decay_rate={gamma})",
            scales=True,
            going_on="(lambda epoch, rate: rate * {gamma})",
        ),
        ScheduleEntry(
            "LambdaLR",
            "lr_lambda, last_epoch=-1",
            "(lambda epoch: {lr} * {lr_lambda}(epoch))",
            starts=True,
            closed=True,
        ),
        ScheduleEntry(
            "MultiplicativeLR",
            "lr_lambda, last_epoch=-1",
            "(lambda epoch: {lr} * math.prod({lr_lambda}(turn) for turn in range(1, epoch + 1)))",
            scales=True,
            going_on="(lambda epoch, rate: rate * {lr_lambda}(epoch))",
        ),
        ScheduleEntry(
            "CosineAnnealingLR",
            "T_max, eta_min=0.0, last_epoch=-1",
            "(lambda epoch: {eta_min} + ({lr} - {eta_min}) * (1 + math.cos(math.pi * epoch / {T_max})) / 2)",
            going_on="cosine_annealing({lr}, {T_max}, end={eta_min?0.0})",
        ),
        ScheduleEntry(
            "CosineAnnealingWarmRestarts",
            "T_0, T_mult=1, eta_min=0.0, last_epoch=-1",
            "warm_restarts({lr}, {T_0}, factor={T_mult?1}, end={eta_min?0.0})",
            closed=True,
        ),
        ScheduleEntry(
            "MultiStepLR",
            "milestones, gamma=0.1, last_epoch=-1",
            "(lambda epoch: {lr} * {gamma} ** sum(epoch >= milestone for milestone in {milestones}))",
            scales=True,
            going_on="(lambda epoch, rate: rate * {gamma} ** sum(epoch == milestone for milestone in {milestones}))",
        ),
        ScheduleEntry(
            "ConstantLR",
            "factor=1/3, total_iters=5, last_epoch=-1",
            "(lambda epoch: {lr} * ({factor} if epoch < {total_iters} else 1.0))",
            starts=True,
            scales=True,
        ),
        ScheduleEntry(
            "LinearLR",
            "start_factor=1/3, end_factor=1.0, total_iters=5, last_epoch=-1",
            "optax.linear_schedule({lr} * {start_factor}, {lr} * {end_factor}, {total_iters})",
            starts=True,
            scales=True,
        ),
        ScheduleEntry(
            "PolynomialLR",
            "total_iters=5, power=1.0, last_epoch=-1",
            "optax.polynomial_schedule({lr}, 0.0, {power}, {total_iters})",
            scales=True,
        ),
        ScheduleEntry(
            "OneCycleLR",
            "max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3, anneal_strategy='cos', "
            "cycle_momentum=True, base_momentum=0.85, max_momentum=0.95, div_factor=25.0, final_div_factor=1e4, "
            "three_phase=False, last_epoch=-1",
            "one_cycle({max_lr} / {div_factor}, {max_lr}, {max_lr} / {div_factor} / {final_div_factor}, {total_steps}, "
            "pct_start={pct_start?0.3}, linear={anneal_strategy?False}, three_phase={three_phase?False})",
            starts=True,
            closed=True,
            momentum="one_cycle({max_momentum}, {base_momentum}, {max_momentum}, {total_steps}, "
            "pct_start={pct_start?0.3}, linear={anneal_strategy?False}, three_phase={three_phase?False})",
        ),
        ScheduleEntry(
            "CyclicLR",
            "base_lr, max_lr, step_size_up=2000, step_size_down=None, mode='triangular', gamma=1.0, scale_fn=None, "
            "scale_mode='cycle', cycle_momentum=True, base_momentum=0.8, max_momentum=0.9, last_epoch=-1",
            "cyclic({base_lr}, {max_lr}, {step_size_up?2000}, {step_size_down?None}, mode={mode}, gamma={gamma?1.0})",
            starts=True,
            closed=True,
            momentum="cyclic({max_momentum}, {base_momentum}, {step_size_up?2000}, {step_size_down?None}, "
            "mode={mode}, gamma={gamma?1.0})",
        ),
    )
}

SWA = "torch.optim.swa_utils.SWALR"
PLATEAU = "torch.optim.lr_scheduler.ReduceLROnPlateau"
SEQUENTIAL = "torch.optim.lr_scheduler.SequentialLR"
CHAINED = "torch.optim.lr_scheduler.ChainedScheduler"

# What schedulers made of others, or that follow a metric, take.
COMPOSED: dict[str, str] = {
    PLATEAU: "optimizer, mode='min', factor=0.1, patience=10, threshold=1e-4, threshold_mode='rel', cooldown=0, "
    "min_lr=0, eps=1e-8",
    SEQUENTIAL: "optimizer, schedulers, milestones, last_epoch=-1",
    CHAINED: "schedulers, optimizer=None",
    SWA: "optimizer, swa_lr, anneal_epochs=10, anneal_strategy='cos', last_epoch=-1",
}

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
    "torch.nn.CTCLoss": "torch.nn.functional.ctc_loss",
    "torch.nn.CosineEmbeddingLoss": "torch.nn.functional.cosine_embedding_loss",
    "torch.nn.GaussianNLLLoss": "torch.nn.functional.gaussian_nll_loss",
    "torch.nn.HingeEmbeddingLoss": "torch.nn.functional.hinge_embedding_loss",
    "torch.nn.MarginRankingLoss": "torch.nn.functional.margin_ranking_loss",
    "torch.nn.MultiLabelSoftMarginLoss": "torch.nn.functional.multilabel_soft_margin_loss",
    "torch.nn.MultiMarginLoss": "torch.nn.functional.multi_margin_loss",
    "torch.nn.PoissonNLLLoss": "torch.nn.functional.poisson_nll_loss",
    "torch.nn.SoftMarginLoss": "torch.nn.functional.soft_margin_loss",
    "torch.nn.TripletMarginLoss": "torch.nn.functional.triplet_margin_loss",
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
    "eye_": ("tensor", "lambda key, shape, dtype=jnp.float32: jnp.eye(*shape, dtype=dtype)"),
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
