"""Small models with the structure and the names of published ones whose library has no Flax class: rewritten, they show
that a family's map is that of the rewritten module. Read as text by the test.
"""

RESNET = """
import torch
from torch import nn


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inplanes, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(out + identity)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inplanes, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, planes * 4, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(planes * 4)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        return self.relu(self.bn3(self.conv3(out)) + identity)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inplanes = 8
        self.conv1 = STEM
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = self._make_layer(BLOCK, 4, 2)
        self.layer2 = self._make_layer(BLOCK, 6, 1, stride=2)
        self.layer3 = self._make_layer(BLOCK, 4, 1, stride=2)
        self.layer4 = self._make_layer(BLOCK, 8, 1, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8 * BLOCK.expansion, 5)

    def _make_layer(self, block, planes, blocks, stride=1):
        downsample = None
        if stride != 1 or self.inplanes != planes * block.expansion:
            downsample = nn.Sequential(DOWNSAMPLE)
        layers = [block(self.inplanes, planes, stride, downsample)]
        self.inplanes = planes * block.expansion
        for _ in range(1, blocks):
            layers.append(block(self.inplanes, planes))
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))
"""
_PROJECTION = (
    "nn.Conv2d(self.inplanes, planes * block.expansion, 1, {stride}, bias=False), "
    "nn.BatchNorm2d(planes * block.expansion)"
)
_FILLED = {
    "STEM": "nn.Conv2d(3, 8, 7, 2, 3, bias=False)",
    "DOWNSAMPLE": _PROJECTION.format(stride="stride"),
}
_DEEP = {  # timm's variants "d": a deep stem, and pooling before the projection
    "STEM": "nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True), "
    "nn.Conv2d(4, 8, 3, 1, 1, bias=False))",
    "DOWNSAMPLE": "nn.AvgPool2d(2, stride, ceil_mode=True, count_include_pad=False) if stride != 1 else nn.Identity(), "
    + _PROJECTION.format(stride="1"),
}

DIT = """
import math
import torch
import torch.nn.functional as F
from torch import nn


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class PatchEmbed(nn.Module):
    def __init__(self, patch_size, in_chans, embed_dim):
        super().__init__()
        self.proj = nn.Conv2d(in_chans, embed_dim, patch_size, patch_size)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(q, k, v)
        return self.proj(x.transpose(1, 2).reshape(B, N, C))


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.act = nn.GELU(approximate="tanh")
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class TimestepEmbedder(nn.Module):
    def __init__(self, hidden_size, size):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(size, hidden_size), nn.SiLU(), nn.Linear(hidden_size, hidden_size))
        self.size = size

    def forward(self, t):
        half = self.size // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float64) / half)
        args = t[:, None] * freqs[None]
        return self.mlp(torch.cat([torch.cos(args), torch.sin(args)], dim=-1))


class LabelEmbedder(nn.Module):
    def __init__(self, num_classes, hidden_size):
        super().__init__()
        self.embedding_table = nn.Embedding(num_classes + 1, hidden_size)

    def forward(self, labels):
        return self.embedding_table(labels)


class DiTBlock(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(hidden_size, elementwise_affine=False, eps=1e-6)
        self.attn = Attention(hidden_size, num_heads)
        self.norm2 = nn.LayerNorm(hidden_size, elementwise_affine=False, eps=1e-6)
        self.mlp = Mlp(hidden_size, hidden_size * 4)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(hidden_size, 6 * hidden_size))

    def forward(self, x, c):
        shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp = self.adaLN_modulation(c).chunk(6, dim=1)
        x = x + gate_msa.unsqueeze(1) * self.attn(modulate(self.norm1(x), shift_msa, scale_msa))
        return x + gate_mlp.unsqueeze(1) * self.mlp(modulate(self.norm2(x), shift_mlp, scale_mlp))


class FinalLayer(nn.Module):
    def __init__(self, hidden_size, outputs):
        super().__init__()
        self.norm_final = nn.LayerNorm(hidden_size, elementwise_affine=False, eps=1e-6)
        self.linear = nn.Linear(hidden_size, outputs)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(hidden_size, 2 * hidden_size))

    def forward(self, x, c):
        shift, scale = self.adaLN_modulation(c).chunk(2, dim=1)
        return self.linear(modulate(self.norm_final(x), shift, scale))


class DiT(nn.Module):
    def __init__(self):
        super().__init__()
        self.x_embedder = PatchEmbed(2, 4, 12)
        self.t_embedder = TimestepEmbedder(12, 8)
        self.y_embedder = LabelEmbedder(5, 12)
        self.pos_embed = nn.Parameter(torch.zeros(1, 16, 12), requires_grad=False)
        self.blocks = nn.ModuleList([DiTBlock(12, 2) for _ in range(2)])
        self.final_layer = FinalLayer(12, 2 * 2 * 8)

    def forward(self, x, t, y):
        x = self.x_embedder(x) + self.pos_embed
        c = self.t_embedder(t) + self.y_embedder(y)
        for block in self.blocks:
            x = block(x, c)
        return self.final_layer(x, c)
"""


CONVNEXT = """
import torch
from torch import nn


class LayerNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.layernorm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1 = nn.Linear(dim, 4 * dim)
        self.act = nn.GELU()
        self.pwconv2 = nn.Linear(4 * dim, dim)
        self.layer_scale_parameter = nn.Parameter(1e-6 * torch.ones(dim))

    def forward(self, x):
        h = self.layernorm(self.dwconv(x).permute(0, 2, 3, 1))
        h = self.layer_scale_parameter * self.pwconv2(self.act(self.pwconv1(h)))
        return x + h.permute(0, 3, 1, 2)


class First(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.layers = nn.ModuleList([Layer(dim)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Stage(nn.Module):
    def __init__(self, before, dim, depth):
        super().__init__()
        self.downsampling_layer = nn.ModuleList([LayerNorm(before, eps=1e-6), nn.Conv2d(before, dim, 2, 2)])
        self.layers = nn.ModuleList([Layer(dim) for _ in range(depth)])

    def forward(self, x):
        x = self.downsampling_layer[1](self.downsampling_layer[0](x))
        for layer in self.layers:
            x = layer(x)
        return x


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embeddings = nn.Conv2d(3, 4, 4, 4)
        self.layernorm = LayerNorm(4, eps=1e-6)

    def forward(self, x):
        return self.layernorm(self.patch_embeddings(x))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([First(4), Stage(4, 6, 2)])

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = Embeddings()
        self.encoder = Encoder()
        self.layernorm = nn.LayerNorm(6, eps=1e-12)

    def forward(self, x):
        return self.layernorm(self.encoder(self.embeddings(x)).mean([-2, -1]))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.convnext = Model()
        self.classifier = nn.Linear(6, 3)

    def forward(self, x):
        return self.classifier(self.convnext(x))
"""


def _resnet(block: str, filled: dict[str, str]) -> str:
    text = RESNET.replace("BLOCK", block)
    for name, code in filled.items():
        text = text.replace(name, code)
    return text


# family: (source, class, shapes of the inputs; a number is how many classes whole numbers are drawn from)
PUBLISHED: dict[str, tuple[str, str, tuple[tuple[int, ...] | int, ...]]] = {
    "torchvision_resnet": (_resnet("BasicBlock", _FILLED), "ResNet", ((2, 3, 33, 34),)),
    "timm_resnet": (_resnet("Bottleneck", _DEEP), "ResNet", ((2, 3, 33, 34),)),
    "convnext": (CONVNEXT, "Classifier", ((2, 3, 16, 24),)),
    "dit": (DIT, "DiT", ((2, 4, 8, 8), (2,), 6)),
}
