import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return self.drop(self.fc(x))


class AverageMeter:
    def __init__(self):
        self.sum, self.count = 0, 0

    def update(self, val, n=1):
        self.sum += val * n
        self.count += n

    @property
    def avg(self):
        return self.sum / self.count


def accuracy(output, target, topk=(1,)):
    maxk = max(topk)
    batch_size = target.size(0)
    _, pred = output.topk(maxk, 1, True, True)
    pred = pred.t()
    correct = pred.eq(target.view(1, -1).expand_as(pred))
    res = []
    for k in topk:
        correct_k = correct[:k].reshape(-1).float().sum(0)
        res.append(correct_k.mul_(100.0 / batch_size))
    return res


def train_epoch(model, loader, criterion, optimizer, epoch):
    model.train()
    losses = AverageMeter()
    running = 0.0
    for i, (inputs, targets) in enumerate(tqdm(loader, desc=f"epoch {epoch}")):
        outputs = model(inputs)
        loss = criterion(outputs, targets)
        losses.update(loss.item(), inputs.size(0))
        running += loss.item() * inputs.size(0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses.avg, running / len(loader.dataset)


@torch.no_grad()
def evaluate(model, loader, criterion):
    model.eval()
    total, correct, test_loss = 0, 0, 0.0
    confusion = np.zeros((3, 3), dtype=int)
    all_preds = []
    for inputs, targets in loader:
        outputs = model(inputs)
        test_loss += criterion(outputs, targets).item()
        _, predicted = torch.max(outputs.data, 1)
        total += targets.size(0)
        correct += (predicted == targets).sum().item()
        acc1, acc2 = accuracy(outputs, targets, topk=(1, 2))
        all_preds.append(predicted.cpu().numpy())
        for t, p in zip(targets.view(-1), predicted.view(-1)):
            confusion[t.long(), p.long()] += 1
    preds = np.concatenate(all_preds)
    print(f"loss {test_loss / len(loader):.4f} acc {100.0 * correct / total:.2f}% top2 {acc2.item():.1f}", preds.shape)
    return correct / total


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(96, 4), torch.randint(0, 3, (96,)))
    train_loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=0, pin_memory=True)
    test_loader = DataLoader(data, batch_size=32)
    model = Net()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    best = 0
    for epoch in range(3):
        print(train_epoch(model, train_loader, criterion, optimizer, epoch))
        acc = evaluate(model, test_loader, criterion)
        scheduler.step()
        if acc > best:
            best = acc


if __name__ == "__main__":
    main()
