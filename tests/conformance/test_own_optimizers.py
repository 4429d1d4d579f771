"""Optimizer classes of the user's own: ten steps in both frameworks, from the same weights."""

from __future__ import annotations

from textwrap import indent
from typing import Any

import numpy as np
import pytest

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.conformance.test_training_forms import EXACT, HEAD, LOOP, trained
from weight_port import to_optax

IMPORTS = "import math\nfrom torch.optim.optimizer import Optimizer, required\n"

LION = '''

class Lion(Optimizer):
    """Evolved sign momentum."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        if not 0.0 <= lr:
            raise ValueError("Invalid learning rate: {}".format(lr))
        defaults = dict(lr=lr, betas=betas, weight_decay=weight_decay)
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.data.mul_(1 - group["lr"] * group["weight_decay"])
                grad = p.grad
                state = self.state[p]
                if len(state) == 0:
                    state["exp_avg"] = torch.zeros_like(p)
                exp_avg = state["exp_avg"]
                beta1, beta2 = group["betas"]
                update = exp_avg * beta1 + grad * (1 - beta1)
                p.add_(update.sign_(), alpha=-group["lr"])
                exp_avg.mul_(beta2).add_(grad, alpha=1 - beta2)
        return loss


'''

ADAM = '''

class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False):
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 <= betas[0] < 1.0:
            raise ValueError("Invalid beta parameter at index 0: {}".format(betas[0]))
        defaults = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad)
        super(AdamW, self).__init__(params, defaults)

    def __setstate__(self, state):
        super(AdamW, self).__setstate__(state)
        for group in self.param_groups:
            group.setdefault("amsgrad", False)

    def step(self, closure=None):
        """Performs a single optimization step."""
        loss = None
        if closure is not None:
            loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                # Perform stepweight decay
                p.data.mul_(1 - group["lr"] * group["weight_decay"])
                # Perform optimization step
                grad = p.grad.data
                if grad.is_sparse:
                    raise RuntimeError("AdamW does not support sparse gradients")
                amsgrad = group["amsgrad"]
                state = self.state[p]
                # State initialization
                if len(state) == 0:
                    state["step"] = 0
                    # Exponential moving average of gradient values
                    state["exp_avg"] = torch.zeros_like(p.data)
                    # Exponential moving average of squared gradient values
                    state["exp_avg_sq"] = torch.zeros_like(p.data, memory_format=torch.preserve_format)
                    if amsgrad:
                        state["max_exp_avg_sq"] = torch.zeros_like(p.data)
                exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
                if amsgrad:
                    max_exp_avg_sq = state["max_exp_avg_sq"]
                beta1, beta2 = group["betas"]
                state["step"] += 1
                bias_correction1 = 1 - beta1 ** state["step"]
                bias_correction2 = 1 - beta2 ** state["step"]
                # Decay the first and second moment running average coefficient
                exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1)
                exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                if amsgrad:
                    # Maintains the maximum of all 2nd moment running avg. till now
                    torch.max(max_exp_avg_sq, exp_avg_sq, out=max_exp_avg_sq)
                    denom = (max_exp_avg_sq.sqrt() / math.sqrt(bias_correction2)).add_(group["eps"])
                else:
                    denom = (exp_avg_sq.sqrt() / math.sqrt(bias_correction2)).add_(group["eps"])
                step_size = group["lr"] / bias_correction1
                p.data.addcdiv_(exp_avg, denom, value=-step_size)
        return loss


'''

MOMENTUM = """

class Momentum(optim.Optimizer):
    def __init__(self, params, lr=required, momentum=0.9, weight_decay=0, nesterov=True):
        if lr is not required and lr < 0.0:
            raise ValueError("Invalid learning rate: {}".format(lr))
        self.nesterov = nesterov
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    def step(self):
        with torch.no_grad():
            for group in self.param_groups:
                lr = group["lr"]
                momentum, wd = group["momentum"], group["weight_decay"]
                for p in group["params"]:
                    if p.grad is not None:
                        g = p.grad
                        if wd != 0:
                            g = g.add(p, alpha=wd)
                        if "velocity" not in self.state[p]:
                            self.state[p]["velocity"] = torch.zeros_like(g)
                        v = self.state[p]["velocity"]
                        v = momentum * v + g
                        self.state[p]["velocity"] = v
                        p -= lr * (g + momentum * v if self.nesterov else v)


"""

