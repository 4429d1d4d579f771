"""What scripts ask torch about the machine, and what they tell it that XLA decides for itself."""

from __future__ import annotations

# Functions that are called for their effect, which has no counterpart: XLA places arrays, plans memory and compiles.
NO_OPS = frozenset(
    {
        "torch.set_default_device",
        "torch.set_num_threads",
        "torch.set_num_interop_threads",
        "torch.set_float32_matmul_precision",
        "torch.use_deterministic_algorithms",
        "torch.autograd.set_detect_anomaly",
        "torch.accelerator.set_device_index",
        "torch.accelerator.synchronize",
        "torch.mps.empty_cache",
        "torch.mps.manual_seed",
        "torch.mps.synchronize",
        "torch.multiprocessing.set_start_method",
        "torch.multiprocessing.set_sharing_strategy",
        "torch.backends.cuda.enable_flash_sdp",
        "torch.backends.cuda.enable_math_sdp",
        "torch.backends.cuda.enable_mem_efficient_sdp",
        "torch.backends.cuda.enable_cudnn_sdp",
        "torch.add_safe_globals",
        "torch.fx.wrap",
        "torch.jit.set_fusion_strategy",
        "torchvision.utils._log_api_usage_once",
        *(
            f"torch.cuda.{name}"
            for name in (
                "set_device",
                "empty_cache",
                "ipc_collect",
                "synchronize",
                "init",
                "manual_seed",
                "manual_seed_all",
                "seed_all",
                "reset_peak_memory_stats",
                "reset_max_memory_allocated",
                "set_per_process_memory_fraction",
            )
        ),
    }
)

# Decorators that enter a function into a library's table of torch models, where its own original stays.
REGISTRIES = frozenset({"torchvision.models._api.register_model", "torchvision.models.register_model"})

# Settings that are assigned, by the module that holds them: `torch.backends.cudnn.benchmark = True`.
SETTINGS = ("torch.backends.", "torch._dynamo.config.", "torch._inductor.config.")
# Contexts that choose which kernel computes attention, for all of the same values.
KERNELS = ("torch.nn.attention.sdpa_kernel", "torch.backends.cuda.sdp_kernel")
CHOSEN_DEVICE = "torch.cuda.device"  # a context in which that one is the current device: JAX has no such thing

_MEMORY = "(jax.local_devices()[0].memory_stats() or {})"

# What makes float32 the type of new tensors, which it is: the function, and what it is given.
DEFAULT_TYPES = {
    "torch.set_default_dtype": ("torch.float32", "torch.float"),
    "torch.set_default_tensor_type": ("torch.FloatTensor", "torch.cuda.FloatTensor"),
}

# Whether one of torch's own compilers is at work, which none is.
COMPILERS = (
    "torch.jit.is_scripting",
    "torch.jit.is_tracing",
    "torch.compiler.is_compiling",
    "torch.onnx.is_in_onnx_export",
)

# Questions, with their answers in JAX.
QUERIES = {
    "torch.cuda.is_available": 'jax.default_backend() == "gpu"',
    "torch.cuda.is_bf16_supported": "True",
    "torch.cuda.device_count": "jax.local_device_count()",
    "torch.cuda.get_device_name": "jax.devices()[0].device_kind",
    "torch.cuda.memory_allocated": _MEMORY + '.get("bytes_in_use", 0)',
    "torch.cuda.max_memory_allocated": _MEMORY + '.get("peak_bytes_in_use", 0)',
    "torch.cuda.memory_reserved": _MEMORY + '.get("bytes_reserved", 0)',
    "torch.cuda.max_memory_reserved": _MEMORY + '.get("peak_bytes_reserved", 0)',
    "torch.cuda.memory_summary": f"str({_MEMORY})",
    "torch.backends.mps.is_available": 'jax.default_backend() == "METAL"',
    "torch.backends.mps.is_built": 'jax.default_backend() == "METAL"',
    "torch.backends.cudnn.is_available": 'jax.default_backend() == "gpu"',
    "torch.xpu.is_available": "False",
    "torch_geometric.is_xpu_available": "False",
    "torch_geometric.is_mps_available": 'jax.default_backend() == "METAL"',
    "torch.accelerator.is_available": 'jax.default_backend() != "cpu"',
    "torch.accelerator.device_count": "jax.local_device_count()",
    "torch.is_grad_enabled": "True",
    **dict.fromkeys(COMPILERS, "False"),
}

# What torch raises where a device has no memory left.
OUT_OF_MEMORY = ("torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError")

# Modules of torch that are easily taken for what they hold: calling one is a TypeError.
MODULES = (
    "torch.utils.checkpoint",
    "torch.nn",
    "torch.nn.functional",
    "torch.nn.init",
    "torch.optim",
    "torch.optim.lr_scheduler",
    "torch.utils.data",
    "torch.linalg",
    "torch.fft",
    "torch.special",
)

# What compilers and tracers of torch's own are told by decorators.
DECORATORS = (
    "torch.compile",
    "torch.fx.wrap",
    "torch.compiler.disable",
    *(f"torch.jit.{name}" for name in ("script", "script_method", "script_if_tracing", "ignore", "unused", "export")),
)

# Calls that give a device.
DEVICES = (
    "torch.device",
    "torch.accelerator.current_accelerator",
    "torch.accelerator.current_device_index",
    "torch.cuda.current_device",
    "torch_geometric.device",
)

# Calls that give back the model or function that they are given: jit and sharding do their work.
WRAPPERS = (
    "torch.compile",
    "torch.jit.script",
    "torch.nn.DataParallel",
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
)


def splits_batches(wrapper: str) -> bool:
    """Whether a wrapper spreads a batch over devices."""
    return wrapper.endswith("DataParallel")
