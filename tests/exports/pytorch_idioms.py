# SPDX-License-Identifier: LGPL-2.1-or-later
"""What people write around the layers: one small module for each idiom."""
import math

import torch
import torch.nn.functional as F
from pytorch_case import BUFFER, FOLDED, MADE, NORM, NUMBER, OTHER_TYPE, REPEATED, ZEROS, Case, flags, integers, uniform, when
from torch import nn


class Apply(nn.Module):
    """A function of (module, inputs): parameters and layers are given by name."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if name.startswith("buffer_"):
                self.register_buffer(name[7:], part)
            elif isinstance(part, torch.Tensor):
                setattr(self, name, nn.Parameter(part))
            else:
                setattr(self, name, part)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def layers(function, a=(6, 8), b=(8, 5), **parts):
    """A function between two linear layers, a and b; it gets (module, a (x)) and gives what b takes."""
    return Apply(lambda self, x: self.b(self.function_inside(self, self.a(x))), a=nn.Linear(*a), b=nn.Linear(*b),
                 function_inside=function, **parts)


ROWS, SEQUENCE, IMAGE = (4, 6), (3, 5, 6), (2, 3, 8, 8)


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x)


class ReZero(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
        self.alphas = nn.ParameterList(nn.Parameter(torch.zeros(1)) for _ in range(3))
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        for layer, alpha in zip(self.layers, self.alphas):
            x = x + alpha * torch.tanh(layer(x))
        return self.head(x)


class LayerScale(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma, self.block, self.head = nn.Parameter(1e-1 * torch.ones(6)), nn.Linear(6, 6), nn.Linear(6, 4)

    def forward(self, x):
        return self.head(x + self.gamma * F.gelu(self.block(x)))


class Clip(nn.Module):
    """Two towers and logit_scale."""

    def __init__(self):
        super().__init__()
        self.image, self.text = nn.Linear(6, 8), nn.Linear(5, 8)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.5)))

    def forward(self, image, text):
        image, text = F.normalize(self.image(image), dim=-1), F.normalize(self.text(text), dim=-1)
        return self.logit_scale.exp() * image @ text.t()


class ClassToken(nn.Module):
    def __init__(self):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, 6))
        self.pos_embed = nn.Parameter(torch.randn(1, 6, 6) * 0.02)
        self.block, self.head = nn.TransformerEncoderLayer(6, 2, 12, 0.0, batch_first=True), nn.Linear(6, 4)

    def forward(self, x):
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed
        return self.head(self.block(x)[:, 0])


class Patches(nn.Module):
    """A vision transformer whose table of positions is resized to the picture."""

    def __init__(self, mode="bicubic"):
        super().__init__()
        self.patch, self.pos_embed, self.mode = nn.Conv2d(3, 6, 2, 2), nn.Parameter(torch.randn(1, 9, 6) * 0.2), mode
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        x = self.patch(x)
        places = self.pos_embed.reshape(1, 3, 3, 6).permute(0, 3, 1, 2)
        places = F.interpolate(places, size=x.shape[-2:], mode=self.mode, align_corners=False)
        return self.head((x + places).flatten(2).transpose(1, 2))


class Swin(nn.Module):
    """Attention in one window of 2 x 2, with a table of relative positions."""

    def __init__(self):
        super().__init__()
        self.relative_position_bias_table = nn.Parameter(torch.randn(9, 2) * 0.2)
        places = torch.stack(torch.meshgrid(torch.arange(2), torch.arange(2), indexing="ij")).flatten(1)
        relative = (places[:, :, None] - places[:, None, :]).permute(1, 2, 0) + 1
        self.register_buffer("relative_position_index", relative[..., 0] * 3 + relative[..., 1])
        self.qkv, self.proj = nn.Linear(6, 18), nn.Linear(6, 6)

    def forward(self, x):
        q, k, v = self.qkv(x).reshape(-1, 4, 3, 2, 3).permute(2, 0, 3, 1, 4).unbind(0)
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)].view(4, 4, 2).permute(2, 0, 1)
        scores = (q * 3 ** -0.5) @ k.transpose(-2, -1) + bias.unsqueeze(0)
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, 4, 6))


class SwinShift(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.proj = nn.Conv2d(3, 6, 1), nn.Linear(6, 4)

    def forward(self, x):
        x = torch.roll(self.conv(x).permute(0, 2, 3, 1), (-2, -2), (1, 2))
        x = x.view(2, 2, 4, 2, 4, 6).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 6)
        x = (x @ x.transpose(1, 2)).softmax(-1) @ x
        return self.proj(torch.roll(x.view(2, 2, 2, 4, 4, 6).permute(0, 1, 3, 2, 4, 5).reshape(2, 8, 8, 6), (2, 2), (1, 2)))


class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(8, 8, bias=False) for _ in range(4))
        self.register_buffer("inv_freq", 1.0 / 100 ** (torch.arange(0, 4, 2).float() / 4), persistent=False)

    def turn(self, x, cos, sin):
        half = torch.cat((-x[..., 2:], x[..., :2]), -1)
        return x * cos + half * sin

    def forward(self, x):
        b, n, _ = x.shape
        angles = torch.outer(torch.arange(n, device=x.device).float(), self.inv_freq)
        angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos()[None, None], angles.sin()[None, None]
        q, k, v = (layer(x).view(b, n, 2, 4).transpose(1, 2) for layer in (self.q, self.k, self.v))
        mask = torch.full((n, n), float("-inf")).triu(1)
        scores = self.turn(q, cos, sin) @ self.turn(k, cos, sin).transpose(2, 3) / 2 + mask
        return self.o((scores.softmax(-1, dtype=torch.float32) @ v).transpose(1, 2).reshape(b, n, 8))


class Llama(nn.Module):
    """RMSNorm by hand, attention of the framework with a causal mask, SwiGLU, and a tied head."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm1, self.norm2 = nn.Embedding(11, 8), RMSNorm(8), RMSNorm(8)
        self.qkv, self.o = nn.Linear(8, 16, bias=False), nn.Linear(8, 8, bias=False)
        self.gate, self.up, self.down = nn.Linear(8, 12, bias=False), nn.Linear(8, 12, bias=False), nn.Linear(12, 8, bias=False)
        self.lm_head = nn.Linear(8, 11, bias=False)
        self.lm_head.weight = self.embed.weight

    def forward(self, ids):
        x = self.embed(ids)
        b, n, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).split([8, 4, 4], -1)
        q = q.view(b, n, 2, 4).transpose(1, 2)
        k, v = (z.view(b, n, 1, 4).transpose(1, 2).expand(b, 2, n, 4) for z in (k, v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, 8))
        h = self.norm2(x)
        return self.lm_head(x + self.down(F.silu(self.gate(h)) * self.up(h)))