PLAIN = '''

class Descent(optim.Optimizer):
    """No state at all."""

    def __init__(self, params, lr=0.1, clip=1.0):
        super().__init__(params, defaults={"lr": lr})
        self.clip = clip

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for param in filter(lambda p: p.grad is not None, group["params"]):
                param.sub_(param.grad.clamp(-self.clip, self.clip), alpha=group["lr"])


'''

LARS = """

class LARS(optim.Optimizer):
    def __init__(self, params, lr=0.1, momentum=0.9, weight_decay=1e-2, eta=0.01):
        defaults = dict(lr=lr, momentum=momentum, weight_decay=weight_decay, eta=eta)
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            for p in g["params"]:
                dp = p.grad
                if dp is None:
                    continue
                dp = dp.add(p, alpha=g["weight_decay"])
                param_norm = torch.norm(p)
                update_norm = torch.norm(dp)
                one = torch.ones_like(param_norm)
                q = torch.where(
                    param_norm > 0.0,
                    torch.where(update_norm > 0, g["eta"] * param_norm / update_norm, one),
                    one,
                )
                dp = dp.mul(q)
                param_state = self.state[p]
                if "mu" not in param_state:
                    param_state["mu"] = torch.zeros_like(p)
                mu = param_state["mu"]
                mu.mul_(g["momentum"]).add_(dp)
                p.add_(mu, alpha=-g["lr"])


"""

FIRST = """

class SGDW(Optimizer):
    def __init__(self, params, lr=0.1, momentum=0.9, dampening=0.5, nesterov=False):
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, nesterov=nesterov))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            momentum = group["momentum"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                d_p = p.grad
                if momentum != 0:
                    param_state = self.state[p]
                    if "momentum_buffer" not in param_state:
                        buf = param_state["momentum_buffer"] = torch.clone(d_p).detach()
                    else:
                        buf = param_state["momentum_buffer"]
                        buf.mul_(momentum).add_(d_p, alpha=1 - group["dampening"])
                    if group["nesterov"]:
                        d_p = d_p.add(buf, alpha=momentum)
                    else:
                        d_p = buf
                norm = torch.norm(d_p)
                if norm == 0:
                    trust = 1
                else:
                    trust = p.norm() / norm
                self.state[p]["trust"] = trust
                p.add_(d_p, alpha=-group["lr"] * trust)


"""
METHODS = '''

def changed(p, update, lr):
    """A function that changes what it is given."""
    p.data.mul_(0.999)
    p.data.add_(update, alpha=-lr)


class Belief(optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-3, decoupled=True, decay=0.1, rectify=True):
        self.decoupled = decoupled
        self.rectify = rectify
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, decay=decay))

    def init_state(self, state, group, param):
        """What it starts with."""
        state["step"] = 0
        state["exp_avg"] = torch.zeros_like(param, memory_format=torch.preserve_format)
        state["exp_avg_var"] = torch.zeros_like(param)

    def decay(self, param, grad, group):
        if self.decoupled:
            param.data.mul_(1.0 - group["lr"] * group["decay"])
            return grad
        else:
            if group["decay"] != 0:
                return grad.add(param.data, alpha=group["decay"])
            else:
                return grad

    def get_ms(self, state, group, grad):
        beta1, beta2 = group["betas"]
        m, s = state["exp_avg"], state["exp_avg_var"]
        m.mul_(beta1).add_(grad, alpha=1 - beta1)
        residual = grad - m
        s.mul_(beta2).addcmul_(residual, residual, value=1 - beta2)
        return m, s

    @staticmethod
    def rate(lr, step):
        return lr * min(1.0, step * 0.25)

    def step_param(self, state, group, grad, param):
        grad = self.decay(param, grad, group)
        m, v = self.get_ms(state, group, grad)
        state["step"] += 1
        beta1, beta2 = group["betas"]
        lr = 1.1 * self.rate(group["lr"], state["step"])
        denominator = (v.sqrt() / math.sqrt(1 - beta2 ** state["step"])).add_(group["eps"])
        m = m / (1 - beta1 ** state["step"])
        changed(param, m / denominator, lr)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is None:
                    continue
                grad = param.grad.data
                state = self.state[param]
                if len(state) == 0:
                    self.init_state(state, group, param)
                self.step_param(state, group, grad, param)


'''

