import torch
from torch import nn


class Linear(nn.Module):
    def __init__(self, in_features: int, out_features: int, bias: bool, r: int, alpha: int = None):
        super().__init__()
        if alpha is None:
            alpha = r
        self.weight = nn.Parameter(torch.randn((out_features, in_features)))
        self.weight.requires_grad = False
        if bias:
            self.bias = nn.Parameter(torch.zeros(out_features))
            self.bias.requires_grad = False
        else:
            self.bias = None
        self.scaling = alpha / r
        self.lora_a = nn.Parameter(torch.empty((r, in_features)))
        self.lora_b = nn.Parameter(torch.empty((out_features, r)))
        with torch.no_grad():
            nn.init.kaiming_uniform_(self.lora_a, a=5 ** 0.5)
            nn.init.zeros_(self.lora_b)

    @torch.autocast("cuda", enabled=False)
    def forward(self, x: torch.Tensor):
        result = nn.functional.linear(x, self.weight, bias=self.bias)
        result += (x @ self.lora_a.T @ self.lora_b.T) * self.scaling
        return result


torch.manual_seed(0)
model = nn.Sequential(Linear(4, 8, True, 2), nn.ReLU(), Linear(8, 3, False, 2))
opt = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
x = torch.randn(32, 4)
y = torch.randn(32, 3)
for i in range(9):
    loss = ((model(x) - y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
