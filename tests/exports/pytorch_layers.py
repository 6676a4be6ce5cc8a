# SPDX-License-Identifier: LGPL-2.1-or-later
"""The layers of torch.nn, one module for each kind; a layer without parameters stands between two that have some."""
import torch
import torch.nn.functional as F
from pytorch_case import FOLDED, NORM, PADDING, STATE, Case, exact, flags, integers, uniform, when
from torch import nn
from torch.nn.utils import parametrizations, prune


class Apply(nn.Module):
    """A function as a layer."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


class First(nn.Module):
    """The first result of a layer that returns several."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, *inputs):
        return self.layer(*inputs)[0]


def between(*layers):
    """x: [4, 6], float → [4, 5]"""
    return nn.Sequential(nn.Linear(6, 8), *layers, nn.Linear(8, 5))


def image(*layers, after=4):
    """x: [2, 3, 8, 8], float; the layers see [2, 4, 8, 8], a convolution takes `after` channels"""
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), *layers, nn.Conv2d(after, 3, 1))


def line(*layers, after=4):
    """x: [2, 3, 12], float"""
    return nn.Sequential(nn.Conv1d(3, 4, 3, padding=1), *layers, nn.Conv1d(after, 3, 1))


def volume(*layers, after=4):
    """x: [2, 2, 6, 6, 6], float"""
    return nn.Sequential(nn.Conv3d(2, 4, 3, padding=1), *layers, nn.Conv3d(after, 2, 1))


ROWS, LINE, IMAGE, VOLUME = (4, 6), (2, 3, 12), (2, 3, 8, 8), (2, 2, 6, 6, 6)
SEQUENCE = (3, 5, 6)


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.rnn = kind(6, 7, **options)
        width = options.get("proj_size") or 7
        self.head = nn.Linear(width * (2 if options.get("bidirectional") else 1), 4)

    def forward(self, x):
        return self.head(self.rnn(x)[0])


class LastState(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rnn = kind(6, 7, num_layers=2, batch_first=True)
        self.head = nn.Linear(7, 4)

    def forward(self, x):
        state = self.rnn(x)[1]
        return self.head((state[0] if isinstance(state, tuple) else state)[-1])


class Cells(nn.Module):
    """A cell applied step by step."""

    def __init__(self, cell):
        super().__init__()
        self.cell, self.head = cell, nn.Linear(7, 4)

    def forward(self, x):
        state = None
        for step in x.unbind(1):
            state = self.cell(step, state)
        return self.head(state[0] if isinstance(state, tuple) else state)


class Attention(nn.Module):
    def __init__(self, masked=False, **options):
        super().__init__()
        self.attention, self.masked = nn.MultiheadAttention(8, 2, batch_first=True, **options), masked
        self.inner, self.head = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        h = self.inner(x)
        mask = torch.ones(h.shape[1], h.shape[1], dtype=torch.bool).triu(1) if self.masked else None
        return self.head(self.attention(h, h, h, attn_mask=mask, need_weights=False)[0])


class Decoder(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True, **options)

    def forward(self, x, memory):
        return self.layer(x, memory, tgt_is_causal=False)


class Bags(nn.Module):
    def __init__(self, mode, offsets=False):
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(10, 6, mode=mode), nn.Linear(6, 3)
        self.offsets = offsets

    def forward(self, *inputs):
        return self.head(self.bag(*inputs))


class Two(nn.Module):
    """A layer of two inputs between linear layers."""

    def __init__(self, layer, after=8):
        super().__init__()
        self.a, self.b, self.layer, self.head = nn.Linear(6, 8), nn.Linear(6, 8), layer, nn.Linear(after, 3)

    def forward(self, x, z):
        y = self.layer(self.a(x), self.b(z))
        return self.head(y if y.ndim > 1 else y.unsqueeze(-1))


class Sampled(nn.Module):
    """A spatial transformer: features read at places that are computed."""

    def __init__(self, mode="bilinear", padding="zeros", align=False):
        super().__init__()
        self.conv, self.place = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(3, 6)
        self.options = {"mode": mode, "padding_mode": padding, "align_corners": align}
        nn.init.normal_(self.place.weight, std=0.1)
        self.place.bias.data = torch.tensor([0.9, 0.1, 0.05, -0.1, 0.8, -0.03])

    def forward(self, x):
        theta = self.place(x.mean((2, 3))).view(-1, 2, 3)
        grid = F.affine_grid(theta, (2, 4, 8, 8), align_corners=self.options["align_corners"])
        return F.grid_sample(self.conv(x), grid, **self.options)


def pruned():
    layer = nn.Linear(6, 8)
    prune.l1_unstructured(layer, "weight", amount=0.5)
    return nn.Sequential(layer, nn.ReLU(), nn.Linear(8, 5))


def pruned_channels():
    layer = nn.Conv2d(4, 4, 3, padding=1)
    prune.ln_structured(layer, "weight", amount=0.5, n=2, dim=0)
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), layer, nn.ReLU(), nn.Conv2d(4, 3, 1))


