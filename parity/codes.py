"""Every code that a comparison can end with, and the exception that carries those which stop it.

PAR1xx: the two sides were run and differ (exit 1), or something is worth knowing. PAR2xx: the comparison stopped
(exit 2, or 1 where it stopped because the rewritten model and the torch weights do not fit each other).
`migrate explain PAR101` prints the explanation.
"""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    title: str
    explanation: str


CODES: dict[str, Code] = {
    "PAR101": Code(
        "A layer's output differs",
        "Both models were given the same weights and the same batch, and the first layer, in the order of execution, "
        "whose output differs by more than rounding is named. Look at that layer's arguments (epsilon, padding, "
        "approximate GELU, bias) and at how its weight is moved in weights.json. Layers before it agree.",
    ),
    "PAR102": Code(
        "The first loss differs",
        "The outputs agree, the loss computed from them does not: look at the loss function (reduction, weights, "
        "label smoothing, added penalties) and at what the script does between model and loss.",
    ),
    "PAR103": Code(
        "A gradient differs",
        "Outputs and loss agree, a gradient does not: look for a detach, a no_grad block or a stop_gradient that one "
        "side lacks, a parameter that is frozen on one side, or a loss that is divided for accumulation.",
    ),
    "PAR104": Code(
        "The weights after one step differ",
        "The gradients agree, the updated weights or buffers do not: look at the optimizer's arguments (learning rate, "
        "weight decay, betas, epsilon, momentum), parameter groups, gradient clipping, and running statistics.",
    ),
    "PAR105": Code(
        "A later loss differs",
        "The first step agrees whole, a later loss does not: look at the learning-rate schedule, at state that only "
        "acts from the second step on (momentum, bias correction), and at the order of the batches.",
    ),
    "PAR106": Code(
        "The two sides took a different number of steps",
        "One script ended before the other. Look at the length of the loader (drop_last), at the number of epochs and "
        "at loops that end by a condition.",
    ),
    "PAR107": Code(
        "Steps that decide nothing",
        "From the step named, torch differs from itself so much, when its initial weights are moved by one unit in the "
        "last place, that ten times as much would let any error pass. Those steps are shown and not judged. A smaller "
        "learning rate makes a run less sensitive.",
    ),
    "PAR108": Code(
        "The script ended before the steps asked for",
        "Both sides ended by themselves after the same number of steps. All of them were compared.",
    ),
    "PAR109": Code(
        "A rung could not be compared",
        "Nothing recorded on one side could be matched with the other by name and shape; the rungs around it were "
        "compared. Typical for a script without modules, and for layers that the rewrite merged.",
    ),
    "PAR110": Code(
        "A curve leaves torch's own envelope",
        "The norm of the gradient, or how far the weights have come, leaves ten times the spread of torch runs that "
        "differ in roundings alone, although the losses do not. The optimizer or its schedule is the first suspect; "
        "the parameter furthest outside is named.",
    ),
    "PAR111": Code(
        "A result changes with the mode of execution",
        "Both sides agree as they run by default. In the mode named (without jit, without excess precision, or with an "
        "accelerator's products on both sides) the rewrite is further from the float64 oracle than its budget allows, "
        "in units of torch's own error there. A program that leans on one mode changes with compiler and device.",
    ),
    "PAR112": Code(
        "The rewrite rounds worse than its budget allows",
        "The first step of the rewrite was evaluated in high precision, as its jaxpr says it (--oracle). Of one tensor "
        "the rewrite's float32 is further from that than its budget allows, in units of torch's own error. An "
        "operation that is computed in another way, or in a narrower type, is the first suspect.",
    ),
    "PAR113": Code(
        "The oracle could not evaluate the first step",
        "The jaxpr of the first step holds a primitive that the interpreter of high precision does not know, a ball of "
        "python-flint left a comparison open (`--oracle mpmath` has no balls), or python-flint is not installed.",
    ),
    "PAR114": Code(
        "Every loss is 0",
        "Both sides report a loss of 0 at every step, from which nothing follows: a rewrite that trains nothing would "
        "do so, too. Draws of one shape are the same numbers under the harness, so a script that draws its inputs and "
        "its targets in the same shape compares a thing with itself. Load data, or draw targets in another way.",
    ),
    "PAR201": Code(
        "The torch script failed",
        "The original script ended by an exception under the harness, on the CPU, in a copy of its folder. The end of "
        "its traceback is shown. Missing data or packages can be stood in for by --prelude FILE, a Python file that is "
        "run before the script on both sides.",
    ),
    "PAR202": Code(
        "A leaf of the rewritten model is not filled",
        "weights.json has no entry for a leaf that the rewritten model has, so it would keep random weights.",
    ),
    "PAR203": Code(
        "The manifest fills a leaf that does not exist",
        "weights.json names a leaf that the rewritten model does not have: a layer or a bias was lost in the rewrite, "
        "or the manifest belongs to another version of the file.",
    ),
    "PAR204": Code(
        "A ported weight has another shape than its leaf",
        "Weights were moved to a shape that differs from what the rewritten model initialises. Look at the moves of "
        "that leaf in weights.json and at the sizes in the rewritten layer.",
    ),
    "PAR205": Code(
        "No torch weights for a rewritten model",
        "The rewritten script initialises a model for which the torch run has no counterpart of the same class, or "
        "weights.json does not describe that class.",
    ),
    "PAR206": Code(
        "The rewritten script failed",
        "It ended by an exception before any loss differed. The end of its traceback is shown.",
    ),
    "PAR207": Code(
        "Nothing to compare",
        "A side differentiated no loss: no .backward() in torch, or no jax.value_and_grad or jax.grad in the rewrite, "
        "was reached.",
    ),
    "PAR208": Code(
        "The script's folder cannot be copied",
        "Each side runs in a copy of the script's folder, so that nothing of yours is overwritten. The folder is "
        "missing, or larger than the limit: move the script and what it reads into a folder of its own.",
    ),
    "PAR209": Code(
        "A run took too long",
        "The process was ended. Ask for fewer steps, or pass arguments after -- that make the script smaller.",
    ),
    "PAR210": Code(
        "A process ended without a recording",
        "It was killed (often for memory) or crashed outside Python. The end of its error output is shown.",
    ),
    "PAR211": Code(
        "An input cannot be used",
        "The script, the rewritten file or the manifest is missing or cannot be read. `migrate rewrite SCRIPT` writes "
        "the last two.",
    ),
    "PAR212": Code(
        "The torch weights do not fit the manifest",
        "weights.json and the model's state dict disagree: the message names the key or leaf.",
    ),
    "PAR213": Code(
        "The system refused",
        "A file or folder could not be written or read: the disk is full, or a folder may not be written to. The "
        "copies that each side runs in are made in the system's temporary folder; TMPDIR names another.",
    ),
    "PAR214": Code(
        "A budget of the gate covers nothing",
        "The pattern of a budget matches no tensor that was compared: a name that changed, or a mistake in the "
        "pattern. What it asks for would be held against nothing, so the gate does not pass.",
    ),
    "PAR215": Code(
        "The rewritten file is not what its source gives now",
        "The subject says `fresh = true`, and rewriting the script now gives another text: one of the two was changed "
        "since. Run `migrate rewrite` again, or leave `fresh` out where the rewrite is edited by hand.",
    ),
    "PAR216": Code(
        "Torch has NaN from the start",
        "Weights that a model starts from, or the first loss, are NaN in torch: nothing can be held against them, and "
        "two sides that are both NaN are not equal. A checkpoint of a run that diverged is the usual cause.",
    ),
}


_DO_NOT_FIT = ("PAR202", "PAR203", "PAR204", "PAR212")


class ParityError(Exception):
    """A comparison could not be made. `code` is in CODES; the message says what, where and what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    @property
    def exit_code(self) -> int:
        """1 where weights and rewrite do not fit each other, which is a difference; 2 where nothing could be run."""
        return 1 if self.code in _DO_NOT_FIT else 2

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"
