# SPDX-License-Identifier: LGPL-2.1-or-later
"""Small PyTorch modules for parameter_table.py: one of each kind of layer, and idioms that people write. Whole models stand in parameter_models.py.

MODULES: name → function that returns (module, tuple of inputs). What is uniform after initialisation (biases, scales of norms) stays so.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import prune

MODULES = {}


def module(function):
    MODULES[function.__name__] = function
    return function


def x2(*shape):
    return torch.randn(*shape)


class Of(nn.Module):
    """A module whose forward is a function of (self, inputs …), with parameters, buffers and modules by name."""

    def __init__(self, forward, buffers=None, transient=None, **parts):
        super().__init__()
        self.function = forward
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                part = nn.Parameter(part)
            setattr(self, name, part)
        for name, tensor in (buffers or {}).items():
            self.register_buffer(name, tensor)
        for name, tensor in (transient or {}).items():
            self.register_buffer(name, tensor, persistent=False)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def after(layer, channels=4, image=True):
    """A convolution, or a linear layer, and then this."""
    if image:
        return nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), layer, nn.Conv2d(channels, 2, 1)), (x2(2, 3, 8, 8),)
    return nn.Sequential(nn.Linear(5, channels), layer, nn.Linear(channels, 3)), (x2(2, 6, 5),)


# ---- layers ----

@module
def linear():
    return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)), (x2(2, 5),)


@module
def linear_3d():
    return nn.Sequential(nn.Linear(5, 4), nn.GELU(), nn.Linear(4, 3, bias=False)), (x2(2, 6, 5),)


@module
def bilinear():
    return Of(lambda s, a, b: s.f(a, b), f=nn.Bilinear(3, 4, 5)), (x2(2, 3), x2(2, 4))


@module
def conv1d():
    return nn.Sequential(nn.Conv1d(3, 4, 3), nn.ReLU(), nn.Conv1d(4, 2, 1, bias=False)), (x2(2, 3, 9),)


@module
def conv_groups():
    return nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 6, 1, groups=2)), (x2(2, 4, 8, 8),)


@module
def conv3d():
    return nn.Sequential(nn.Conv3d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 2)), (x2(2, 2, 4, 4, 4),)


@module
def conv_transpose():
    return nn.Sequential(nn.ConvTranspose2d(3, 4, 2, stride=2), nn.ReLU(), nn.Conv2d(4, 1, 3)), (x2(2, 3, 4, 4),)


@module
def conv_circular():
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), nn.Conv2d(4, 2, 1)), (x2(2, 3, 6, 6),)


@module
def embedding():
    return nn.Sequential(nn.Embedding(11, 6), nn.Linear(6, 3)), (torch.randint(0, 11, (2, 5)),)


@module
def embedding_padding():
    return nn.Sequential(nn.Embedding(11, 6, padding_idx=0), nn.Linear(6, 3)), (torch.randint(1, 11, (2, 5)),)


@module
def embedding_bag():
    return Of(lambda s, i: s.f(s.e(i)), e=nn.EmbeddingBag(11, 6, mode="mean"), f=nn.Linear(6, 3)), (torch.randint(0, 11, (2, 5)),)


@module
def batch_norm_2d():
    return after(nn.BatchNorm2d(4))


@module
def batch_norm_1d():
    return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)), (x2(6, 5),)


@module
def batch_norm_first():
    return nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 2, 1)), (x2(2, 3, 4, 4),)


@module
def batch_norm_plain():
    return after(nn.BatchNorm2d(4, affine=False))


@module
def instance_norm():
    return after(nn.InstanceNorm2d(4))


@module
def instance_norm_affine():
    return after(nn.InstanceNorm2d(4, affine=True))


@module
def group_norm():
    return after(nn.GroupNorm(2, 4))


@module
def group_norm_each():
    return after(nn.GroupNorm(4, 4))


@module
def group_norm_one():
    return after(nn.GroupNorm(1, 4))


@module
def group_norm_plain():
    return after(nn.GroupNorm(2, 4, affine=False))


@module
def group_norm_last():
    return nn.Sequential(nn.Conv2d(3, 4, 1), nn.GroupNorm(2, 4)), (x2(2, 3, 4, 4),)


@module
def layer_norm():
    return after(nn.LayerNorm(4), image=False)


@module
def layer_norm_plain():
    return after(nn.LayerNorm(4, elementwise_affine=False), image=False)


@module
def layer_norm_without_bias():
    return after(nn.LayerNorm(4, bias=False), image=False)


@module
def layer_norm_of_maps():
    return after(nn.LayerNorm([4, 8, 8]))


@module
def layer_norm_2d():
    return after(Of(lambda s, x: s.n(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), n=nn.LayerNorm(4)))


@module
def layer_norm_written():
    def forward(s, x):
        u = x.mean(1, keepdim=True)
        v = (x - u).pow(2).mean(1, keepdim=True)
        return s.weight[:, None, None] * ((x - u) / torch.sqrt(v + 1e-6)) + s.bias[:, None, None]
    return after(Of(forward, weight=torch.ones(4), bias=torch.zeros(4)))


@module
def rms_norm():
    return after(nn.RMSNorm(4), image=False)


@module
def rms_norm_written():
    return after(Of(lambda s, x: s.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)), weight=torch.ones(4)), image=False)


@module
def rms_norm_gemma():
    return after(Of(lambda s, x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1.0 + s.weight), weight=torch.zeros(4)), image=False)


@module
def rms_norm_plain():
    return after(nn.RMSNorm(4, elementwise_affine=False), image=False)


@module
def local_response_norm():
    return after(nn.LocalResponseNorm(3))


@module
def weight_norm():
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(5, 4)), nn.ReLU(), nn.Linear(4, 3)), (x2(2, 5),)


@module
def weight_norm_old():
    return nn.Sequential(nn.utils.weight_norm(nn.Conv1d(3, 4, 3)), nn.ReLU(), nn.Conv1d(4, 3, 1)), (x2(2, 3, 8),)


@module
def spectral_norm():
    return nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(5, 4)), nn.ReLU(), nn.Linear(4, 3)).eval(), (x2(2, 5),)


@module
def prelu():
    return after(nn.PReLU(4))


@module
def prelu_one():
    return after(nn.PReLU())


@module
def activations():
    return nn.Sequential(nn.Linear(5, 4), nn.SELU(), nn.Linear(4, 4), nn.Hardswish(), nn.Linear(4, 4), nn.Softplus(), nn.Linear(4, 4), nn.Mish(),
                         nn.Linear(4, 4), nn.ELU(), nn.Linear(4, 4), nn.LeakyReLU(), nn.Linear(4, 4), nn.Softshrink(), nn.Linear(4, 4), nn.GLU(),
                         nn.Linear(2, 4), nn.Hardsigmoid(), nn.Linear(4, 4), nn.CELU(), nn.Linear(4, 2), nn.LogSigmoid()), (x2(2, 5),)


@module
def lstm():
    return Of(lambda s, x: s.f(s.r(x)[0]), r=nn.LSTM(4, 5, batch_first=True), f=nn.Linear(5, 2)), (x2(2, 6, 4),)


@module
def lstm_two_layers():
    return Of(lambda s, x: s.f(s.r(x)[0]), r=nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True), f=nn.Linear(10, 2)), (x2(2, 6, 4),)


@module
def lstm_without_bias():
    return Of(lambda s, x: s.f(s.r(x)[0]), r=nn.LSTM(4, 5, bias=False), f=nn.Linear(5, 2)), (x2(6, 2, 4),)


@module
def lstm_learned_state():
    return Of(lambda s, x: s.f(s.r(x, (s.h.expand(-1, x.shape[1], -1).contiguous(), s.c.expand(-1, x.shape[1], -1).contiguous()))[0]),
              r=nn.LSTM(4, 5), f=nn.Linear(5, 2), h=x2(1, 1, 5), c=x2(1, 1, 5)), (x2(6, 2, 4),)


@module
def gru():
    return Of(lambda s, x: s.f(s.r(x)[0]), r=nn.GRU(4, 5, batch_first=True, bidirectional=True), f=nn.Linear(10, 2)), (x2(2, 6, 4),)


@module
def rnn():
    return Of(lambda s, x: s.f(s.r(x)[1][0]), r=nn.RNN(4, 5), f=nn.Linear(5, 2)), (x2(6, 2, 4),)


@module
def lstm_cell():
    def forward(s, x):
        h = c = torch.zeros(x.shape[0], 5)
        for t in range(3):
            h, c = s.r(x[:, t], (h, c))
        return s.f(h)
    return Of(forward, r=nn.LSTMCell(4, 5), f=nn.Linear(5, 2)), (x2(2, 3, 4),)


@module
def gru_cell():
    return Of(lambda s, x: s.f(s.r(x[:, 1], s.r(x[:, 0]))), r=nn.GRUCell(4, 5), f=nn.Linear(5, 2)), (x2(2, 3, 4),)


@module
def multihead_attention():
    return Of(lambda s, x: s.f(s.a(x, x, x, need_weights=False)[0]), a=nn.MultiheadAttention(8, 2, batch_first=True), f=nn.Linear(8, 2)), (x2(2, 5, 8),)


@module
def multihead_attention_bias_kv():
    return Of(lambda s, x: s.f(s.a(x, x, x, need_weights=False)[0]), a=nn.MultiheadAttention(8, 2, add_bias_kv=True), f=nn.Linear(8, 2)), (x2(5, 2, 8),)


@module
def attention_causal():
    def forward(s, x):
        q, k, v = s.qkv(x).chunk(3, -1)
        m = torch.tril(torch.ones(x.shape[1], x.shape[1]))
        a = (q @ k.transpose(1, 2) / math.sqrt(8)).masked_fill(m == 0, float("-inf")).softmax(-1)
        return s.o(a @ v)
    return Of(forward, qkv=nn.Linear(8, 24), o=nn.Linear(8, 3)), (x2(2, 5, 8),)


@module
def attention_sdpa_mask():
    return Of(lambda s, x: s.o(F.scaled_dot_product_attention(s.q(x), s.k(x), x, attn_mask=s.mask)), q=nn.Linear(8, 8), k=nn.Linear(8, 8), o=nn.Linear(8, 3),
              buffers={"mask": torch.triu(torch.full((5, 5), float("-inf")), 1)}), (x2(2, 5, 8),)


@module
def transformer_encoder():
    return nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Linear(8, 2)), (x2(2, 5, 8),)


@module
def transformer_decoder():
    return Of(lambda s, x, m: s.f(s.d(x, m)), d=nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), f=nn.Linear(8, 2)), (x2(2, 5, 8), x2(2, 4, 8))


# ---- idioms ----

@module
def class_token():
    def forward(s, x):
        x = torch.cat([s.token.expand(x.shape[0], -1, -1), s.embed(x)], 1) + s.positions
        return s.head(x[:, 0])
    return Of(forward, token=torch.zeros(1, 1, 4), positions=x2(1, 6, 4) * 0.02, embed=nn.Linear(3, 4), head=nn.Linear(4, 2)), (x2(2, 5, 3),)


@module
def class_token_first():
    return Of(lambda s, x: s.l(torch.cat([s.c.expand(x.shape[0], -1, -1), x], 1))[:, 0], c=x2(1, 1, 4), l=nn.Linear(4, 4)), (x2(2, 5, 4),)


@module
def positions_resized():
    def forward(s, x):
        p = F.interpolate(s.pos_embed.reshape(1, 2, 2, 6).permute(0, 3, 1, 2), size=(3, 3), mode="bilinear", align_corners=False)
        return s.w(x) + p.permute(0, 2, 3, 1).reshape(1, 9, 6)
    return Of(forward, pos_embed=x2(1, 4, 6), w=nn.Linear(5, 6)), (x2(2, 9, 5),)


@module
def positions_learned():
    return Of(lambda s, i: s.f(s.w(i) + s.p(torch.arange(i.shape[1]))), w=nn.Embedding(9, 4), p=nn.Embedding(6, 4), f=nn.Linear(4, 2)), (torch.randint(0, 9, (2, 6)),)


@module
def positions_sinusoid():
    position, divide = torch.arange(6.0)[:, None], torch.exp(torch.arange(0, 4, 2) * (-math.log(10000.0) / 4))
    table = torch.zeros(6, 4)
    table[:, 0::2], table[:, 1::2] = torch.sin(position * divide), torch.cos(position * divide)
    return Of(lambda s, x: s.f(s.w(x) + s.pe[:, :x.shape[1]]), w=nn.Linear(3, 4), f=nn.Linear(4, 2), buffers={"pe": table[None]}), (x2(2, 6, 3),)


@module
def positions_rotary():
    def forward(s, x):
        angles = torch.arange(x.shape[1])[:, None] * s.inv_freq
        angles = torch.cat([angles, angles], -1)
        q = s.q(x)
        a, b = q.chunk(2, -1)
        return s.f(q * angles.cos() + torch.cat([-b, a], -1) * angles.sin())
    return Of(forward, q=nn.Linear(3, 4), f=nn.Linear(4, 2), transient={"inv_freq": 1 / 10000 ** (torch.arange(0, 4, 2) / 4)}), (x2(2, 6, 3),)


@module
def positions_relative():
    index = torch.arange(5)[None] - torch.arange(5)[:, None] + 4
    def forward(s, x):
        q, k = s.q(x), s.k(x)
        return (q @ k.transpose(1, 2) + s.table[s.relative_index]).softmax(-1) @ x
    return Of(forward, q=nn.Linear(8, 8), k=nn.Linear(8, 8), table=x2(9), buffers={"relative_index": index}), (x2(2, 5, 8),)


@module
def alibi():
    slopes = torch.tensor([0.5, 0.25])[:, None, None] * -torch.arange(5.0).flip(0)
    def forward(s, x):
        q, k = (l(x).view(2, 5, 2, 4).transpose(1, 2) for l in (s.q, s.k))
        return (q @ k.transpose(2, 3) + s.slopes).softmax(-1).mean(1) @ s.v(x)
    return Of(forward, q=nn.Linear(8, 8), k=nn.Linear(8, 8), v=nn.Linear(8, 3), transient={"slopes": slopes}), (x2(2, 5, 8),)


@module
def layer_scale():
    return after(Of(lambda s, x: x + s.gamma * torch.tanh(x), gamma=1e-2 * torch.ones(4)), image=False)


@module
def layer_scale_of_maps():
    return after(Of(lambda s, x: x + s.gamma.view(1, -1, 1, 1) * torch.tanh(x), gamma=1e-2 * torch.ones(4)))


@module
def rezero():
    return after(Of(lambda s, x: x + s.alpha * torch.tanh(s.l(x)), alpha=torch.zeros(1), l=nn.Linear(4, 4)), image=False)


@module
def rezero_scalar():
    return after(Of(lambda s, x: x + s.alpha * torch.tanh(s.l(x)), alpha=torch.zeros(()), l=nn.Linear(4, 4)), image=False)


@module
def logit_scale():
    def forward(s, x):
        return F.normalize(s.l(x), dim=-1) @ F.normalize(s.w, dim=-1).t() * s.ls.exp()
    return Of(forward, w=x2(5, 4), ls=torch.tensor(1.2), l=nn.Linear(3, 4)), (x2(2, 3),)


@module
def temperature():
    return Of(lambda s, x: (s.l(x) / s.temperature).softmax(-1), temperature=torch.tensor(1.5), l=nn.Linear(3, 4)), (x2(2, 3),)


@module
def temperature_clamped():
    return Of(lambda s, x: s.l(x) * torch.clamp(s.t, min=0.01, max=100), t=torch.ones(1) * 2, l=nn.Linear(3, 4)), (x2(2, 3),)


@module
def input_scale():
    return Of(lambda s, x: s.l(x * s.g + s.b), g=torch.full((3,), 0.7), b=torch.full((3,), 0.1), l=nn.Linear(3, 3)), (x2(2, 3),)


@module
def input_statistics():
    return Of(lambda s, x: s.l((x - s.mean) / s.std), l=nn.Conv2d(3, 3, 1), buffers={"mean": torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1),
                                                                                 "std": torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)}), (x2(2, 3, 4, 4),)


@module
def output_statistics():
    return Of(lambda s, x: s.l(x) * s.std + s.mean, l=nn.Linear(3, 2), buffers={"mean": torch.tensor([3.0, 4.0]), "std": torch.tensor([2.0, 0.5])}), (x2(2, 3),)


@module
def constant_scale():
    return Of(lambda s, x: s.l(x) * torch.tensor([2.0, 0.5]) + torch.tensor([3.0, 4.0]), l=nn.Linear(3, 2)), (x2(2, 3),)


@module
def squashed_scale():
    return Of(lambda s, x: s.l(x) * torch.sigmoid(s.gate) + torch.tanh(s.shift) * F.softplus(s.width), l=nn.Linear(3, 2), gate=torch.zeros(2), shift=torch.zeros(2),
              width=torch.zeros(2)), (x2(2, 3),)


@module
def mixture_of_layers():
    def forward(s, x):
        w = s.mix.softmax(0)
        a = s.a(x)
        return s.gamma * (w[0] * a + w[1] * s.b(a))
    return Of(forward, mix=torch.zeros(2), gamma=torch.ones(1), a=nn.Linear(3, 4), b=nn.Linear(4, 4)), (x2(2, 3),)


@module
def uncertainty_weights():
    return Of(lambda s, x: (s.a(x).pow(2).mean(-1) * torch.exp(-s.log_vars[0]) + s.log_vars[0]) + s.b(x).abs().mean(-1) * torch.exp(-s.log_vars[1]) + s.log_vars[1],
              a=nn.Linear(3, 4), b=nn.Linear(3, 4), log_vars=torch.zeros(2)), (x2(2, 3),)


@module
def ensemble_bmm():
    return Of(lambda s, x: torch.baddbmm(s.b, x.expand(3, -1, -1), s.w).relu().mean(0), w=x2(3, 4, 5), b=torch.zeros(3, 1, 5)), (x2(2, 4),)


@module
def einsum_heads():
    return Of(lambda s, x: torch.einsum("bte,hed->bhtd", x, s.w).sum(1) + s.b, w=x2(2, 4, 3), b=torch.zeros(3)), (x2(2, 5, 4),)


@module
def lora():
    return Of(lambda s, x: s.l(x) + (x @ s.lora_a.t()) @ s.lora_b.t() * 0.5, l=nn.Linear(6, 4), lora_a=x2(2, 6), lora_b=torch.zeros(4, 2)), (x2(2, 6),)


@module
def lora_merged():
    return Of(lambda s, x: F.linear(x, s.w + s.b @ s.a, s.bias), w=x2(4, 6), a=x2(2, 6), b=torch.zeros(4, 2), bias=torch.zeros(4)), (x2(2, 6),)


@module
def tied():
    e = nn.Embedding(9, 4)
    l = nn.Linear(4, 9, bias=False)
    l.weight = e.weight
    return nn.Sequential(e, nn.Tanh(), l), (torch.randint(0, 9, (2, 5)),)


@module
def pruned():
    m = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    prune.l1_unstructured(m[0], "weight", 0.5)
    return m, (x2(2, 8),)


@module
def masked_linear():
    return Of(lambda s, x: F.linear(x, s.weight * s.mask, s.bias), weight=x2(4, 4), bias=torch.zeros(4), buffers={"mask": torch.tril(torch.ones(4, 4))}), (x2(2, 4),)


@module
def dct():
    n = torch.arange(8.0)
    return Of(lambda s, x: s.l(x @ s.basis), l=nn.Linear(8, 3), buffers={"basis": torch.cos(math.pi / 8 * (n[:, None] + 0.5) * n)}), (x2(2, 8),)


@module
def stft_by_convolution():
    n = torch.arange(16.0)
    angles = 2 * math.pi * torch.arange(9.0)[:, None] * n / 16
    basis = torch.cat([torch.cos(angles), -torch.sin(angles)]) * torch.hann_window(16)
    def forward(s, x):
        y = F.conv1d(x, s.basis[:, None], stride=8)
        return s.c(torch.sqrt(y[:, :9] ** 2 + y[:, 9:] ** 2 + 1e-9))
    return Of(forward, c=nn.Conv1d(9, 4, 1), buffers={"basis": basis}), (x2(2, 1, 64),)


@module
def mel_filters():
    bank = torch.zeros(9, 4)
    for k in range(4):
        bank[2 * k:2 * k + 3, k][:len(bank[2 * k:2 * k + 3, k])] = torch.tensor([0.5, 1, 0.5])[:len(bank[2 * k:2 * k + 3, k])]
    return Of(lambda s, x: s.l(torch.log(x.abs() @ s.fb + 1e-6)), l=nn.Linear(4, 2), buffers={"fb": bank}), (x2(2, 5, 9),)


@module
def blur_pool():
    kernel = torch.tensor([1.0, 2, 1])[:, None] * torch.tensor([1.0, 2, 1]) / 16
    return after(Of(lambda s, x: F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), s.filt, stride=2, groups=4), buffers={"filt": kernel[None, None].repeat(4, 1, 1, 1)}))


@module
def sobel():
    gx = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    return Of(lambda s, x: s.c(F.conv2d(x, torch.stack([gx, gx.t()])[:, None])), c=nn.Conv2d(2, 2, 1)), (x2(2, 1, 8, 8),)


@module
def haar():
    h = torch.tensor([[1.0, 1], [1, 1]]), torch.tensor([[1.0, 1], [-1, -1]]), torch.tensor([[1.0, -1], [1, -1]]), torch.tensor([[1.0, -1], [-1, 1]])
    return Of(lambda s, x: s.c(F.conv2d(x, s.haar, stride=2)), c=nn.Conv2d(4, 2, 1), buffers={"haar": torch.stack(h)[:, None] / 2}), (x2(2, 1, 8, 8),)


@module
def dfl():
    conv = nn.Conv2d(16, 1, 1, bias=False)
    conv.weight.data[:] = torch.arange(16.0).view(1, 16, 1, 1)
    conv.requires_grad_(False)
    return Of(lambda s, x: s.conv(s.c(x).softmax(1)), c=nn.Conv2d(3, 16, 1), conv=conv), (x2(2, 3, 4, 4),)


@module
def fourier_features():
    return Of(lambda s, x: s.l(torch.cat([torch.sin(x @ s.B), torch.cos(x @ s.B)], -1)), l=nn.Linear(10, 2), buffers={"B": x2(3, 5) * 3}), (x2(2, 3),)


@module
def coordinates():
    def forward(s, x):
        g = torch.stack(torch.meshgrid(torch.linspace(-1, 1, 6), torch.linspace(-1, 1, 6), indexing="ij"))
        return s.c(torch.cat([x, g[None].expand(x.shape[0], -1, -1, -1)], 1))
    return Of(forward, c=nn.Conv2d(5, 3, 1)), (x2(2, 3, 6, 6),)


@module
def index_put():
    def forward(s, x):
        base = torch.zeros(2, 6)
        base[:, torch.tensor([1, 3, 4])] = s.l(x)
        return base
    return Of(forward, l=nn.Linear(4, 3)), (x2(2, 4),)


@module
def scatter_add():
    return Of(lambda s, x, i: torch.zeros(5, 3).index_add(0, i, s.l(x)), l=nn.Linear(4, 3)), (x2(6, 4), torch.tensor([0, 1, 1, 2, 4, 0]))


@module
def slice_assign():
    def forward(s, x):
        y = s.c(x)
        out = torch.ones(y.shape[0], 4, 6, 6)
        out[:, :, 1:5, 1:5] = y
        return s.d(out)
    return Of(forward, c=nn.Conv2d(3, 4, 1), d=nn.Conv2d(4, 2, 3)), (x2(2, 3, 4, 4),)


@module
def bce_written():
    target = torch.tensor([[1.0, 0, 1]])
    def forward(s, x):
        p = s.l(x).sigmoid()
        return -(target * torch.log(p + 1e-7) + (1 - target) * torch.log(1 - p + 1e-7))
    return Of(forward, l=nn.Linear(4, 3)), (x2(2, 4),)


@module
def class_weights():
    w = torch.tensor([1.0, 2.0, 0.5])
    return Of(lambda s, x: s.l(x).log_softmax(-1) * w, l=nn.Linear(4, 3)), (x2(2, 4),)


@module
def arg_max_table():
    return Of(lambda s, x: s.l(x) * s.values[x.argmax(-1)][:, None], l=nn.Linear(4, 3), buffers={"values": torch.tensor([1.0, 2.0, 3.0, 4.0])}), (x2(2, 4),)


@module
def mamba():
    def forward(s, x):
        u = F.silu(s.inp(x))
        d, b, c = s.xp(u).split([1, 3, 3], -1)
        d = F.softplus(s.dt(d))
        a = -torch.exp(s.A_log)
        h = torch.zeros(x.shape[0], 4, 3)
        out = []
        for t in range(3):
            h = torch.exp(d[:, t, :, None] * a) * h + d[:, t, :, None] * b[:, t, None] * u[:, t, :, None]
            out.append((h * c[:, t, None]).sum(-1))
        return s.o(torch.stack(out, 1) + u * s.D)
    return Of(forward, inp=nn.Linear(5, 4), xp=nn.Linear(4, 7), dt=nn.Linear(1, 4), A_log=torch.log(torch.arange(1.0, 4).repeat(4, 1)), D=torch.ones(4),
              o=nn.Linear(4, 2)), (x2(2, 3, 5),)


@module
def snake():
    return after(Of(lambda s, x: x + torch.sin(s.alpha.exp() * x) ** 2 / (s.alpha.exp() + 1e-9), alpha=torch.zeros(1, 4, 1, 1)))


@module
def grn():
    def forward(s, x):
        g = torch.norm(x, p=2, dim=(1, 2), keepdim=True)
        return s.gamma * (x * (g / (g.mean(-1, keepdim=True) + 1e-6))) + s.beta + x
    return after(Of(lambda s, x: forward(s, x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), gamma=torch.zeros(1, 1, 1, 4), beta=torch.zeros(1, 1, 1, 4)))


@module
def squeeze_excitation():
    return after(Of(lambda s, x: x * s.b(s.a(x.mean((2, 3), keepdim=True)).relu()).sigmoid(), a=nn.Conv2d(4, 2, 1), b=nn.Conv2d(2, 4, 1)))


@module
def mixed_attention_gate():
    return after(Of(lambda s, x: torch.where(x > 0, x * s.up, x * s.down), up=torch.ones(1), down=torch.full((1,), 0.1)), image=False)


@module
def mask_token():
    return Of(lambda s, x, m: s.l(torch.where(m[..., None], s.mask_token, s.e(x))), mask_token=torch.zeros(1, 1, 4), e=nn.Linear(3, 4), l=nn.Linear(4, 2)), (
        x2(2, 5, 3), torch.tensor([[True, False, False, True, False]] * 2))


@module
def queries():
    return Of(lambda s, x: s.f(s.a(s.q.weight[None].expand(x.shape[0], -1, -1), x, x, need_weights=False)[0]), q=nn.Embedding(3, 8),
              a=nn.MultiheadAttention(8, 2, batch_first=True), f=nn.Linear(8, 2)), (x2(2, 5, 8),)


@module
def vector_quantizer():
    def forward(s, x):
        z = s.e(x)
        d = (z ** 2).sum(-1, keepdim=True) - 2 * z @ s.codes.t() + (s.codes ** 2).sum(-1)
        return s.d(d.softmax(-1) @ s.codes)
    return Of(forward, e=nn.Linear(3, 4), codes=x2(6, 4), d=nn.Linear(4, 3)), (x2(2, 3),)


@module
def radial_basis():
    return Of(lambda s, x: s.l(torch.exp(-s.log_gamma.exp() * (x[:, :, None] - s.centers) ** 2).flatten(1)), centers=torch.linspace(-1, 1, 5), log_gamma=torch.zeros(5),
              l=nn.Linear(15, 2)), (x2(2, 3),)


@module
def radial_basis_fixed():
    return Of(lambda s, x: s.l(torch.exp(-4 * (x[:, :, None] - s.centers) ** 2).flatten(1)), buffers={"centers": torch.linspace(-1, 1, 5)}, l=nn.Linear(15, 2)), (x2(2, 3),)


@module
def normalizing_scalar_buffer():
    return Of(lambda s, x: s.l(x) * s.scale, buffers={"scale": torch.tensor(0.25)}, l=nn.Linear(3, 2)), (x2(2, 3),)


@module
def frozen_batch_norm():
    import torchvision
    n = torchvision.ops.FrozenBatchNorm2d(4)
    n.running_mean += torch.randn(4) * 0.1
    n.weight += torch.randn(4) * 0.1
    return after(n)


@module
def film():
    return Of(lambda s, x, c: s.o(s.l(x) * (1 + s.g(c)) + s.b(c)), l=nn.Linear(3, 4), g=nn.Linear(2, 4), b=nn.Linear(2, 4), o=nn.Linear(4, 2)), (x2(2, 3), x2(2, 2))


@module
def kalman_scalar_in_exponent():
    return Of(lambda s, x: s.l(x).abs() ** s.p, p=torch.tensor(2.5), l=nn.Linear(3, 2)), (x2(2, 3),)


@module
def gem_pool():
    return after(Of(lambda s, x: F.avg_pool2d(x.clamp(min=1e-6).pow(s.p), 2).pow(1 / s.p), p=torch.ones(1) * 3))


@module
def polynomial():
    return Of(lambda s, x: s.a + s.b * x + s.c * x ** 2 + s.d * x ** 3, a=torch.randn(()), b=torch.randn(()), c=torch.randn(()), d=torch.randn(())), (x2(5, 1),)


@module
def pinn():
    return Of(lambda s, x: s.o(torch.tanh(s.a * s.h(x))) * s.k, a=torch.ones(1), h=nn.Linear(1, 6), o=nn.Linear(6, 1), k=torch.tensor(0.3)), (x2(7, 1),)


@module
def attention_talking():
    def forward(s, x):
        q, k = (l(x).view(2, 5, 2, 4).transpose(1, 2) for l in (s.q, s.k))
        a = torch.einsum("bhij,hg->bgij", q @ k.transpose(2, 3), s.mix).softmax(-1) * s.head_scale.view(1, 2, 1, 1)
        return a.mean(1) @ s.v(x)
    return Of(forward, q=nn.Linear(8, 8), k=nn.Linear(8, 8), v=nn.Linear(8, 3), mix=torch.eye(2), head_scale=torch.ones(2)), (x2(2, 5, 8),)
