import argparse
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.two = nn.Linear(8, 3)

    def forward(self, x):
        return self.two(torch.relu(self.norm(self.one(x))))


def setup(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12355"
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    torch.cuda.set_device(rank)


def train(rank, world_size, args):
    setup(rank, world_size)
    torch.manual_seed(0)
    inputs = torch.linspace(-1, 1, 24 * 4).reshape(24, 4)
    dataset = TensorDataset(inputs, torch.arange(24) % 3)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(Net()).to(rank)
    model = DDP(model, device_ids=[rank])
    sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank, shuffle=True)
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        model.train()
        for x, y in loader:
            x, y = x.to(rank), y.to(rank)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total, op=dist.ReduceOp.SUM)
        if rank == 0:
            print(epoch, total.item() / world_size)
        dist.barrier()
    model.eval()
    with torch.no_grad():
        correct = (model(inputs.to(rank)).argmax(dim=1) == torch.arange(24, device=rank) % 3).sum()
    if dist.get_rank() == 0:
        print(correct.item() / 24)
        if args.save:
            torch.save(model.module.state_dict(), args.save)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--save", default="")
    args = parser.parse_args()
    world_size = torch.cuda.device_count()
    mp.spawn(train, args=(world_size, args), nprocs=world_size, join=True)
