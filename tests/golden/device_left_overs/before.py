"""Devices chosen on both sides of a branch, empty branches, arrays of a checkpoint that are moved, imports of parts."""

import torch
import torch.nn as nn
import torch.nn.parallel
import torch.optim
import torch.utils.data
from torch.utils.data import DataLoader, TensorDataset

best = 0


def main(gpu, resume):
    global best
    # where to run
    if gpu == 1:
        device = torch.device("cuda")
    else:
        device = torch.device("cpu")
    print(device)
    if resume:
        if gpu is None:
            checkpoint = torch.load(resume)
        else:
            checkpoint = torch.load(resume, map_location="cuda:1")
        best = checkpoint["best"]
        if gpu is not None:
            best = best.to(gpu)
    model = nn.Linear(3, 2).to(device)
    if device.type == "cuda":
        if resume.startswith("alexnet"):
            model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(TensorDataset(torch.ones(8, 3), torch.ones(8, 2)), batch_size=4):
        optimizer.zero_grad()
        loss = ((model(x.to(device)) - y.to(device)) ** 2).mean()
        loss.backward()
        optimizer.step()
    torch.save({"best": best, "model": model.state_dict()}, "last.pt")


main(0, "")