RADAM = """

class RAdam(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, degenerated_to_sgd=True):
        self.degenerated_to_sgd = degenerated_to_sgd
        super(RAdam, self).__init__(params, dict(lr=lr, betas=betas, eps=eps))

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad.data
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p.data)
                    state["exp_avg_sq"] = torch.zeros_like(p.data)
                exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
                beta1, beta2 = group["betas"]
                exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1)
                state["step"] += 1
                beta2_t = beta2 ** state["step"]
                N_sma_max = 2 / (1 - beta2) - 1
                N_sma = N_sma_max - 2 * state["step"] * beta2_t / (1 - beta2_t)
                if N_sma >= 5:
                    r2 = (N_sma - 4) / (N_sma_max - 4) * (N_sma - 2) / N_sma * N_sma_max / (N_sma_max - 2)
                    step_size = math.sqrt((1 - beta2_t) * r2) / (1 - beta1 ** state["step"])
                else:
                    step_size = 1.0 / (1 - beta1 ** state["step"])
                if N_sma >= 5:
                    denom = exp_avg_sq.sqrt().add_(group["eps"])
                    p.data.addcdiv_(exp_avg, denom, value=-step_size * group["lr"])
                elif self.degenerated_to_sgd:
                    p.data.add_(exp_avg, alpha=-step_size * group["lr"])


"""

MUON = """

def zeropower_via_newtonschulz5(G, steps: int):
    assert G.ndim >= 2
    a, b, c = (3.4445, -4.7750, 2.0315)
    X = G.CAST()
    if G.size(-2) > G.size(-1):
        X = X.mT
    # Ensure spectral norm is at most 1
    X = X / (X.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    # Perform the NS iterations
    for _ in range(steps):
        A = X @ X.mT
        B = b * A + c * A @ A
        X = a * X + B @ X
    if G.size(-2) > G.size(-1):
        X = X.mT
    return X


def muon_update(grad, momentum, beta=0.95, ns_steps=5, nesterov=True):
    momentum.lerp_(grad, 1 - beta)
    update = grad.lerp_(momentum, beta) if nesterov else momentum
    if update.ndim == 4:  # for the case of conv filters
        update = update.view(len(update), -1)
    update = zeropower_via_newtonschulz5(update, steps=ns_steps)
    update *= max(1, grad.size(-2) / grad.size(-1)) ** 0.5
    return update


class SingleDeviceMuon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, weight_decay=0, momentum=0.95):
        defaults = dict(lr=lr, weight_decay=weight_decay, momentum=momentum)
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    # continue
                    p.grad = torch.zeros_like(p)  # Force synchronization
                state = self.state[p]
                if len(state) == 0:
                    state["momentum_buffer"] = torch.zeros_like(p)
                update = muon_update(p.grad, state["momentum_buffer"], beta=group["momentum"])
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update.reshape(p.shape), alpha=-group["lr"])
        return loss


""".replace("CAST", "clone")
MATRICES = """matrices = [p for p in model.parameters() if p.ndim == 2]
others = [p for p in model.parameters() if p.ndim < 2]
optimizer = SingleDeviceMuon(matrices, lr=0.01, weight_decay=0.1)
second = optim.AdamW(others, lr=0.01)
"""
BOTH = LOOP.replace("optimizer.step()", "optimizer.step()\n    second.step()").replace(
    "optimizer.zero_grad()", "optimizer.zero_grad()\n    second.zero_grad()"
)

GROUPS = """optimizer = CLASS([
    {"params": model.features.parameters(), "lr": 0.02},
    {"params": [*model.norm.parameters(), *model.head.parameters()]},
], lr=0.05)
"""
SCHEDULED = "scheduler = optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5)\n" + LOOP + "    scheduler.step()\n"


def of(cls: str, text: str, arguments: str, loop: str = LOOP) -> str:
    """A script with an optimizer class, made of all parameters."""
    return f"{IMPORTS}{text}optimizer = {cls}(model.parameters(), {arguments})\n{loop}"


