"""The codes of what `migrate rewrite` says."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Severity(enum.StrEnum):
    """`error` needs a person; `note` is worth knowing; `fatal` means that nothing was written."""

    NOTE = "note"
    ERROR = "error"
    FATAL = "fatal"


@dataclass(frozen=True)
class Code:
    """One kind of finding."""

    name: str
    title: str
    help: str
    explanation: str
    severity: Severity = Severity.ERROR


def _codes(*codes: Code) -> dict[str, Code]:
    table: dict[str, Code] = {}
    for code in codes:
        if code.name in table:
            raise ValueError(f"{code.name} is declared twice")
        table[code.name] = code
    return table


CODES: dict[str, Code] = _codes(
    Code(
        "MIG001",
        "cannot be parsed",
        "mend the syntax first: python -m py_compile FILE",
        "The file is not valid Python 3. Nothing was written. Python 2 files need 2to3 (Python 3.11 or older) first.",
        Severity.FATAL,
    ),
    Code(
        "MIG002",
        "cannot be read as text",
        "pass a Python source file",
        "The file is binary or its bytes do not decode by its declared encoding (UTF-8 where none is declared).",
        Severity.FATAL,
    ),
    Code(
        "MIG003",
        "no such file, or not a file",
        "check the path",
        "The input does not exist, is a directory, or may not be read.",
        Severity.FATAL,
    ),
    Code(
        "MIG101",
        "nothing to rewrite",
        "the file is left as it is",
        "The file uses no torch API that is rewritten: it is copied byte for byte.",
        Severity.NOTE,
    ),
    Code(
        "MIG102",
        "files that a package imports and the program does not use are left out",
        "name the folder of the package to convert all of it",
        "Python runs the `__init__.py` of a package on the way to a module in it. What that imports from files of "
        "which nothing is used is left out, with those files, where importing them only defines what is in them.",
        Severity.NOTE,
    ),
    Code(
        "MIG103",
        "a file of an installed package is rewritten beside the script",
        "nothing to do; its licence holds for the rewritten file as well",
        "The script takes models from a package (torchvision.models, transformers since its version 5), whose file "
        "that defines them stands on its own: it is rewritten along, and the script imports it. Where the script looks "
        "a model up by a name that is only known as it runs, the file is that of its usual name, and the models of "
        "other files are not there. Of other packages written with torch (layers of timm) the classes and functions "
        "that the project names are cut out, with all that they need, where that is no more than some hundred lines.",
        Severity.NOTE,
    ),
    Code(
        "MIG201",
        "a module class could not be converted",
        "write this class by hand, keeping its attribute names",
        "An nn.Module class uses a construct whose Flax form is not known: a base class from elsewhere, *args in its "
        "constructor, a submodule made outside `__init__`.",
    ),
    Code(
        "MIG202",
        "no such layer in the layer table",
        "see `migrate layers` for what is known",
        "The layer has no entry in the layer table yet, so neither its Flax constructor nor the layout of its weights "
        "is known.",
    ),
    Code(
        "MIG203",
        "an argument of a layer is not supported",
        "use the default of the argument, or write the layer by hand",
        "The layer is known, but with this argument Flax computes something else.",
    ),
    Code(
        "MIG204",
        "weight initialisation not understood",
        "write the initialiser by hand: weights ported from a checkpoint are not affected",
        "The code changes weights after construction in a way that was not recognised, so the initial distribution of "
        "the rewritten module would differ from torch's.",
    ),
    Code(
        "MIG205",
        "a file of the project that is not converted with this one",
        "mend that file, or name the script by its path",
        "The script imports a module of its own project that could not be converted with it: it cannot be parsed, or "
        "the script came from standard input, which has no place to import from. What comes from there is unknown "
        "here: its models have no weights to thread, and calls of it stay as they are.",
    ),
    Code(
        "MIG206",
        "a part of a notebook that is not converted",
        "put the code into lines of its own, or an update of weights into one cell",
        "The magic of a line (`%timeit model(x)`) runs code that is left as it is, or a file with torch (`%run "
        "train.py`); or a cell writes such a file (`%%writefile`). Or an update of the weights is "
        "spread over cells in such a way that its parts cannot be told apart any more: then the notebook is not "
        "written.",
    ),
    Code(
        "MIG301",
        "no rule for this torch API",
        "write this line by hand",
        "The call has no conversion rule yet. The line raises NotImplementedError with its original in a comment, so "
        "nothing is computed wrongly in silence.",
    ),
    Code(
        "MIG302",
        "an argument of a torch API is not supported",
        "write this line by hand",
        "The API is known, but not with these arguments.",
    ),
    Code(
        "MIG303",
        "in-place change of a value that may be shared",
        "write the update as an assignment",
        "JAX arrays never change in place. The rewriter rebinds a plain name (`x = x + y`), and refuses where another "
        "name or an object would have seen the change in torch.",
    ),
    Code(
        "MIG304",
        "a torch name is left",
        "write this line by hand",
        "After all passes a name rooted in torch is still used outside data loading. It would need torch at run time.",
    ),
    Code(
        "MIG305",
        "a name of the output is bound nowhere",
        "bind it, or write the place that reads it by hand",
        "What bound the name could not be converted, or went with the torch code that it belonged to.",
    ),
    Code(
        "MIG306",
        "a torch method of an object that is not known",
        "write this line by hand, or annotate what the object is",
        "The method is one that torch's tensors, modules and optimizers have, but what the object is could not be "
        "told, so the call was left as it is. It would fail on a jax array.",
    ),
    Code(
        "MIG307",
        "depends on the values of a tensor",
        "choose by jnp.where, or move the decision out of what is jitted",
        "What jit traces has shapes and types, but no values. A branch is written with `jax.lax.cond` where both sides "
        "only compute tensors; other branches, loops and conversions to Python's numbers are left.",
    ),
    Code(
        "MIG401",
        "training step not understood",
        "write this loop by hand: the model and its functions are converted",
        "The statements between the forward pass, `backward()` and `step()` do not form an update that can be made a "
        "pure function. The original stays in comments.",
    ),
    Code(
        "MIG402",
        "no example input for the weights",
        "pass an example batch to `model.init`",
        "Flax makes the weights by tracing the model once on an example input, and none could be derived from the "
        "script.",
    ),
    Code(
        "MIG403",
        "train or eval mode depends on the run",
        "call model.train() or model.eval() right before",
        "torch keeps the mode as hidden state of the model. Here it differs from one run of the line to the next (for "
        "example: eval mode from the second epoch on, because the evaluation never switches back).",
    ),
    Code(
        "MIG404",
        "state cannot be threaded through this call",
        "call the function in a statement of its own",
        "The function updates weights or optimizer state, which a pure program returns; this call has no place for "
        "what is returned.",
    ),
    Code(
        "MIG405",
        "each batch has a shape that there has not been",
        "pad graphs to a few sizes, with a node and edges of no effect, and leave those out of norms and losses; or "
        "take one graph at a time",
        "XLA compiles a step once for each shape, and keeps the programs. A loader that puts graphs together anew in "
        "each epoch (`shuffle=True`, neighbours that are sampled, clusters) gives other numbers of nodes and edges "
        "each time: the output computes what the script computes, compiles at each step, and ends when memory is used "
        "up. What may be padded without changing a result is told by the model: batch norms and means see each node.",
    ),
    Code(
        "MIG501",
        "recompiles as a shape grows",
        "pad to a fixed length where speed matters",
        "XLA compiles once for each shape. A loop that makes an array longer at each turn compiles at each turn.",
        Severity.NOTE,
    ),
    Code(
        "MIG502",
        "bfloat16 in place of float16",
        "nothing to do where the hardware has bfloat16",
        "Under autocast the layers of the output compute in bfloat16, which has the range of float32, so that the loss "
        "needs no scaling: gradient scalers disappear. Where the script chooses the dtype as it runs, choose bfloat16.",
        Severity.NOTE,
    ),
    Code(
        "MIG503",
        "several processes become one program",
        "a batch is now that of all devices together: enlarge it where each process had its own",
        "What torch.distributed spreads over processes is one program over a mesh of devices. The batch of a loader "
        "is split over them, parameters are on each, and what jit computes is of the whole batch: the world size is 1, "
        "reductions between processes disappear, samplers give every row, and the rank is that of the host.",
        Severity.NOTE,
    ),
    Code(
        "MIG504",
        "an initialising function that is not called is left out",
        "nothing to do; where another project calls it, give its initialisers to the layers there",
        "The function only fills the weights of whatever model it is given (`for m in model.modules(): ...`). In Flax "
        "the constructors of the layers take the initialisers, and no model of this project is given to it.",
        Severity.NOTE,
    ),
    Code(
        "MIG505",
        "raises an error in torch as well",
        "mend the line, or leave it as it is: it did not work before",
        "The statement cannot run: it calls a module of torch (`torch.utils.checkpoint(block)` in place of "
        "`torch.utils.checkpoint.checkpoint(block, x)`), or it reads `torch` in a file that does not import it. The "
        "output raises the same error at its place.",
        Severity.NOTE,
    ),
    Code(
        "MIG506",
        "a packed sequence keeps the length of its padded array",
        "nothing to do where batches are padded to their longest sequence; else give total_length",
        "`pad_packed_sequence` without `total_length` ends at the longest sequence of the batch, a shape that depends "
        "on the data. Under jit shapes are fixed: the output is as long as the array that was packed, with padding "
        "behind the end of each sequence.",
        Severity.NOTE,
    ),
    Code(
        "MIG507",
        "a constructor changes what it was given",
        "read changed settings from the module, not from the object that was passed",
        "The constructor sets attributes of an argument, or calls a method for what that does to it. torch runs a "
        "constructor once; a Flax module runs its setup whenever it is used. It changes a copy each time, and the "
        "object that was passed stays as it was.",
        Severity.NOTE,
    ),
    Code(
        "MIG508",
        "not converted, and not reached as the program makes its modules and calls its functions",
        "write the line by hand before a module is made, or a function called, with these arguments",
        "A line of a constructor could not be converted, in a branch that none of the modules takes which the program "
        "makes: the arguments that decide it are written out where they are made. Or a line of a function, in a branch "
        "for an argument that is None in every call, or never is. With others the output raises an error there.",
        Severity.NOTE,
    ),
    Code(
        "MIG509",
        "copies of a layer start from weights of their own",
        "give them equal weights where that matters: weights ported from a checkpoint are not affected",
        "`copy.deepcopy(layer)` copies the initial weights too, so that all copies start equal, and training alone "
        "tells them apart. Flax draws the weights of each module by itself, from the same distribution.",
        Severity.NOTE,
    ),
    Code(
        "MIG510",
        "an argument of a module has another name",
        "use the new name where code that was not rewritten makes the module",
        "Every Flax module has a `name`, a `parent`, a `path` and some more, which torch's modules have not. An "
        "argument of that name gets an underscore, in the class and in its calls: `Net(name_=...)`.",
        Severity.NOTE,
    ),
    Code(
        "MIG511",
        "a definition that the program does not use is not converted",
        "name its file along with the script, or a script that uses it, to see what is left to do",
        "A file that the script imports defines a function, a class or a method that the script does not name, nor "
        "anything that it uses, and that could not be converted: nothing tells what it would be given. It raises "
        "NotImplementedError in the output. Where a file has a thousand lines or more of such definitions that have to "
        "do with torch, they are not tried, and there is one note for all of them.",
        Severity.NOTE,
    ),
    Code(
        "MIG512",
        "an assertion on the values of a tensor is left out",
        "assert it of what the jitted function returns where it should go on being checked",
        "jit traces a function before its tensors have values, so an `assert` on them cannot be decided there. As with "
        "`python -O`, the program does the same as long as the assertion holds.",
        Severity.NOTE,
    ),
    Code(
        "MIG513",
        "what fills a weight that is computed has no effect, and is left out",
        "nothing to do; to start from such values, fill the layer before it is given to `weight_norm`",
        "`weight_norm(layer)` and `spectral_norm(layer)` compute the weight of the layer anew whenever it is called, "
        "of `weight_v` and `weight_g` or `weight_orig`. torch forgets what the script fills `layer.weight` with.",
        Severity.NOTE,
    ),
    Code(
        "MIG514",
        "a step is compiled for each value of a number",
        "give the loss what it asks of the number in its place: `step > 100`",
        "Python decides by the number while jit traces a function of the loss (`if step > 100:`, `max(0.1, 1 - step / "
        "100)`), so it is a static argument, and jit compiles the step once for each of its values. One that differs "
        "at each turn of the training loop has it compiled at each turn, which takes longer than most steps.",
        Severity.NOTE,
    ),
    Code(
        "MIG515",
        "checkpoints are not changed as they are loaded or saved",
        "load checkpoints of the present version of the model; save older ones anew in torch first",
        "A class has its own `_load_from_state_dict`, which torch calls as a state dict is loaded, mostly to give the "
        "weights of an older version their present names. Weights are loaded here under those names: of a checkpoint "
        "in another form, the ones that are missing are told.",
        Severity.NOTE,
    ),
    Code(
        "MIG516",
        "a method that changes a module after it was made is not converted, and nothing calls it",
        "make a module with other settings in its place: `model.clone(num_classes=10)`, and give it the weights",
        "The method sets attributes of its object, as `reset_classifier` of a published model does, or freezes "
        "weights. A Flax module is fixed once it is made. No code of the project names the method; in the output it "
        "raises NotImplementedError.",
        Severity.NOTE,
    ),
    Code(
        "MIG517",
        "what transformers adds to its models is left out",
        "port a checkpoint, or fill the weights; ask for no cache and no recorded states",
        "A class inherits from `PreTrainedModel`. Its forward pass is converted with what that takes of the library: "
        "masks, activations, losses, and attention by the file's own function, whichever `_attn_implementation` says. "
        "Results are dicts. Left out are loading and saving, generation and its cache of keys and values, recorded "
        "states and attentions, and the library's initial weights: layers start as torch's do. A head takes the weight "
        "of the embedding where `tie_word_embeddings` says so; other ties, and rotary embeddings of another type than "
        "the default, raise an error as the model is made.",
        Severity.NOTE,
    ),
    Code(
        "MIG518",
        "what only tells of torch's own workings is left out",
        "print what matters yourself; drop an argument that recent versions of torch refuse",
        "`scheduler(verbose=True)`, which versions of torch before 2.7 print the changes of a learning rate for, "
        "TensorBoard's `add_graph(model, x)`, which draws how torch computes a model, or what an initialising function "
        "prints of layers without the weight that it asks for. The training is the same without.",
        Severity.NOTE,
    ),
    Code(
        "MIG519",
        "what a module keeps from one call to the next is an argument and a result of its forward pass",
        "keep it where you call the model: `scores, hidden = model(x, hidden)`",
        "The forward pass sets an attribute of its object and reads it in the next call, as recurrent models do with "
        "their hidden state. A Flax module has nothing that changes: in the output whoever calls the model has the "
        "state in a variable, which starts as the constructor, or the script, has set it.",
        Severity.NOTE,
    ),
    Code(
        "MIG520",
        "a state dict is shown without its counters of batches",
        "nothing to do: no number depends on them",
        "torch's batch norms count the batches that they have seen, `num_batches_tracked`, and their state dicts have "
        "these counters. Flax has no use of them, so that they are missing where the script prints the names of a "
        "state dict, or how many there are.",
        Severity.NOTE,
    ),
    Code(
        "MIG900",
        "internal error",
        "please report it with the file",
        "The rewriter met a state that it was not written for. Nothing was written for this input.",
        Severity.FATAL,
    ),
    Code(
        "MIG901",
        "what is known of the file does not settle",
        "please report it with the file, and hold the output against the original line by line",
        "A project is lowered again and again until nothing new is learned of it. Here that did not end, so the output "
        "may lack what the last round learned.",
    ),
)