class Gpt(nn.Module):
    """chunk, a causal mask in a buffer, learned positions."""

    def __init__(self):
        super().__init__()
        self.wte, self.wpe, self.ln = nn.Embedding(11, 8), nn.Embedding(16, 8), nn.LayerNorm(8)
        self.attn, self.proj, self.head = nn.Linear(8, 24), nn.Linear(8, 8), nn.Linear(8, 11, bias=False)
        self.register_buffer("bias", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, ids):
        b, n = ids.shape
        x = self.wte(ids) + self.wpe(torch.arange(n))
        q, k, v = (z.view(b, n, 2, 4).transpose(1, 2) for z in self.attn(self.ln(x)).chunk(3, -1))
        scores = (q @ k.transpose(2, 3) / 2).masked_fill(self.bias[:, :, :n, :n] == 0, float("-inf"))
        return self.head(x + self.proj((scores.softmax(-1) @ v).transpose(1, 2).contiguous().view(b, n, 8)))


class Alibi(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.o = nn.Linear(6, 18), nn.Linear(6, 6)
        self.register_buffer("slopes", torch.tensor([0.25, 0.0625]).view(1, 2, 1, 1))

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, 2, 3).permute(2, 0, 3, 1, 4)
        places = torch.arange(n)
        scores = q @ k.transpose(2, 3) - self.slopes * (places[None, :] - places[:, None]).abs()
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class T5Bias(nn.Module):
    """Relative positions in buckets, looked up in an embedding."""

    def __init__(self):
        super().__init__()
        self.table, self.qkv = nn.Embedding(8, 2), nn.Linear(6, 18)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, 2, 3).permute(2, 0, 3, 1, 4)
        relative = torch.arange(n)[None, :] - torch.arange(n)[:, None]
        far = torch.clamp(relative.abs(), max=3) + (relative > 0).long() * 4
        return ((q @ k.transpose(2, 3) + self.table(far).permute(2, 0, 1)).softmax(-1) @ v).transpose(1, 2).flatten(2)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(6, 3), nn.ModuleList(nn.Linear(6, 5) for _ in range(3))

    def forward(self, x):
        return torch.einsum("be,beo->bo", self.gate(x).softmax(-1), torch.stack([expert(x) for expert in self.experts], 1))


class TopExperts(nn.Module):
    """The two best experts, by a mask; the weights of all are one tensor."""

    def __init__(self):
        super().__init__()
        self.gate, self.w1, self.w2 = nn.Linear(6, 4), nn.Parameter(torch.randn(4, 6, 8) * 0.3), nn.Parameter(torch.randn(4, 8, 5) * 0.3)

    def forward(self, x):
        values, places = self.gate(x).topk(2, -1)
        weights = torch.zeros(x.shape[0], 4).scatter(1, places, values.softmax(-1))
        h = F.silu(torch.einsum("bi,eih->beh", x, self.w1))
        return torch.einsum("beo,be->bo", torch.einsum("beh,eho->beo", h, self.w2), weights)


class SqueezeExcite(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.reduce, self.expand = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1)

    def forward(self, x):
        x = self.conv(x)
        return x * torch.sigmoid(self.expand(F.relu(self.reduce(F.adaptive_avg_pool2d(x, 1)))))


def separable():
    return nn.Sequential(nn.Conv2d(3, 6, 1), nn.ReLU6(), nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.Hardswish(), nn.Conv2d(6, 4, 1))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.conv2, self.bn2 = nn.Conv2d(3, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, 1, 1, bias=False), nn.BatchNorm2d(4)
        self.shortcut, self.fc = nn.Sequential(nn.Conv2d(3, 4, 1, 2, bias=False), nn.BatchNorm2d(4)), nn.Linear(4, 3)

    def forward(self, x):
        h = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return self.fc(F.relu(h + self.shortcut(x)).mean((2, 3)))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.inner = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(8, 4, 2, 2), nn.Conv2d(8, 2, 3, padding=1)

    def forward(self, x):
        skip = F.relu(self.down(x))
        return self.out(torch.cat([skip, self.up(F.relu(self.inner(F.max_pool2d(skip, 2))))], 1))


