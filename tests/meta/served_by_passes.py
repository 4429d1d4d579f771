"""Torch names that a pass serves, not a registry: where a line that uses one stands in the script, and the line."""

BY_A_PASS: dict[str, tuple[str, str]] = {
    "torch.nn.Module (subclass)": ("INIT", "pass"),
    "Tensor.to": ("FORWARD", "x = x.to(torch.float32)"),
    "Module.parameters": ("SCRIPT", "print(sum(p.numel() for p in model.parameters()))"),
    "torch.nn.Sequential": ("INIT", "self.fc = nn.Sequential(nn.Linear(3, 2), nn.ReLU())"),
    "torch.no_grad": ("SCRIPT", "with torch.no_grad():\n    print(model(x))"),
    "Tensor.backward": ("SCRIPT", "pass"),
    "Optimizer.step": ("SCRIPT", "pass"),
    "Optimizer.zero_grad": ("SCRIPT", "pass"),
    "torch.nn.Parameter": ("INIT", "self.scale = nn.Parameter(torch.ones(2))"),
    "Tensor.item": ("SCRIPT", "print(x.sum().item())"),
    "torch.nn.ModuleList": ("INIT", "self.more = nn.ModuleList([nn.Linear(2, 2) for _ in range(2)])"),
    "Module.train": ("SCRIPT", "model.train()"),
    "torch.jit.is_scripting": ("FORWARD", "if not torch.jit.is_scripting():\n            x = x * 2"),
    "torch.jit.ignore": ("SCRIPT", "@torch.jit.ignore\ndef twice(x):\n    return 2 * x\n\n\nprint(twice(y))"),
    "Module.eval": ("SCRIPT", "model.eval()"),
    "Module.to": ("SCRIPT", 'model.to("cpu")'),
    "torch.cuda.is_available": ("SCRIPT", "print(torch.cuda.is_available())"),
    "torch.device": ("SCRIPT", 'device = torch.device("cpu")\nmodel.to(device)'),
    "torch.utils.data.DataLoader": (
        "SCRIPT",
        "loader = DataLoader(TensorDataset(torch.randn(8, 3)), batch_size=2)\n"
        "for (batch,) in loader:\n"
        "    print(model(batch))",
    ),
    "torch.manual_seed": ("SCRIPT", "torch.manual_seed(0)"),
    "Module.load_state_dict": ("SCRIPT", 'model.load_state_dict(torch.load("m.pt"))'),
    "Tensor.numpy": ("SCRIPT", "print(x.numpy())"),
    "Module.state_dict": ("SCRIPT", 'torch.save(model.state_dict(), "m.pt")'),
    "Module.register_buffer": ("INIT", 'self.register_buffer("mask", torch.tril(torch.ones(3, 3)))'),
    "torchvision.transforms.ToTensor": ("SCRIPT", "t = transforms.ToTensor()"),
    "Tensor.cpu": ("SCRIPT", "print(x.cpu())"),
    "torch.save": ("SCRIPT", 'torch.save(model.state_dict(), "m.pt")'),
    "torchvision.transforms.Compose": ("SCRIPT", "t = transforms.Compose([transforms.ToTensor()])"),
    "torchvision.transforms.Normalize": ("SCRIPT", "t = transforms.Normalize((0.5,), (0.5,))"),
    "Tensor.tolist": ("SCRIPT", "print(x.tolist())"),
    "torch.load": ("SCRIPT", 'model.load_state_dict(torch.load("m.pt"))'),
    "Tensor.type": ("FORWARD", "x = x.type(torch.float32)"),
    "Module.apply": (
        "INIT",
        "self.apply(self.start)\n"
        "\n"
        "    def start(self, m):\n"
        "        if isinstance(m, nn.Linear):\n"
        "            nn.init.zeros_(m.bias)",
    ),
    "torch.utils.data.Dataset (subclass)": (
        "SCRIPT",
        "class Data(Dataset):\n"
        "    def __len__(self):\n"
        "        return 3\n"
        "\n"
        "    def __getitem__(self, i):\n"
        "        return torch.zeros(3)\n"
        "\n"
        "\n"
        "data = Data()",
    ),
    "LRScheduler.step": ("SCRIPT", "pass"),
    "Tensor.cuda": ("SCRIPT", "x = x.cuda()"),
    "torchvision.transforms.Resize": ("SCRIPT", "t = transforms.Resize(32)"),
    "Module.forward (direct call)": ("SCRIPT", "print(model.forward(x))"),
    "torch.autograd.Variable": ("SCRIPT", "x = torch.autograd.Variable(x)"),
    "torch.nn.utils.clip_grad_norm_": ("LOOP", "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
    "torch.backends.mps.is_available": ("SCRIPT", "print(torch.backends.mps.is_available())"),
    "Module.zero_grad|Optimizer.zero_grad": ("SCRIPT", "model.zero_grad()"),
    "Module.named_parameters": ("SCRIPT", "for name, p in model.named_parameters():\n    print(name, p.numel())"),
    "Module.cuda": ("SCRIPT", "model.cuda()"),
    "torchvision.datasets.MNIST": ("SCRIPT", 'data = torchvision.datasets.MNIST("data")'),
    "Tensor.requires_grad_": ("SCRIPT", "z = torch.randn(3).requires_grad_()"),
    "torchvision.transforms.RandomHorizontalFlip": ("SCRIPT", "t = transforms.RandomHorizontalFlip()"),
    "Tensor.masked_fill_": ("FORWARD", "x.masked_fill_(x > 0, 0.0)"),
    "torch.cuda.synchronize": ("SCRIPT", "torch.cuda.synchronize()"),
    "torch.is_grad_enabled": ("SCRIPT", "print(torch.is_grad_enabled())"),
    "torchvision.utils.save_image": ("SCRIPT", 'torchvision.utils.save_image(x, "x.png")'),
    "torchvision.transforms.CenterCrop": ("SCRIPT", "t = transforms.CenterCrop(3)"),
    "Tensor.mul_": ("FORWARD", "x.mul_(2)"),
    "torch.utils.tensorboard.SummaryWriter": (
        "SCRIPT",
        "from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter()",
    ),
    "Optimizer.state_dict": ("SCRIPT", 'torch.save(optimizer.state_dict(), "o.pt")'),
    "Optimizer.load_state_dict": ("SCRIPT", 'optimizer.load_state_dict(torch.load("o.pt"))'),
    "torch.cuda.set_device": ("SCRIPT", "torch.cuda.set_device(0)"),
    "Module.requires_grad_": ("SCRIPT", "model.requires_grad_(False)"),
    "Module.float": ("SCRIPT", "model.float()"),
    "torchvision.transforms.RandomCrop": ("SCRIPT", "t = transforms.RandomCrop(3)"),
    "torch.cuda.empty_cache": ("SCRIPT", "torch.cuda.empty_cache()"),
    "torch.nn.functional.avg_pool2d": ("FORWARD", "x = F.avg_pool2d(x.reshape(1, 1, 4, 4), 2)"),
    "torch.accelerator.current_accelerator": ("SCRIPT", "device = torch.accelerator.current_accelerator()"),
    "Tensor.add_": ("FORWARD", "x.add_(2)"),
    "torch.cuda.device_count": ("SCRIPT", "print(torch.cuda.device_count())"),
    "torch.inference_mode": ("SCRIPT", "with torch.inference_mode():\n    print(model(x))"),
    "torch.nn.functional.max_pool2d": ("FORWARD", "x = F.max_pool2d(x.reshape(1, 1, 4, 4), 2)"),
    "torch.accelerator.is_available": ("SCRIPT", "print(torch.accelerator.is_available())"),
    "torch.FloatTensor": ("SCRIPT", "x = torch.FloatTensor([[1, 2, 3]])"),
    "torch.Tensor": ("SCRIPT", "print(torch.Tensor([1, 2]))"),
    "Module.modules": (
        "SCRIPT",
        "for m in model.modules():\n    if isinstance(m, nn.Linear):\n        nn.init.zeros_(m.bias)",
    ),
    "Module.named_modules": (
        "SCRIPT",
        "for name, m in model.named_modules():\n    if isinstance(m, nn.Linear):\n        nn.init.zeros_(m.bias)",
    ),
    "Module.children": (
        "SCRIPT",
        "for child in model.children():\n    for p in child.parameters():\n        p.requires_grad = False",
    ),
    "Module.add_module": ("INIT", 'self.add_module("more", nn.Linear(2, 2))'),
    "torch.nn.Buffer": ("INIT", "self.mask = nn.Buffer(torch.ones(2))"),
    "torch.nn.Sequential (subclass)": (
        "SCRIPT",
        "class Block(nn.Sequential):\n"
        "    def __init__(self):\n"
        "        super().__init__(nn.Linear(3, 2), nn.ReLU())\n"
        "\n"
        "\n"
        "print(Block()(x))",
    ),
    "torch.nn.DataParallel": ("SCRIPT", "model = nn.DataParallel(model)"),
    "torch.nn.parallel.DistributedDataParallel": ("SCRIPT", "model = nn.parallel.DistributedDataParallel(model)"),
    "torch.distributed.init_process_group": ("SCRIPT", 'torch.distributed.init_process_group("nccl")'),
    "torch.distributed.destroy_process_group": ("SCRIPT", "torch.distributed.destroy_process_group()"),
    "torch.distributed.get_rank": ("SCRIPT", "print(torch.distributed.get_rank())"),
    "torch.distributed.get_world_size": ("SCRIPT", "print(torch.distributed.get_world_size())"),
    "torch.distributed.barrier": ("SCRIPT", "torch.distributed.barrier()"),
    "torch.distributed.all_reduce": ("SCRIPT", "total = torch.ones(3)\ntorch.distributed.all_reduce(total)"),
    "torch.cuda.max_memory_allocated": ("SCRIPT", "print(torch.cuda.max_memory_allocated())"),
    "torch.compile": ("SCRIPT", "model = torch.compile(model)"),
    "torch.Generator": ("SCRIPT", "g = torch.Generator()\ng.manual_seed(3)\nprint(torch.randn(3, generator=g))"),
    "torch.autocast": ("SCRIPT", 'with torch.autocast("cpu", dtype=torch.bfloat16):\n    print(model(x))'),
    "torch.cuda.amp.autocast": ("SCRIPT", "with torch.cuda.amp.autocast():\n    print(model(x))"),
    "GradScaler.update": ("SCRIPT", "scaler = torch.amp.GradScaler()\nscaler.update()"),
    "accelerator.backward": (
        "SCRIPT",
        "from accelerate import Accelerator\n"
        "accelerator = Accelerator()\n"
        "optimizer.zero_grad()\n"
        "accelerator.backward(model(x).sum())\n"
        "optimizer.step()",
    ),
}
