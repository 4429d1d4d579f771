"""Trains a small classifier; everything but the loop lives in other files."""

import argparse

import torch
import torch.nn as nn

import engine
from config import BATCH_SIZE, CLASSES, device
from data import Blobs
from nets import *
from tools.seeding import seed_everything
from torch.utils.data import DataLoader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()
    seed_everything(1)
    loader = DataLoader(Blobs(96, CLASSES), batch_size=BATCH_SIZE, shuffle=True)
    model = Classifier(CLASSES).to(device)
    model.apply(init_weights)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        loss = engine.train_one_epoch(model, loader, criterion, optimizer)
        accuracy = engine.evaluate(model, loader)
        print(f"epoch {epoch} loss {loss:.4f} accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