CLOSURE = """for step in range(10):
    def closure():
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        return loss
    loss = optimizer.step(closure)
    losses.append(loss.item())
"""
APART = """for step in range(10):
    loss = criterion(model(x), y) / 2
    loss.backward()
    if (step + 1) % 2 == 0:
        optimizer.step()
        optimizer.zero_grad()
    losses.append(loss.item() + step)
"""
NOAM = """class NoamOpt:
    def __init__(self, model_size, factor, warmup, optimizer):
        self.optimizer = optimizer
        self._step = 0
        self.warmup = warmup
        self.factor = factor
        self.model_size = model_size

    def step(self):
        self._step += 1
        rate = self.rate()
        for p in self.optimizer.param_groups:
            p['lr'] = rate
        self.optimizer.step()

    def zero_grad(self):
        self.optimizer.zero_grad()

    def rate(self):
        return self.factor * self.model_size ** (-0.5) * min(self._step ** (-0.5), self._step * self.warmup ** (-1.5))


optimizer = NoamOpt(16, 1, 40, AdamW(model.parameters(), lr=0))
"""
IN_FUNCTION = "def train(model, optimizer):\n" + indent(LOOP, "    ") + "\n\ntrain(model, optimizer)\n"
CHOSEN = """def get(name, params):
    if name == 'lion':
        return Lion(params, lr=0.01)
    return optim.Adam(params, lr=0.01)


optimizer = get('lion', model.parameters())
"""
CLIPPED = LOOP.replace(
    "    optimizer.step", "    nn.utils.clip_grad_norm_(model.parameters(), 0.5)\n    optimizer.step"
)
CYCLE = SCHEDULED.replace("StepLR(optimizer, 3, gamma=0.5)", "OneCycleLR(optimizer, 0.1, total_steps=10)")
PLATEAU = SCHEDULED.replace("StepLR(optimizer, 3, gamma=0.5)", "ReduceLROnPlateau(optimizer, patience=1)").replace(
    "scheduler.step()", "scheduler.step(loss.item())"
)
SPOILED = LION.replace("update = exp_avg", "grad.add_(p, alpha=0.1)\n                update = exp_avg")

FORMS = {
    "lion": of("Lion", LION, "lr=0.01, weight_decay=0.1"),
    "lion with other betas": of("Lion", LION, "lr=0.01, betas=(0.5, 0.7)"),
    "lion with a scheduler": of("Lion", LION, "lr=0.02, weight_decay=0.1", SCHEDULED),
    "lion of two groups": IMPORTS + LION + GROUPS.replace("CLASS", "Lion") + LOOP,
    "lion of two groups with a scheduler": IMPORTS + LION + GROUPS.replace("CLASS", "Lion") + SCHEDULED,
    "adamw": of("AdamW", ADAM, "lr=0.05, weight_decay=0.2"),
    "adamw with amsgrad": of("AdamW", ADAM, "lr=0.05, betas=(0.3, 0.5), amsgrad=True"),
    "adamw of two groups": IMPORTS + ADAM + GROUPS.replace("CLASS", "AdamW") + LOOP,
    "adamw with a scheduler": of("AdamW", ADAM, "lr=0.05", SCHEDULED),
    "adamw whose rate a loop sets": of("AdamW", ADAM, "lr=0.05").replace(
        "    optimizer.zero_grad",
        "    for group in optimizer.param_groups:\n        group['lr'] = 0.05 / (step + 1)\n    optimizer.zero_grad",
    ),
    "a closure": of("Lion", LION, "lr=0.01", CLOSURE),
    "steps apart from backward": of("Lion", SPOILED, "lr=0.01", APART),
    "noam": IMPORTS + ADAM + NOAM + LOOP,
    "noam in a function that is given the model": IMPORTS + ADAM + NOAM + IN_FUNCTION,
    "one of several": IMPORTS + LION + CHOSEN + LOOP,
    "clipped": of("Lion", LION, "lr=0.01", CLIPPED),
    "a cycle": of("Lion", LION, "lr=0.01", CYCLE),
    "a plateau": of("Lion", LION, "lr=0.2", PLATEAU),
    "momentum": of("Momentum", MOMENTUM, "0.05, weight_decay=0.1"),
    "momentum with a scheduler": of("Momentum", MOMENTUM, "0.05", SCHEDULED),
    "momentum without nesterov": of("Momentum", MOMENTUM, "lr=0.05, nesterov=False"),
    "no state, of some": of("Descent", PLAIN, "lr=0.3").replace("model.parameters(),", "model.features.parameters(),"),
    "no weight decay, of two groups": IMPORTS + PLAIN + GROUPS.replace("CLASS", "Descent") + LOOP,
    "no state": of("Descent", PLAIN, "lr=0.3"),
    "no state with a scheduler": of("Descent", PLAIN, "lr=0.3", SCHEDULED),
    "methods": of("Belief", METHODS, "lr=0.05"),
    "methods, coupled": of("Belief", METHODS, "lr=0.05, decoupled=False"),
    "methods with a scheduler": of("Belief", METHODS, "lr=0.05", SCHEDULED),
    "methods of two groups": IMPORTS + METHODS + GROUPS.replace("CLASS", "Belief") + LOOP,
    "a step that depends on how many there were": of("RAdam", RADAM, "lr=0.05, betas=(0.9, 0.9)"),
    "the same with a scheduler": of("RAdam", RADAM, "lr=0.05, betas=(0.9, 0.9)", SCHEDULED),
    "matrices": IMPORTS + MUON + MATRICES + BOTH,
    "norms": of("LARS", LARS, "lr=0.3"),
    "a first step of its own": IMPORTS
    + FIRST
    + GROUPS.replace("CLASS", "SGDW").replace('"lr": 0.02', '"nesterov": True')
    + SCHEDULED,
}


