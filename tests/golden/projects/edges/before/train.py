"""What projects also do: the same class name twice, a circle of imports, an import inside a function, an old file."""

import torch

import library.encoder as encoder
from library import legacy, shared
from library.decoder import Net as Decoder
from library.shared import frozen


def main():
    from library.deep.losses import weighted

    torch.manual_seed(0)
    first = encoder.Net(6)
    second = Decoder(6)
    inputs = torch.randn(8, 6)
    outputs = second(first(inputs))
    print(weighted(outputs, inputs).item(), shared.SCALE)
    print(legacy.version(), frozen(inputs))


main()
