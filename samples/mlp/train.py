"""A multilayer perceptron on scikit-learn's 8x8 handwritten digits."""

import torch
import torch.nn as nn
from sklearn.datasets import load_digits

SEED = 0
NUM_TRAIN = 1400
BATCH_SIZE = 64
NUM_EPOCHS = 12
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 1e-2


class MLP(nn.Module):
    def __init__(self, in_features, hidden_sizes, num_classes, dropout=0.1):
        super().__init__()
        layers = []
        prev = in_features
        for size in hidden_sizes:
            layers.append(nn.Linear(prev, size))
            layers.append(nn.ReLU())
            layers.append(nn.Dropout(dropout))
            prev = size
        layers.append(nn.Linear(prev, num_classes))
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x)


def main():
    torch.manual_seed(SEED)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    digits = load_digits()
    X = torch.tensor(digits.data / 16.0, dtype=torch.float32).to(device)
    y = torch.tensor(digits.target, dtype=torch.long).to(device)
    X_train, y_train = X[:NUM_TRAIN], y[:NUM_TRAIN]
    X_test, y_test = X[NUM_TRAIN:], y[NUM_TRAIN:]

    model = MLP(X.shape[1], [128, 64], 10).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)

    for epoch in range(NUM_EPOCHS):
        model.train()
        total_loss = 0.0
        perm = torch.randperm(NUM_TRAIN)
        for i in range(0, NUM_TRAIN, BATCH_SIZE):
            idx = perm[i : i + BATCH_SIZE]
            xb, yb = X_train[idx], y_train[idx]

            optimizer.zero_grad()
            logits = model(xb)
            loss = criterion(logits, yb)
            loss.backward()
            optimizer.step()

            total_loss += loss.item() * len(idx)

        # accuracy on the held-out digits
        model.eval()
        with torch.no_grad():
            pred = model(X_test).argmax(dim=1)
            accuracy = (pred == y_test).float().mean().item()
        print(f"epoch {epoch + 1:2d}  loss {total_loss / NUM_TRAIN:.4f}  test accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