class Scan(nn.Module):
    """A selective scan, unrolled, with A_log as Mamba has it."""

    def __init__(self):
        super().__init__()
        self.A_log = nn.Parameter(torch.log(torch.arange(1, 4).float().repeat(6, 1)))
        self.D, self.x_proj, self.dt = nn.Parameter(torch.ones(6)), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        delta, (b, c) = F.softplus(self.dt(x)), self.x_proj(x).split(3, -1)
        a = -torch.exp(self.A_log.float())
        state, outputs = x.new_zeros(x.shape[0], 6, 3), []
        for i in range(x.shape[1]):
            state = torch.exp(delta[:, i, :, None] * a) * state + delta[:, i, :, None] * b[:, i, None, :] * x[:, i, :, None]
            outputs.append((state * c[:, i, None, :]).sum(-1))
        return torch.stack(outputs, 1) + x * self.D


class S4(nn.Module):
    """A diagonal state space as a convolution by its kernel."""

    def __init__(self):
        super().__init__()
        self.log_dt, self.A_real = nn.Parameter(torch.tensor(-1.0)), nn.Parameter(torch.log(0.5 * torch.ones(6, 4)))
        self.C, self.D = nn.Parameter(torch.randn(6, 4)), nn.Parameter(torch.ones(6))

    def forward(self, x):
        n = x.shape[1]
        times = torch.arange(n) * self.log_dt.exp()
        kernel = torch.einsum("hs,hsn->hn", self.C, torch.exp(-self.A_real.exp()[..., None] * times))
        y = F.conv1d(F.pad(x.transpose(1, 2), (n - 1, 0)), kernel.flip(-1)[:, None], groups=6)
        return y.transpose(1, 2) + x * self.D


class Hyena(nn.Module):
    """A long convolution as a product with a Toeplitz matrix; the kernel is computed from positions."""

    def __init__(self):
        super().__init__()
        self.filter, self.inner, self.out = nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 1)), nn.Linear(6, 12), nn.Linear(6, 6)
        t = torch.linspace(0, 1, 5)[:, None]
        self.register_buffer("z", torch.cat([t, torch.sin(2 * math.pi * t), torch.cos(2 * math.pi * t)], -1))
        self.register_buffer("places", (torch.arange(5)[:, None] - torch.arange(5)[None, :]).clamp(min=0))
        self.register_buffer("mask", torch.tril(torch.ones(5, 5)))

    def forward(self, x):
        toeplitz = self.filter(self.z).squeeze(-1)[self.places] * self.mask
        a, b = self.inner(x).chunk(2, -1)
        return self.out(a * torch.matmul(toeplitz, b))


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.eps = nn.Linear(6, 8), nn.Linear(8, 3), nn.Parameter(torch.zeros(1))
        adjacency = torch.eye(5) + torch.diag(torch.ones(4), 1) + torch.diag(torch.ones(4), -1)
        degree = adjacency.sum(1).rsqrt()
        self.register_buffer("adjacency", degree[:, None] * adjacency * degree[None, :])

    def forward(self, x):
        h = F.relu(self.adjacency @ self.a(x))
        return self.b(self.adjacency @ h + (1 + self.eps) * h)


class GraphAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.att = nn.Linear(6, 4, bias=False), nn.Parameter(torch.randn(8) * 0.4)

    def forward(self, x, edges):
        h = self.w(x)
        scores = F.leaky_relu((h @ self.att[:4])[:, :, None] + (h @ self.att[4:])[:, None, :], 0.2)
        return scores.masked_fill(~edges, -1e9).softmax(-1) @ h


class Edges(nn.Module):
    """Message passing by index_add."""

    def __init__(self):
        super().__init__()
        self.message, self.update = nn.Linear(6, 6), nn.Linear(12, 3)

    def forward(self, x, source, destination):
        total = torch.zeros_like(x).index_add(0, destination, F.relu(self.message(x))[source])
        return self.update(torch.cat([x, total], -1))


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.mean, self.log_variance, self.decoder = nn.Linear(6, 8), nn.Linear(8, 2), nn.Linear(8, 2), nn.Linear(2, 6)

    def forward(self, x):
        h = F.relu(self.encoder(x))
        return self.decoder(self.mean(h) * torch.exp(0.5 * self.log_variance(h)))


class Dfl(nn.Module):
    """Distribution focal loss of YOLO: bins in a frozen convolution."""

    def __init__(self):
        super().__init__()
        self.head, self.conv = nn.Conv2d(3, 16, 1), nn.Conv2d(4, 1, 1, bias=False).requires_grad_(False)
        self.conv.weight.data = torch.arange(4, dtype=torch.float).view(1, 4, 1, 1)

    def forward(self, x):
        x = self.head(x).flatten(2)
        return self.conv(x.view(x.shape[0], 4, 4, -1).transpose(2, 1).softmax(1)).view(x.shape[0], 4, -1)