@pytest.mark.parametrize("name", FORMS)
def test_ten_steps(name: str, float64: None) -> None:
    theirs, ours = trained(HEAD + FORMS[name])
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)
    assert len(set(theirs["losses"])) > 5


STATELESS = PLAIN.replace("param.sub_(", "CHANGED\n                param.sub_(")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (STATELESS.replace("CHANGED", "self.steps.append(param)"), "does more than change one parameter"),
        (STATELESS.replace("CHANGED", "if self.clip > 3: continue"), "leaves the loop"),
        (STATELESS.replace("CHANGED", "self.state[param]['n'] = self.state[param]['n'] * 2"), "does more than"),
        (STATELESS.replace("CHANGED", "group['lr'] *= 0.9"), "changes the hyperparameter lr"),
        (STATELESS.replace("CHANGED", "self.clip = self.clip * 2"), "changes the hyperparameter clip"),
        (PLAIN.replace("p.grad is not None", "p.grad.sum() > 0"), "no loop over the parameters"),
        (MOMENTUM.replace("torch.zeros_like(g)", "g.clone()"), "starts with the first gradient"),
        (FIRST.replace("if momentum != 0", "if p.sum() > 0"), "first step is another than those that follow"),
        (ADAM.replace('state["step"] += 1', 'state["step"] *= 2'), "a number that does not count its steps"),
        (
            PLAIN.replace("lr=0.1, clip", "rate=0.1, clip").replace('"lr": lr', '"lr": rate'),
            "no learning rate called lr",
        ),
        (METHODS.replace("def decay(self", "def zero_grad(self"), "has the method zero_grad"),
        (METHODS.replace("        changed(param", "        x = 1 + changed(param"), "what changes the state inside of"),
        (METHODS.replace("residual = grad - m", "self.get_ms(state, group, grad)"), "calls itself"),
        (LION.replace("return loss\n", "self.zero_grad()\n"), "does more than the loop"),
        (LION.replace("super().__init__(params", "super().__init__(list(params)[1:]"), "hands on"),
    ],
)
def test_what_is_no_function_of_one_parameter(text: str, said: str) -> None:
    made = convert(parse("x.py", "import random\n" + HEAD + IMPORTS + text))
    findings = [each for each in made.report.diagnostics if each.code == "MIG201"]
    assert [said in each.message for each in findings] == [True], made.report.as_text()