def old_weight_norm():
    return nn.Sequential(nn.utils.weight_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 5))


def frozen():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 5))
    model[0].requires_grad_(False)
    return model


def moved(norm):
    """Statistics and parameters as after a training, not 0 and 1."""
    generator = torch.Generator().manual_seed(5)
    for values in [*norm.parameters(), *norm.buffers()]:
        if values.is_floating_point():
            values.data.add_(torch.rand(values.shape, generator=generator) * 0.3)
    return norm


ACTIVATIONS = {
    "relu": nn.ReLU(), "relu6": nn.ReLU6(), "elu": nn.ELU(0.7), "selu": nn.SELU(), "celu": nn.CELU(1.3), "gelu": nn.GELU(),
    "gelu_tanh": nn.GELU(approximate="tanh"), "silu": nn.SiLU(), "mish": nn.Mish(), "softplus": nn.Softplus(),
    "softplus_beta": nn.Softplus(beta=2.0, threshold=5.0), "softsign": nn.Softsign(), "tanh": nn.Tanh(), "sigmoid": nn.Sigmoid(),
    "log_sigmoid": nn.LogSigmoid(), "hardtanh": nn.Hardtanh(-0.4, 0.6), "hardswish": nn.Hardswish(), "hardsigmoid": nn.Hardsigmoid(),
    "leaky_relu": nn.LeakyReLU(0.1), "tanhshrink": nn.Tanhshrink(), "softshrink": nn.Softshrink(0.1), "hardshrink": nn.Hardshrink(0.2),
    "threshold": nn.Threshold(0.1, 0.05), "softmax": nn.Softmax(-1), "log_softmax": nn.LogSoftmax(-1), "softmin": nn.Softmin(-1),
    "rrelu_eval": nn.RReLU(),
}