class Anchors(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Conv2d(3, 12, 1)
        self.register_buffer("anchors", torch.tensor([[1.5, 2.0], [3.0, 1.0], [2.0, 4.0]]).view(1, 3, 1, 1, 2))

    def forward(self, x):
        b, _, h, w = x.shape
        y = self.head(x).view(b, 3, 4, h, w).permute(0, 1, 3, 4, 2).sigmoid()
        grid = torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")[::-1], -1).float()
        return torch.cat([((y[..., :2] * 2 - 0.5 + grid) / 8), (y[..., 2:] * 2) ** 2 * self.anchors / 8], -1).flatten(1, 3)


class Stft(nn.Module):
    """A spectrogram by a convolution with a fixed kernel, a mel matrix, and a layer."""

    def __init__(self):
        super().__init__()
        angles = 2 * math.pi * torch.arange(5)[:, None] * torch.arange(8)[None, :] / 8
        self.register_buffer("kernel", (torch.cat([angles.cos(), -angles.sin()]) * torch.hann_window(8)).unsqueeze(1))
        self.register_buffer("mel", torch.rand(4, 5, generator=torch.Generator().manual_seed(1)))
        self.gain, self.layer = nn.Parameter(torch.ones(1, 1, 24)), nn.Linear(4, 3)

    def forward(self, x):
        real, imaginary = F.conv1d(x * self.gain, self.kernel, stride=4).chunk(2, 1)
        return self.layer((self.mel @ (real ** 2 + imaginary ** 2) + 1e-3).log().transpose(1, 2))


class Fourier(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", torch.randn(6, 5, generator=torch.Generator().manual_seed(2)))
        self.register_buffer("mean", torch.full((6,), 0.3))
        self.register_buffer("std", torch.full((6,), 1.7))
        self.layer = nn.Linear(10, 4)
        self.w = nn.Parameter(torch.ones(6))

    def forward(self, x):
        z = (self.w * (x - self.mean) / self.std) @ self.frequencies
        return self.layer(torch.cat([z.sin(), z.cos()], -1))


class Dft(nn.Module):
    """A filter in frequencies, by products with two fixed matrices."""

    def __init__(self):
        super().__init__()
        angles = 2 * math.pi * torch.arange(8)[:, None] * torch.arange(8)[None, :] / 8
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.a, self.filter = nn.Linear(6, 8), nn.Parameter(torch.ones(2, 8))

    def forward(self, x):
        x = self.a(x)
        real, imaginary = x @ self.cos * self.filter[0], x @ self.sin * self.filter[1]
        return (real @ self.cos + imaginary @ self.sin) / 8


class Kan(nn.Module):
    """Splines on a fixed grid with learned coefficients."""

    def __init__(self):
        super().__init__()
        self.register_buffer("grid", torch.linspace(-2, 2, 8).expand(6, -1).contiguous())
        self.base, self.coefficients = nn.Parameter(torch.randn(4, 6) * 0.3), nn.Parameter(torch.randn(4, 6, 4) * 0.2)

    def forward(self, x):
        x, grid = x.unsqueeze(-1), self.grid
        bases = ((x >= grid[:, :-1]) & (x < grid[:, 1:])).to(x.dtype)
        for k in range(1, 4):
            bases = ((x - grid[:, :-(k + 1)]) / (grid[:, k:-1] - grid[:, :-(k + 1)]) * bases[:, :, :-1]
                     + (grid[:, k + 1:] - x) / (grid[:, k + 1:] - grid[:, 1:-k]) * bases[:, :, 1:])
        return F.linear(F.silu(x.squeeze(-1)), self.base) + F.linear(bases.flatten(1), self.coefficients.flatten(1))


class Rbf(nn.Module):
    def __init__(self):
        super().__init__()
        self.centers, self.log_sigmas, self.out = nn.Parameter(torch.randn(7, 6)), nn.Parameter(torch.zeros(7)), nn.Linear(7, 3)

    def forward(self, x):
        distances = (x[:, None] - self.centers[None]).pow(2).sum(-1).sqrt() * self.log_sigmas.exp()
        return self.out(torch.exp(-distances))


class Capsules(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.inner = nn.Parameter(torch.randn(3, 4, 5, 2) * 0.3), nn.Linear(6, 8)

    @staticmethod
    def squash(x):
        square = (x ** 2).sum(-1, keepdim=True)
        return square / (1 + square) * x / torch.sqrt(square + 1e-8)

    def forward(self, x):
        u = self.squash(self.inner(x).view(-1, 4, 2))
        votes = torch.einsum("jiok,bik->bjio", self.w, u)
        logits = torch.zeros(x.shape[0], 3, 4)
        for i in range(2):
            v = self.squash((logits.softmax(1).unsqueeze(-1) * votes).sum(2))
            logits = logits + (votes * v.unsqueeze(2)).sum(-1)
        return v


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.bias = nn.Linear(6, 4), nn.Parameter(torch.zeros(6))

    def forward(self, x):
        return F.linear(torch.tanh(self.encoder(x)), self.encoder.weight.t(), self.bias)


class Detached(nn.Module):
    def __init__(self, guard=False):
        super().__init__()
        self.a, self.b, self.guard = nn.Linear(6, 6), nn.Linear(6, 4), guard

    def forward(self, x):
        if self.guard:
            with torch.no_grad():
                h = self.a(x)
        else:
            h = self.a(x).detach()
        return self.b(torch.tanh(h) + x)


class BatchStatistics(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.b, self.c = nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(4)), nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x):
        return F.batch_norm(self.c(x), None, None, self.w, self.b, training=True)


class Normalized(nn.Module):
    """A picture with bytes' statistics in buffers, then scale and shift that are learned."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))
        self.gain, self.shift, self.conv = nn.Parameter(torch.ones(1, 3, 1, 1)), nn.Parameter(torch.zeros(1, 3, 1, 1)), nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return self.conv((x - self.mean) / self.std * self.gain + self.shift)


class Blur(nn.Module):
    """BlurPool of antialiased networks: a fixed kernel of channels."""

    def __init__(self):
        super().__init__()
        kernel = torch.tensor([1.0, 2.0, 1.0])
        self.register_buffer("filt", (kernel[:, None] * kernel[None, :] / 16)[None, None].repeat(4, 1, 1, 1))
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x):
        return F.conv2d(F.pad(F.relu(self.conv(x)), (1, 1, 1, 1), mode="reflect"), self.filt, stride=2, groups=4)


class Sinusoidal(nn.Module):
    """Positions in a buffer, times in sines: what diffusion models and transformers have."""

    def __init__(self):
        super().__init__()
        self.register_buffer("pe", torch.randn(1, 10, 6, generator=torch.Generator().manual_seed(3)))
        self.time, self.out = nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 6)), nn.Linear(6, 3)

    def forward(self, x, t):
        angles = t[:, None].float() * torch.exp(-math.log(100) * torch.arange(2) / 2)[None]
        embedded = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        return self.out(x + self.pe[:, :x.shape[1]] + embedded[:, None])


class StandardConv(nn.Conv2d):
    """Weight standardization."""

    def forward(self, x):
        weight = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
        return F.conv2d(x, weight / (weight.std((1, 2, 3), keepdim=True) + 1e-5), self.bias, padding=1)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.tokens, self.channels = nn.LayerNorm(6), nn.Linear(5, 5), nn.Linear(6, 6)

    def forward(self, x):
        x = x + self.tokens(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(F.gelu(x))


class Pointer(nn.Module):
    """Places that are told by lengths: a mask made in the graph, and a mean over what counts."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x, lengths):
        mask = (torch.arange(x.shape[1])[None, :] < lengths[:, None]).to(x.dtype).unsqueeze(-1)
        return self.b((torch.tanh(self.a(x)) * mask).sum(1) / mask.sum(1).clamp(min=1))


class Lora(nn.Module):
    def __init__(self):
        super().__init__()
        self.base, self.lora_A, self.lora_B = nn.Linear(6, 5), nn.Parameter(torch.randn(2, 6) * 0.3), nn.Parameter(torch.zeros(5, 2))
        self.scaling = 2.0

    def forward(self, x):
        return self.base(x) + x @ self.lora_A.T @ self.lora_B.T * self.scaling


class Memory(nn.Module):
    """Queries that are parameters (DETR, Perceiver)."""

    def __init__(self):
        super().__init__()
        self.queries, self.attention, self.head = nn.Parameter(torch.randn(4, 6)), nn.MultiheadAttention(6, 2, batch_first=True), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.attention(self.queries.unsqueeze(0).repeat(x.shape[0], 1, 1), x, x)[0])


class LinearAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.o = nn.Linear(6, 18), nn.Linear(6, 6)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        summed = torch.einsum("bnd,bne->bde", k, v)
        return self.o(torch.einsum("bnd,bde->bne", q, summed) / torch.einsum("bnd,bd->bn", q, k.sum(1)).unsqueeze(-1))


IDIOMS = {
    "rezero": Case(ReZero, (ROWS,)),
    "layer_scale": Case(LayerScale, (ROWS,)),
    "logit_scale": Case(Clip, (ROWS, (4, 5)), differs=when(NUMBER, "dyn")),
    "class_token": Case(ClassToken, (SEQUENCE,), differs=when(REPEATED, "dyn")),
    "class_token_dynamic": Case(ClassToken, (SEQUENCE,), dynamic={(0, 0): "batch"}),
    "positions_bicubic": Case(Patches, (IMAGE,), differs=when(FOLDED, "dyn")),
    "positions_bilinear_dynamic": Case(lambda: Patches("bilinear"), (IMAGE,), dynamic={(0, 0): "batch"}, differs=when(FOLDED, "dyn")),
    "swin_bias": Case(Swin, ((3, 4, 6),), differs=when(FOLDED, "ts", "dyn")),
    "swin_shift": Case(SwinShift, (IMAGE,)),
    "rotary": Case(Rotary, ((2, 5, 8),)),
    "rotary_dynamic": Case(Rotary, ((2, 5, 8),), dynamic={(0, 0): "batch", (0, 1): "seq"}),
    "llama": Case(Llama, (integers(11, 2, 6),)),
    "llama_dynamic": Case(Llama, (integers(11, 2, 6),), dynamic={(0, 0): "batch", (0, 1): "seq"}),
    "gpt": Case(Gpt, (integers(11, 2, 6),)),
    "gpt_dynamic": Case(Gpt, (integers(11, 2, 6),), dynamic={(0, 0): "batch", (0, 1): "seq"}),
    "alibi": Case(Alibi, (SEQUENCE,), differs=when(BUFFER, "ts")),
    "t5_bias": Case(T5Bias, (SEQUENCE,), differs=when(FOLDED, "dyn")),
    "linear_attention": Case(LinearAttention, (SEQUENCE,)),
    "experts": Case(Experts, (ROWS,)),
    "top_experts": Case(TopExperts, (ROWS,)),
    "squeeze_excite": Case(SqueezeExcite, (IMAGE,)),
    "separable": Case(separable, (IMAGE,)),
    "residual_eval": Case(Residual, (IMAGE,), differs=when(NORM, "ts", "dyn")),
    "residual_train": Case(Residual, (IMAGE,), train=True, differs=when(NORM, "dyn")),
    "residual_train_dynamic": Case(Residual, (IMAGE,), train=True, dynamic={(0, 0): "batch"}, differs=when(NORM, "dyn")),
    "u_net": Case(UNet, (IMAGE,)),
    "mamba_scan": Case(Scan, (SEQUENCE,), differs=when(FOLDED, "dyn")),
    "s4_convolution": Case(S4, (SEQUENCE,), differs=when(FOLDED, "dyn")),
    "hyena": Case(Hyena, (SEQUENCE,), differs=when(FOLDED, "ts", "dyn")),
    "graph": Case(Graph, ((2, 5, 6),), differs=when(FOLDED, "ts", "dyn")),
    "graph_attention": Case(GraphAttention, ((2, 5, 6), flags(2, 5, 5))),
    "graph_edges": Case(Edges, ((5, 6), integers(5, 8), integers(5, 8))),
    "autoencoder": Case(Autoencoder, (ROWS,)),
    "dfl": Case(Dfl, (IMAGE,)),
    "anchors": Case(Anchors, (IMAGE,)),
    "stft": Case(Stft, ((2, 1, 24),),
                 differs=when(BUFFER, "ts")),
    "fourier": Case(Fourier, (ROWS,),
                    differs=when(BUFFER, "ts")),
    "dft": Case(Dft, (ROWS,),
                differs=when(MADE, "dyn")),
    "kan": Case(Kan, (uniform(-1, 1, 4, 6),),
                differs=when(MADE, "dyn")),
    "rbf": Case(Rbf, (ROWS,),
                differs=when(FOLDED, "ts", "dyn")),
    "capsules": Case(Capsules, (ROWS,)),
    "tied": Case(Tied, (ROWS,),
                 differs=when("the exporter stored the tied weight twice, once transposed: tie () makes one of them", "dyn")),
    "detach": Case(Detached, (ROWS,), differs=when("detach () is not written into a file: stop_gradient does it", "ts", "dyn")),
    "no_grad": Case(lambda: Detached(True), (ROWS,), differs="no_grad () is not written into a file: stop_gradient does it"),
    "batch_statistics": Case(BatchStatistics, (IMAGE,)),
    "normalized_input": Case(Normalized, (IMAGE,)),
    "blur": Case(Blur, (IMAGE,)),
    "sinusoidal": Case(Sinusoidal, (SEQUENCE, integers(50, 3))),
    "weight_standardization": Case(lambda: nn.Sequential(StandardConv(3, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Conv2d(4, 2, 1)), (IMAGE,),
                                   differs=when(FOLDED, "dyn")),
    "mixer": Case(Mixer, (SEQUENCE,)),
    "lengths": Case(Pointer, (SEQUENCE, integers(5, 3))),
    "lora": Case(Lora, (ROWS,)),
    "queries": Case(Memory, (SEQUENCE,), differs=when(FOLDED, "dyn")),
    "queries_dynamic": Case(Memory, (SEQUENCE,), dynamic={(0, 0): "batch"}),
    "gather_rows": Case(lambda: Apply(lambda self, x, i: self.a(x).gather(1, i), a=nn.Linear(6, 8)), (ROWS, integers(8, 4, 3))),
    "index_select": Case(lambda: Apply(lambda self, x, i: self.b(self.a(x).index_select(0, i)), a=nn.Linear(6, 8), b=nn.Linear(8, 2)),
                         (ROWS, integers(4, 5))),
    "advanced_index": Case(lambda: Apply(lambda self, x, i: self.a(x)[torch.arange(3), i], a=nn.Linear(6, 8)), (SEQUENCE, integers(5, 3))),
    "scatter_add": Case(lambda: Apply(lambda self, x, i: torch.zeros(4, 6).scatter_add(1, i, self.a(x)), a=nn.Linear(6, 8)),
                        (ROWS, integers(6, 4, 8))),
    "index_put": Case(lambda: Apply(lambda self, x, i: torch.zeros(8, 5).index_put((i,), self.b(torch.tanh(self.a(x))), accumulate=True),
                                    a=nn.Linear(6, 8), b=nn.Linear(8, 5)), (ROWS, integers(8, 4)),
                      differs=when("the older exporter writes index_put without accumulation", "ts")),
    "slice_assign": Case(lambda: layers(lambda self, h: torch.slice_scatter(h, h[:, :3] * 2, 1, 2, 5)), (ROWS,)),
    "masked_fill": Case(lambda: Apply(lambda self, x, m: self.a(x).masked_fill(m, 0.25), a=nn.Linear(6, 5)), (ROWS, flags(4, 5))),
    "where": Case(lambda: layers(lambda self, h: torch.where(h > 0, h, self.slope * h.exp()), slope=torch.full((8,), 0.2)), (ROWS,)),
    "where_parameter": Case(lambda: Apply(lambda self, x, m: torch.where(m.unsqueeze(-1), self.mask_token, self.a(x)), a=nn.Linear(6, 5),
                                          mask_token=torch.zeros(5)), (SEQUENCE, flags(3, 5))),
    "cumsum": Case(lambda: layers(lambda self, h: h.cumsum(-1)), (ROWS,)),
    "cumprod": Case(lambda: layers(lambda self, h: torch.cumprod(torch.sigmoid(h) + 0.5, -1)), (ROWS,)),
    "einsum": Case(lambda: Apply(lambda self, x: torch.einsum("bnd,hde->bhne", x, self.w).sum(1), w=torch.randn(2, 6, 4) * 0.4), (SEQUENCE,)),
    "chunk": Case(lambda: layers(lambda self, h: torch.cat(h.chunk(2, -1)[::-1], -1)), (ROWS,)),
    "split_uneven": Case(lambda: layers(lambda self, h: torch.cat([p * (i + 1) for i, p in enumerate(h.split([1, 5, 2], -1))], -1)), (ROWS,)),
    "split_size": Case(lambda: layers(lambda self, h: torch.cat(h.split(3, -1), -1).tanh()), (ROWS,)),
    "unbind_stack": Case(lambda: layers(lambda self, h: torch.stack([p * 0.5 for p in h.view(4, 2, 4).unbind(1)], 2).flatten(1)), (ROWS,)),
    "roll": Case(lambda: layers(lambda self, h: h.roll(3, -1) + h), (ROWS,)),
    "flip": Case(lambda: layers(lambda self, h: h.flip(-1) * h), (ROWS,)),
    "topk": Case(lambda: layers(lambda self, h: h.topk(4, -1).values, b=(4, 5)), (ROWS,)),
    "sort": Case(lambda: layers(lambda self, h: h.sort(-1, descending=True).values), (ROWS,)),
    "argsort_gather": Case(lambda: layers(lambda self, h: h.gather(1, h.argsort(-1))), (ROWS,)),
    "max_values": Case(lambda: layers(lambda self, h: h.view(4, 4, 2).max(-1).values, b=(4, 5)), (ROWS,)),
    "amax_amin": Case(lambda: layers(lambda self, h: torch.stack([h.amax(-1), h.amin(-1)], -1), b=(2, 5)), (ROWS,)),
    "maximum": Case(lambda: layers(lambda self, h: torch.maximum(h, self.floor) + torch.minimum(h, h.flip(-1)), floor=torch.zeros(8)), (ROWS,), differs=when(ZEROS, "ts")),
    "triangles": Case(lambda: Apply(lambda self, x: torch.tril(self.w) @ x + torch.triu(self.u, 1) @ x, w=torch.randn(5, 5), u=torch.randn(5, 5)),
                      (SEQUENCE,), differs=when(FOLDED, "dyn")),
    "one_hot": Case(lambda: Apply(lambda self, i: self.a(F.one_hot(i, 6).float()), a=nn.Linear(6, 4)), (integers(6, 3, 2),)),
    "log_sum_exp": Case(lambda: layers(lambda self, h: torch.logsumexp(h.view(4, 4, 2), -1), b=(4, 5)), (ROWS,)),
    "std_var": Case(lambda: layers(lambda self, h: (h - h.mean(-1, keepdim=True)) / (h.std(-1, keepdim=True) + h.var(-1, keepdim=True, unbiased=False))),
                    (ROWS,)),
    "norms": Case(lambda: layers(lambda self, h: F.normalize(h, p=2, dim=-1) * torch.linalg.vector_norm(h, ord=1, dim=-1, keepdim=True)), (ROWS,)),
    "prod": Case(lambda: layers(lambda self, h: h.view(4, 4, 2).prod(-1), b=(4, 5)), (ROWS,)),
    "clamp": Case(lambda: layers(lambda self, h: h.clamp(-0.3, 0.5) + h.clamp(min=0.1)), (ROWS,)),
    "powers": Case(lambda: layers(lambda self, h: h.abs().pow(self.p).add(0.1).sqrt() + h ** 3 + 2.0 ** h, p=torch.tensor(1.5)), (ROWS,)),
    "trigonometry": Case(lambda: layers(lambda self, h: torch.atan(h) + torch.sin(h) * torch.cosh(h) + torch.erf(h) + torch.expm1(h) + torch.log1p(h * h)),
                         (ROWS,)),
    "atan2": Case(lambda: layers(lambda self, h: torch.atan2(h, h.flip(-1))), (ROWS,)),
    "hypot_lerp": Case(lambda: layers(lambda self, h: torch.lerp(h, h.flip(-1), self.t) + torch.hypot(h, h.flip(-1)), t=torch.tensor(0.3)), (ROWS,)),
    "remainder_floor": Case(lambda: layers(lambda self, h: torch.remainder(h, 0.7) + torch.floor(h) + torch.frac(h)), (ROWS,)),
    "scalar_temperature": Case(lambda: layers(lambda self, h: (h / self.temperature).softmax(-1), temperature=torch.tensor(0.7)), (ROWS,)),
    "scalar_mix": Case(lambda: Apply(lambda self, x: self.gamma * sum(w * layer(x) for w, layer in zip(self.weights.softmax(0), (self.a, self.b))),
                                     a=nn.Linear(6, 4), b=nn.Linear(6, 4), weights=torch.zeros(2), gamma=torch.ones(1)), (ROWS,), differs=when(FOLDED, "ts", "dyn")),
    "bias_only": Case(lambda: Apply(lambda self, x: x + self.bias, bias=torch.zeros(6)), (ROWS,)),
    "parameter_only": Case(lambda: Apply(lambda self, x: x * 0 + self.table.sum(0), table=torch.randn(3, 6)), (ROWS,), differs=when(FOLDED, "dyn")),
    "matmul_parameter": Case(lambda: Apply(lambda self, x: x @ self.w + self.b, w=torch.randn(6, 4) * 0.3, b=torch.zeros(4)), (ROWS,)),
    "baddbmm": Case(lambda: Apply(lambda self, x: torch.baddbmm(self.b, x, self.w.expand(3, -1, -1), beta=0.5, alpha=2.0), w=torch.randn(1, 6, 4) * 0.3,
                                  b=torch.zeros(1, 5, 4)), (SEQUENCE,), differs=when(FOLDED, "ts", "dyn")),
    "addmm": Case(lambda: Apply(lambda self, x: torch.addmm(self.b, x, self.w, beta=0.7, alpha=1.3), w=torch.randn(6, 4) * 0.3, b=torch.ones(4)), (ROWS,)),
    "outer_product": Case(lambda: layers(lambda self, h: (h[:, :4, None] * h[:, None, 4:]).flatten(1), b=(16, 5)), (ROWS,)),
    "cdist": Case(lambda: Apply(lambda self, x: torch.cdist(self.a(x), self.codes), a=nn.Linear(6, 4), codes=torch.randn(5, 4)), (ROWS,)),
    "buffer_mask": Case(lambda: layers(lambda self, h: h * self.mask + self.offset, buffer_mask=torch.tensor([1.0, 0, 1, 1, 0, 1, 1, 1]),
                                       buffer_offset=torch.linspace(0, 1, 8)), (ROWS,), differs=when(BUFFER, "ts")),
    "buffer_matrix": Case(lambda: layers(lambda self, h: h @ self.fixed, buffer_fixed=torch.randn(8, 8, generator=torch.Generator().manual_seed(4))),
                          (ROWS,), differs=when(BUFFER, "ts")),
    "ones_zeros": Case(lambda: layers(lambda self, h: torch.cat([h, torch.ones(4, 1), torch.zeros_like(h[:, :1])], -1), b=(10, 5)), (ROWS,)),
    "repeat_interleave": Case(lambda: Apply(lambda self, x: self.b(self.a(x).repeat_interleave(2, 1)), a=nn.Linear(6, 8), b=nn.Linear(8, 2)), (SEQUENCE,)),
    "repeat_tile": Case(lambda: layers(lambda self, h: h.repeat(1, 2).tile((1, 1)), b=(16, 5)), (ROWS,)),
    "movedim": Case(lambda: Apply(lambda self, x: self.b(self.a(x).movedim(1, 0).swapaxes(0, 1).contiguous()), a=nn.Linear(6, 8), b=nn.Linear(8, 2)),
                    (SEQUENCE,)),
    "strided_slices": Case(lambda: layers(lambda self, h: torch.cat([h[:, ::2], h[:, 1::2] * 2], -1)), (ROWS,)),
    "unfold_windows": Case(lambda: layers(lambda self, h: h.unfold(1, 4, 2).mean(-1), b=(3, 5)), (ROWS,)),
    "as_real": Case(lambda: layers(lambda self, h: h.view(4, 4, 2).select(-1, 0) - h.view(4, 4, 2).select(-1, 1), b=(4, 5)), (ROWS,)),
    "diagonal": Case(lambda: Apply(lambda self, x: x @ torch.diag(self.d) + torch.diagonal(self.w, 0, 0, 1).sum(), d=torch.ones(6), w=torch.randn(4, 4)),
                     (ROWS,), differs=when(FOLDED, "dyn")),
    "kron_outer": Case(lambda: Apply(lambda self, x: x @ (self.u.unsqueeze(1) * self.v.unsqueeze(0)), u=torch.randn(6), v=torch.randn(4)), (ROWS,), differs=when(FOLDED, "ts", "dyn")),
    "cross_entropy_inside": Case(lambda: Apply(lambda self, x, i: F.cross_entropy(self.a(x), i, reduction="none").unsqueeze(-1), a=nn.Linear(6, 4)),
                                 (ROWS, integers(4, 4))),
    "bce_inside": Case(lambda: Apply(lambda self, x, t: F.binary_cross_entropy_with_logits(self.a(x), t, reduction="none"), a=nn.Linear(6, 4)),
                       (ROWS, uniform(0, 1, 4, 4))),
    "smooth_l1_inside": Case(lambda: Apply(lambda self, x, t: F.smooth_l1_loss(self.a(x), t, reduction="none", beta=0.5), a=nn.Linear(6, 4)),
                             (ROWS, (4, 4))),
    "huber_kl_inside": Case(lambda: Apply(lambda self, x, t: F.kl_div(self.a(x).log_softmax(-1), t.softmax(-1), reduction="none"), a=nn.Linear(6, 4)),
                            (ROWS, (4, 4))),
    "dropout_train_zero": Case(lambda: nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.0), nn.Linear(8, 5)), (ROWS,), train=True),
    "attention_function": Case(lambda: Apply(lambda self, x: self.o(F.scaled_dot_product_attention(*(z.unsqueeze(1) for z in self.qkv(x).chunk(3, -1)))
                                                                    .squeeze(1)), qkv=nn.Linear(6, 18), o=nn.Linear(6, 4)), (SEQUENCE,)),
    "half_llama": Case(Llama, (integers(11, 2, 6),), dtype=torch.float16, tolerance=1e-2, differs=when(OTHER_TYPE, "ts")),
    "brain_mixer": Case(Mixer, (SEQUENCE,), dtype=torch.bfloat16, tolerance=3e-2),
    "half_residual": Case(Residual, (IMAGE,), dtype=torch.float16, tolerance=1e-2),
}
