import torch
import torch.nn as nn
import torch.optim as optim
from torch.optim import lr_scheduler


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width), nn.ReLU())
        self.fc = nn.Linear(width, 10)

    def forward(self, x):
        return self.fc(self.body(x))


torch.manual_seed(0)
data = [(torch.randn(6, 4), torch.randint(0, 2, (6,))) for _ in range(3)]


def train(model, criterion, optimizer, scheduler, num_epochs=2):
    for epoch in range(num_epochs):
        for phase in ["train", "val"]:
            if phase == "train":
                model.train()
            else:
                model.eval()
            running_loss = 0.0
            for inputs, labels in data:
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    outputs = model(inputs)
                    _, preds = torch.max(outputs, 1)
                    loss = criterion(outputs, labels)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
                running_loss += loss.item() * inputs.size(0)
            if phase == "train":
                scheduler.step()
            print(f"{phase} Loss: {running_loss:.4f}")
    return model


def show_classes(model):
    was_training = model.training
    model.eval()
    with torch.no_grad():
        for inputs, labels in data:
            print(model(inputs).argmax(1))
        model.train(mode=was_training)


model_whole = Net()
model_whole.fc = nn.Linear(8, 2)
criterion = nn.CrossEntropyLoss()
optimizer_whole = optim.SGD(model_whole.parameters(), lr=0.001, momentum=0.9)
scheduler = lr_scheduler.StepLR(optimizer_whole, step_size=7, gamma=0.1)
model_whole = train(model_whole, criterion, optimizer_whole, scheduler)
show_classes(model_whole)

model_head = Net()
for param in model_head.parameters():
    param.requires_grad = False
model_head.fc = nn.Linear(8, 2)
criterion = nn.CrossEntropyLoss()
optimizer_head = optim.SGD(model_head.fc.parameters(), lr=0.001, momentum=0.9)
scheduler = lr_scheduler.StepLR(optimizer_head, step_size=7, gamma=0.1)
model_head = train(model_head, criterion, optimizer_head, scheduler)
show_classes(model_head)