@pytest.mark.parametrize(
    ("before", "turn"),
    [
        ("lr = group['lr']", "lr *= 0.5"),
        ("count = 0", "count += 1"),
        ("total = torch.zeros(1)", "total.add_(p.grad.norm())"),
        ("rate = 1.0", "rate = rate * 0.5 if p.dim() > 1 else rate"),
    ],
)
def test_what_goes_on_from_one_parameter_to_the_next(before: str, turn: str) -> None:
    """Each would start anew for every parameter."""
    step = f"            {before}\n            for p in group['params']:\n                {turn}\n"
    step += "                p.add_(p.grad, alpha=-group['lr'])\n"
    text = "class Mine(optim.Optimizer):\n    def __init__(self, params, lr=0.1):\n"
    text += "        super().__init__(params, dict(lr=lr))\n\n    def step(self):\n"
    text += f"        for group in self.param_groups:\n{step}"
    made = convert(parse("x.py", HEAD + text))
    assert "goes on from one parameter to the next" in made.report.as_text()


def test_options_of_groups_that_a_step_does_not_read() -> None:
    groups = GROUPS.replace("CLASS", "Lion").replace('"lr": 0.02', '"eps": 0.02')
    made = convert(parse("x.py", HEAD + IMPORTS + LION + groups))
    assert "eps of a parameter group" in made.report.diagnostics[0].message


@pytest.mark.parametrize(
    ("net", "said"),
    [
        ("nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3))", "which Flax has otherwise"),
        ("nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4))", "in several orders"),
    ],
)
def test_a_step_that_works_on_axes(net: str, said: str) -> None:
    made = convert(parse("x.py", f"{HEAD}{IMPORTS}{MUON}net = {net}\nopt = SingleDeviceMuon(net.parameters())\n"))
    assert said in made.report.as_text()


def test_a_step_that_works_on_axes_of_nothing_known() -> None:
    made = convert(parse("x.py", HEAD + IMPORTS + MUON))
    assert "axes of parameters that are not known here" in made.report.as_text()


def test_gradients_that_a_step_changes_and_nothing_clears() -> None:
    loop = LOOP.replace("    optimizer.zero_grad()\n", "")
    made = convert(parse("x.py", HEAD + of("Lion", SPOILED, "lr=0.01", loop)))
    assert "changes gradients that are not cleared" in made.report.as_text()


@pytest.mark.parametrize(
    ("cls", "text", "key"),
    [("AdamW", ADAM, "exp_avg_sq"), ("Lion", LION, "exp_avg"), ("SingleDeviceMuon", MUON, "momentum_buffer")],
)
def test_the_state_of_a_torch_run_is_ported(cls: str, text: str, key: str) -> None:
    """Square matrices: nothing but their place tells which axis is which."""
    net = "model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))\ncriterion = nn.MSELoss()\n"
    head = "import torch\nimport torch.nn as nn\nimport torch.optim as optim\n" + IMPORTS
    made = f"optimizer = {cls}(model.parameters(), lr=0.05)\nx, y, losses = torch.randn(4, 3), torch.randn(4, 3), []\n"
    source = head + text + net + made + LOOP
    conversion = convert(parse("x.py", source))
    theirs: dict[str, Any] = {}
    ours: dict[str, Any] = {"__name__": "executed"}
    exec(source, theirs)
    exec(conversion.text, ours)
    state = theirs["optimizer"].state_dict()
    template = ours["optimizer"].init(ours["model_params"])
    names = [name for name, _ in theirs["model"].named_parameters()]
    ported = to_optax(state, conversion.manifest.models[0], template, names=names).state
    for number, layer in enumerate(getattr(ported, key).values()):
        np.testing.assert_array_equal(layer["kernel"], state["state"][number][key].numpy().T)
    if "step" in state["state"][0]:
        assert ported.step == 10


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (STATELESS.replace("CHANGED", "param.add_(torch.randn_like(param))"), "draws random numbers"),
        (STATELESS.replace("CHANGED", "param.data.normal_()"), "draws random numbers"),
        (STATELESS.replace("CHANGED", "param.mul_(random.random())"), "draws random numbers"),
        (STATELESS.replace("CHANGED", "change = {'a': max}['a']\n                change(param)"), "nothing is known"),
    ],
)
def test_what_a_step_may_not_call(text: str, said: str) -> None:
    made = convert(parse("x.py", "import random\n" + HEAD + of("Descent", text, "lr=0.1")))
    assert [said in each.message for each in made.report.diagnostics if each.code == "MIG201"] == [True]
