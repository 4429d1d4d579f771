"""What is known not to be converted yet, and why: the frequent torch names that no registry and no pass serves.

A name leaves this list when it is served; a test holds that each frequent name is in exactly one place.
"""

NOT_YET: dict[str, str] = {
    "Module.modules": "a Flax module does not list its parts; most uses initialise weights, which apply() does too",
    "Module.children": "a Flax module does not list its parts",
    "Module.named_modules": "a Flax module does not list its parts",
    "Module.add_module": "a submodule whose name is made at run time",
    "torch.nn.Buffer": "register_buffer is read; this newer form is not",
    "torch.nn.parallel.DistributedDataParallel": "several processes: JAX shards arrays over devices instead",
    "torch.nn.DataParallel": "JAX shards arrays over devices instead",
    "torch.distributed.init_process_group": "several processes: JAX shards arrays over devices instead",
    "torch.distributed.destroy_process_group": "several processes: JAX shards arrays over devices instead",
    "torch.distributed.get_rank": "several processes: JAX shards arrays over devices instead",
    "torch.distributed.get_world_size": "several processes: JAX shards arrays over devices instead",
    "torch.distributed.barrier": "several processes: JAX shards arrays over devices instead",
    "torch.distributed.all_reduce": "several processes: JAX shards arrays over devices instead",
    "torch.cuda.max_memory_allocated": "JAX counts memory for each device, under other names",
    "torch.compile": "the training step is jitted anyway; the call itself must be taken out",
    "torch.Generator": "a generator object with state; JAX has keys",
    "torch.autocast": "mixed precision is a matter of dtypes in Flax, not of a context",
    "torch.cuda.amp.autocast": "mixed precision is a matter of dtypes in Flax, not of a context",
    "GradScaler.update": "loss scaling has no counterpart in optax yet; bfloat16 does not need it",
    "torch.nn.Sequential (subclass)": "inherits the forward method and the names of its parts",
    "accelerator.backward": "belongs to another library",
}
