"""A loss that is computed in train mode and in eval mode, a function that returns what it has trained, a configuration
in a dict, and a model that is made for saved weights."""
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.hidden = nn.Linear(config["inputs"], config["width"])
        self.drop = nn.Dropout(config["dropout"])
        self.out = nn.Linear(config["width"], 1)

    def forward(self, x):
        return self.out(self.drop(torch.tanh(self.hidden(x))))


def error(x, y, model, device):
    x, y = x.to(device), y.to(device)
    return nn.functional.mse_loss(model(x), y)


def validated(model, x, y, device):
    model.eval()
    with torch.no_grad():
        found = error(x, y, model, device).item()
    model.train()
    return found


def train(config, steps):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Net(config).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=config["rate"])
    x = torch.linspace(-1, 1, 24).reshape(8, 3)
    y = x.sum(1, keepdim=True)
    found = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = error(x, y, model, device)
        loss.backward()
        optimizer.step()
        found.append(validated(model, x, y, device))
    return found, model


if __name__ == "__main__":
    config = {"inputs": 3, "width": 8, "dropout": 0.1, "rate": 1e-2}
    found, model = train(config, 10)
    print(found)
    torch.save(model.state_dict(), "net.pt")
    model = Net(config)
    model.load_state_dict(torch.load("net.pt"))
    model.eval()
    print(model(torch.ones(1, 3)))