LAYERS = {f"act_{name}": Case(lambda layer=layer: between(layer), (ROWS,)) for name, layer in ACTIVATIONS.items()}
LAYERS |= {
    "linear": Case(lambda: nn.Linear(6, 5), (ROWS,)),
    "linear_no_bias": Case(lambda: nn.Sequential(nn.Linear(6, 8, bias=False), nn.Tanh(), nn.Linear(8, 5, bias=False)), (ROWS,)),
    "linear_rank4": Case(lambda: nn.Linear(6, 5), ((2, 3, 4, 6),)),
    "linear_vector": Case(lambda: nn.Linear(6, 5), ((6,),)),
    "linear_batch": Case(lambda: between(nn.ReLU()), (ROWS,), dynamic={(0, 0): "batch"}),
    "identity_flatten": Case(lambda: nn.Sequential(nn.Identity(), nn.Flatten(), nn.Linear(24, 8), nn.Unflatten(1, (2, 4)), nn.Linear(4, 3)),
                             ((3, 4, 6),)),
    "bilinear": Case(lambda: Two(nn.Bilinear(8, 8, 4), 4), (ROWS, ROWS)),
    "cosine_similarity": Case(lambda: Two(nn.CosineSimilarity(dim=1), 1), (ROWS, ROWS)),
    "pairwise_distance": Case(lambda: Two(nn.PairwiseDistance(), 1), (ROWS, ROWS)),
    "prelu": Case(lambda: between(nn.PReLU()), (ROWS,)),
    "prelu_channels": Case(lambda: image(nn.PReLU(4)), (IMAGE,)),
    "glu": Case(lambda: nn.Sequential(nn.Linear(6, 8), nn.GLU(), nn.Linear(4, 3)), (ROWS,)),
    "softmax2d": Case(lambda: image(nn.Softmax2d()), (IMAGE,)),
    "dropout_eval": Case(lambda: between(nn.Dropout(0.5)), (ROWS,)),
    "conv1d": Case(lambda: line(nn.ReLU(), nn.Conv1d(4, 4, 3, stride=2, dilation=2, padding=1)), (LINE,)),
    "conv2d": Case(lambda: image(nn.ReLU(), nn.Conv2d(4, 6, 3, stride=2, padding=1), nn.ReLU(), after=6), (IMAGE,)),
    "conv2d_same": Case(lambda: image(nn.Conv2d(4, 4, 4, padding="same")), (IMAGE,)),
    "conv2d_groups": Case(lambda: image(nn.Conv2d(4, 8, 3, groups=2, bias=False), after=8), (IMAGE,)),
    "conv2d_reflect": Case(lambda: image(nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect")), (IMAGE,)),
    "conv2d_circular": Case(lambda: image(nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular")), (IMAGE,)),
    "conv2d_replicate": Case(lambda: image(nn.Conv2d(4, 4, 3, padding=2, padding_mode="replicate")), (IMAGE,)),
    "conv3d": Case(lambda: volume(nn.ReLU(), nn.Conv3d(4, 4, 2, stride=2)), (VOLUME,)),
    "conv_transpose1d": Case(lambda: line(nn.ConvTranspose1d(4, 4, 4, stride=2, padding=1)), (LINE,)),
    "conv_transpose2d": Case(lambda: image(nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), after=6), (IMAGE,)),
    "conv_transpose2d_groups": Case(lambda: image(nn.ConvTranspose2d(4, 4, 3, dilation=2, groups=2)), (IMAGE,)),
    "conv_transpose3d": Case(lambda: volume(nn.ConvTranspose3d(4, 4, 2, stride=2)), (VOLUME,)),
    "batch_norm1d_eval": Case(lambda: between(moved(nn.BatchNorm1d(8))), (ROWS,), differs=when(NORM, "dyn")),
    "batch_norm1d_train": Case(lambda: between(nn.BatchNorm1d(8)), ((16, 6),), train=True, differs=when(NORM, "dyn")),
    "batch_norm2d_eval": Case(lambda: image(nn.ReLU(), moved(nn.BatchNorm2d(4))), (IMAGE,)),
    "batch_norm2d_folds": Case(lambda: image(moved(nn.BatchNorm2d(4)), nn.ReLU()), (IMAGE,), differs=when(NORM, "ts", "dyn")),
    "batch_norm2d_train": Case(lambda: image(nn.BatchNorm2d(4), nn.ReLU()), (IMAGE,), train=True, differs=when(NORM, "dyn")),
    "batch_norm2d_momentum": Case(lambda: image(nn.BatchNorm2d(4, momentum=0.4, eps=1e-3), nn.ReLU()), (IMAGE,), train=True,
                                  differs=when(NORM, "dyn")),
    "batch_norm2d_no_affine": Case(lambda: image(nn.BatchNorm2d(4, affine=False), nn.ReLU()), (IMAGE,), train=True, differs=when(NORM, "dyn")),
    "batch_norm2d_no_affine_eval": Case(lambda: image(nn.ReLU(), moved(nn.BatchNorm2d(4, affine=False))), (IMAGE,)),
    "batch_norm2d_no_statistics": Case(lambda: image(nn.BatchNorm2d(4, track_running_stats=False)), (IMAGE,)),
    "batch_norm3d_train": Case(lambda: volume(nn.BatchNorm3d(4)), (VOLUME,), train=True, differs=when(NORM, "dyn")),
    "layer_norm": Case(lambda: between(nn.LayerNorm(8)), (ROWS,)),
    "layer_norm_no_affine": Case(lambda: between(nn.LayerNorm(8, elementwise_affine=False)), (ROWS,)),
    "layer_norm_no_bias": Case(lambda: between(nn.LayerNorm(8, bias=False)), (ROWS,)),
    "layer_norm_image": Case(lambda: image(nn.LayerNorm([4, 8, 8])), (IMAGE,)),
    "rms_norm": Case(lambda: between(nn.RMSNorm(8)), (ROWS,)),
    "rms_norm_no_affine": Case(lambda: between(nn.RMSNorm(8, elementwise_affine=False)), (ROWS,)),
    "group_norm": Case(lambda: image(nn.GroupNorm(2, 4)), (IMAGE,)),
    "group_norm_no_affine": Case(lambda: image(nn.GroupNorm(2, 4, affine=False)), (IMAGE,)),
    "group_norm_rows": Case(lambda: between(nn.GroupNorm(2, 8)), (ROWS,)),
    "instance_norm1d": Case(lambda: line(nn.InstanceNorm1d(4)), (LINE,)),
    "instance_norm2d_affine": Case(lambda: image(nn.InstanceNorm2d(4, affine=True)), (IMAGE,)),
    "instance_norm2d_statistics": Case(lambda: image(moved(nn.InstanceNorm2d(4, affine=True, track_running_stats=True))), (IMAGE,),
                                       differs=when(FOLDED, "dyn")),
    "instance_norm3d": Case(lambda: volume(nn.InstanceNorm3d(4, affine=True)), (VOLUME,)),
    "local_response_norm": Case(lambda: image(nn.LocalResponseNorm(3)), (IMAGE,)),
    "embedding": Case(lambda: nn.Sequential(nn.Embedding(10, 6), nn.Linear(6, 4)), (integers(10, 3, 5),)),
    "embedding_padding": Case(lambda: nn.Sequential(nn.Embedding(10, 6, padding_idx=0), nn.Linear(6, 4)), (integers(4, 3, 5),),
                              differs=when(PADDING, "ts")),
    "embedding_only": Case(lambda: nn.Embedding(10, 6), (integers(10, 4),)),
    "embedding_bag_mean": Case(lambda: Bags("mean"), (integers(10, 3, 4),)),
    "embedding_bag_sum": Case(lambda: Bags("sum"), (integers(10, 3, 4),)),
    "embedding_bag_max": Case(lambda: Bags("max"), (integers(10, 3, 4),)),
    "embedding_bag_offsets": Case(lambda: Bags("sum", True), (integers(10, 9), exact([0, 2, 5]))),
    "rnn_tanh": Case(lambda: Recurrent(nn.RNN, batch_first=True), (SEQUENCE,), differs=when(STATE, "dyn")),
    "rnn_relu": Case(lambda: Recurrent(nn.RNN, nonlinearity="relu", num_layers=2), (SEQUENCE,), differs=when(STATE, "dyn")),
    "lstm": Case(lambda: Recurrent(nn.LSTM, batch_first=True), (SEQUENCE,)),
    "lstm_two_ways": Case(lambda: Recurrent(nn.LSTM, batch_first=True, bidirectional=True, num_layers=2), (SEQUENCE,)),
    "lstm_projection": Case(lambda: Recurrent(nn.LSTM, batch_first=True, proj_size=3), (SEQUENCE,)),
    "lstm_no_bias": Case(lambda: Recurrent(nn.LSTM, bias=False), (SEQUENCE,)),
    "lstm_state": Case(lambda: LastState(nn.LSTM), (SEQUENCE,)),
    "lstm_batch": Case(lambda: Recurrent(nn.LSTM, batch_first=True), (SEQUENCE,), dynamic={(0, 0): "batch"}),
    "gru": Case(lambda: Recurrent(nn.GRU, batch_first=True), (SEQUENCE,)),
    "gru_two_ways": Case(lambda: Recurrent(nn.GRU, bidirectional=True, num_layers=2), (SEQUENCE,)),
    "gru_state": Case(lambda: LastState(nn.GRU), (SEQUENCE,)),
    "lstm_cell": Case(lambda: Cells(nn.LSTMCell(6, 7)), (SEQUENCE,), differs=when(STATE, "dyn")),
    "gru_cell": Case(lambda: Cells(nn.GRUCell(6, 7)), (SEQUENCE,), differs=when(STATE, "dyn")),
    "rnn_cell": Case(lambda: Cells(nn.RNNCell(6, 7)), (SEQUENCE,)),
    "attention": Case(Attention, (SEQUENCE,)),
    "attention_causal": Case(lambda: Attention(True), (SEQUENCE,)),
    "attention_no_bias": Case(lambda: Attention(bias=False), (SEQUENCE,)),
    "attention_bias_kv": Case(lambda: Attention(add_bias_kv=True, add_zero_attn=True), (SEQUENCE,)),
    "encoder_layer": Case(lambda: nn.TransformerEncoderLayer(6, 2, 12, dropout=0.0, batch_first=True), (SEQUENCE,), train=True),
    "encoder_layer_eval": Case(lambda: nn.TransformerEncoderLayer(6, 2, 12, batch_first=True), (SEQUENCE,)),
    "encoder_norm_first": Case(lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 12, 0.0, "gelu", norm_first=True), 2,
                                                             nn.LayerNorm(6), enable_nested_tensor=False), (SEQUENCE,), train=True),
    "decoder_layer": Case(Decoder, ((3, 5, 8), (3, 4, 8)), train=True),
    "decoder_norm_first": Case(lambda: Decoder(norm_first=True, activation="gelu"), ((3, 5, 8), (3, 4, 8)), train=True),
    "max_pool1d": Case(lambda: line(nn.MaxPool1d(3, 2)), (LINE,)),
    "max_pool2d": Case(lambda: image(nn.MaxPool2d(3, 2, padding=1, ceil_mode=True)), (IMAGE,)),
    "max_pool2d_dilated": Case(lambda: image(nn.MaxPool2d(2, 1, dilation=2)), (IMAGE,)),
    "max_pool3d": Case(lambda: volume(nn.MaxPool3d(2)), (VOLUME,)),
    "avg_pool1d": Case(lambda: line(nn.AvgPool1d(3, 2, padding=1)), (LINE,)),
    "avg_pool2d": Case(lambda: image(nn.AvgPool2d(3, 2, padding=1, count_include_pad=False)), (IMAGE,)),
    "avg_pool2d_ceil": Case(lambda: image(nn.AvgPool2d(3, 2, ceil_mode=True)), (IMAGE,)),
    "avg_pool3d": Case(lambda: volume(nn.AvgPool3d(2)), (VOLUME,)),
    "lp_pool1d": Case(lambda: line(nn.Softplus(), nn.LPPool1d(2, 3, 2)), (LINE,)),
    "lp_pool2d": Case(lambda: image(nn.Softplus(), nn.LPPool2d(3, 2)), (IMAGE,)),
    "adaptive_avg_pool2d": Case(lambda: image(nn.AdaptiveAvgPool2d((2, 4))), (IMAGE,)),
    "adaptive_avg_pool2d_uneven": Case(lambda: image(nn.AdaptiveAvgPool2d((3, 5))), (IMAGE,)),
    "adaptive_avg_pool_global": Case(lambda: image(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4), nn.Unflatten(1, (4, 1, 1))), (IMAGE,)),
    "adaptive_max_pool2d": Case(lambda: image(nn.AdaptiveMaxPool2d(4)), (IMAGE,)),
    "adaptive_avg_pool1d": Case(lambda: line(nn.AdaptiveAvgPool1d(4)), (LINE,)),
    "upsample_nearest": Case(lambda: image(nn.Upsample(scale_factor=2)), (IMAGE,)),
    "upsample_bilinear": Case(lambda: image(nn.Upsample(scale_factor=1.5, mode="bilinear")), (IMAGE,)),
    "upsample_corners": Case(lambda: image(nn.Upsample(size=(11, 5), mode="bilinear", align_corners=True)), (IMAGE,)),
    "upsample_bicubic": Case(lambda: image(nn.Upsample(scale_factor=2, mode="bicubic")), (IMAGE,)),
    "upsample_antialias": Case(lambda: image(Apply(lambda x: F.interpolate(x, size=(5, 5), mode="bilinear", antialias=True))), (IMAGE,)),
    "upsample_linear": Case(lambda: line(nn.Upsample(scale_factor=2, mode="linear")), (LINE,)),
    "upsample_trilinear": Case(lambda: volume(nn.Upsample(scale_factor=2, mode="trilinear")), (VOLUME,)),
    "upsample_nearest_exact": Case(lambda: image(nn.Upsample(size=(5, 11), mode="nearest-exact")), (IMAGE,)),
    "pixel_shuffle": Case(lambda: image(nn.PixelShuffle(2), after=1), (IMAGE,)),
    "pixel_unshuffle": Case(lambda: image(nn.PixelUnshuffle(2), after=16), (IMAGE,)),
    "channel_shuffle": Case(lambda: image(nn.ChannelShuffle(2)), (IMAGE,)),
    "unfold": Case(lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Unfold(2, stride=2), Apply(lambda x: x.transpose(1, 2)),
                                         nn.Linear(16, 5)), (IMAGE,)),
    "fold": Case(lambda: nn.Sequential(nn.Linear(24, 24), nn.Fold((8, 5), (3, 2)), nn.Conv2d(2, 2, 3)), ((1, 12, 24),)),
    "pad_reflect": Case(lambda: image(nn.ReflectionPad2d((1, 2, 3, 0))), (IMAGE,)),
    "pad_replicate": Case(lambda: image(nn.ReplicationPad2d(2)), (IMAGE,)),
    "pad_zero": Case(lambda: image(nn.ZeroPad2d((1, -1, 2, 0))), (IMAGE,)),
    "pad_constant": Case(lambda: line(nn.ConstantPad1d((2, 1), 0.7)), (LINE,)),
    "pad_circular": Case(lambda: line(nn.CircularPad1d(2)), (LINE,)),
    "affine_grid_sample": Case(Sampled, (IMAGE,)),
    "grid_sample_corners": Case(lambda: Sampled("bilinear", "border", True), (IMAGE,)),
    "grid_sample_reflection": Case(lambda: Sampled("bilinear", "reflection", False), (IMAGE,)),
    "grid_sample_bicubic": Case(lambda: Sampled("bicubic", "zeros", False), (IMAGE,)),
    "weight_norm": Case(lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 5)), (ROWS,), differs=when(FOLDED, "dyn")),
    "weight_norm_conv": Case(lambda: nn.Sequential(parametrizations.weight_norm(nn.Conv2d(3, 4, 3)), nn.ReLU(), nn.Conv2d(4, 3, 1)), (IMAGE,), differs=when(FOLDED, "dyn")),
    "weight_norm_old": Case(old_weight_norm, (ROWS,), differs=when(FOLDED, "dyn")),
    "spectral_norm": Case(lambda: nn.Sequential(parametrizations.spectral_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 5)), (ROWS,), differs=when(FOLDED, "dyn")),
    "orthogonal": Case(lambda: nn.Sequential(parametrizations.orthogonal(nn.Linear(6, 6), use_trivialization=False), nn.Linear(6, 5)), (ROWS,)),
    "pruned": Case(pruned, (ROWS,), differs=when(FOLDED, "ts", "dyn")),
    "pruned_channels": Case(pruned_channels, (IMAGE,), differs=when(FOLDED, "ts", "dyn")),
    "frozen_first": Case(frozen, (ROWS,), differs="requires_grad is not written into a file: freeze the layer with trainable patterns"),
    "attention_mask_fed": Case(lambda: MaskFed(), (SEQUENCE, flags(3, 5))),
    "half_linear": Case(lambda: between(nn.ReLU()), (ROWS,), dtype=torch.float16, tolerance=5e-3),
    "half_conv": Case(lambda: image(nn.ReLU()), (IMAGE,), dtype=torch.float16, tolerance=5e-3),
    "half_layer_norm": Case(lambda: between(nn.LayerNorm(8), nn.GELU()), (ROWS,), dtype=torch.float16, tolerance=5e-3),
    "brain_linear": Case(lambda: between(nn.ReLU()), (ROWS,), dtype=torch.bfloat16, tolerance=3e-2),
    "brain_encoder": Case(lambda: nn.TransformerEncoderLayer(6, 2, 12, 0.0, batch_first=True), (SEQUENCE,), dtype=torch.bfloat16, tolerance=3e-2,
                          train=True),
    "double_linear": Case(lambda: between(nn.Tanh()), (ROWS,), dtype=torch.float64),
    "softplus_range": Case(lambda: between(Apply(lambda x: x * 20), nn.Softplus()), (uniform(-1, 1, 4, 6),)),
}


class MaskFed(nn.Module):
    """Attention whose padding mask is fed: True is a place that counts."""

    def __init__(self):
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(6, 2, batch_first=True), nn.Linear(6, 4)

    def forward(self, x, mask):
        return self.head(self.attention(x, x, x, key_padding_mask=~mask, need_weights=False)[0])
