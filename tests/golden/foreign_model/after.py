"""A model of another package that is trained here: said once, where it is made."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import torchvision
import torchvision.models as models


def train(loader, model, criterion, optimizer, device):
    # model.train()
    # for images, target in loader:
    #     output = model(images.to(device))
    #     loss = criterion(output, target.to(device))
    #     optimizer.zero_grad()
    #     loss.backward()
    #     nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    #     optimizer.step()
    #     print(loss.item(), accuracy(output, target))
    raise NotImplementedError("MIG202: works on a model of another package")


def accuracy(output, target):
    return (output.argmax(1) == target).float().mean().item()


def torch_init(fan_in, **initializers):
    """torch's initial weights and biases for dense and convolution layers: U(-b, b) with b = 1 / sqrt(fan_in)."""

    def uniform(key, shape, dtype=jnp.float32):
        bound = fan_in**-0.5 if fan_in else 0.0
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return {"kernel_init": uniform, "bias_init": uniform, **initializers}


class Head(nn.Module):
    def setup(self):
        self.fc = nn.Dense(2, **torch_init(fan_in=8))

    def __call__(self, x):
        return self.fc(x)


def main(arch="resnet18"):
    # model = models.__dict__[arch](num_classes=10)
    raise NotImplementedError(
        "MIG202: `models.__dict__[arch](num_classes=10)` makes a model of another package, which is trained here"
    )
    # model = nn.DataParallel(model).to(device)
    # criterion = nn.CrossEntropyLoss().to(device)
    # optimizer = torch.optim.SGD(model.parameters(), 0.1)
    # scheduler = StepLR(optimizer, step_size=30, gamma=0.1)
    # loader = torch.utils.data.DataLoader(torchvision.datasets.FakeData(10))
    # for epoch in range(3):
    #     train(loader, model, criterion, optimizer, device)
    #     scheduler.step()
    #     torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
    raise NotImplementedError("MIG202: works on a model of another package")


main()
