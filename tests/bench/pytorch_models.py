# SPDX-License-Identifier: LGPL-2.1-or-later
"""Models with random weights in PyTorch: exported for the library, and trained here beside it. Needs no network.

    pytorch_models.py export NAME FOLDER                    FOLDER/model.onnx
    pytorch_models.py time NAME --batch N [--seq N] [--compile] [--precision bf16] [--device cuda] [--steps N]
    pytorch_models.py largest NAME --batch N --limit N …    the largest batch that a step has memory for
    pytorch_models.py serve NAME [--device cuda]            `time`, again and again: a line of JSON with its options in, a line out
    pytorch_models.py versions

`time` takes the weights that `export` writes, feeds of model_feeds.py, and AdamW as `ortrain bench` has it; it prints one JSON object.
tools/gpu-check runs it, with the interpreter that --pytorch names. `serve` has its model when the first line comes, so that importing
PyTorch costs no time of a device."""
import argparse
import copy
import gc
import json
import math
import os
import resource
import sys
import time
import warnings

warnings.filterwarnings("ignore")
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import model_feeds


class Attention(nn.Module):
    def __init__(self, width, heads, causal=False):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.causal = heads, causal

    def forward(self, x):  # [batch, seq, width]
        n, s, width = x.shape
        q, k, v = self.qkv(x).reshape(n, s, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(n, s, width))


class Disentangled(nn.Module):
    """Attention of DeBERTa: content to content, content to position, position to content."""

    def __init__(self, width, heads, buckets):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.heads, self.buckets = heads, buckets

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], self.heads, x.shape[2] // self.heads).transpose(1, 2)

    def forward(self, x, relative, places):  # [batch, seq, width]; [2 buckets, width]; [seq, seq] of rows of it
        n, s, width = x.shape
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        position_q, position_k = self.split(self.query(relative)[None]), self.split(self.key(relative)[None])
        places = places.expand(n, self.heads, s, s)
        to_position = torch.gather(q @ position_k.transpose(-1, -2), -1, places)
        to_content = torch.gather(k @ position_q.transpose(-1, -2), -1, places.transpose(-1, -2)).transpose(-1, -2)
        scores = (q @ k.transpose(-1, -2) + to_position + to_content) / math.sqrt(3 * width // self.heads)
        return self.out((torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(n, s, width))


class Layer(nn.Module):
    def __init__(self, width, attention, before, gelu):
        super().__init__()
        self.attention, self.before, self.gelu = attention, before, gelu
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def wide(self, x):
        return self.fc2(F.gelu(self.fc1(x), approximate=self.gelu))

    def forward(self, x, *places):
        if self.before:
            x = x + self.attention(self.norm1(x), *places)
            return x + self.wide(self.norm2(x))
        x = self.norm1(x + self.attention(x, *places))
        return self.norm2(x + self.wide(x))


class Transformer(nn.Module):
    """GPT-2 (causal, norms before), BERT (norms behind, a head that predicts words), DeBERTa (relative positions)."""

    def __init__(self, kind, tokens, positions, width, layers, heads):
        super().__init__()
        self.kind, self.positions = kind, positions
        self.token, self.position = nn.Embedding(tokens, width), nn.Embedding(positions * (2 if kind == "deberta" else 1), width)
        make = (lambda: Disentangled(width, heads, positions)) if kind == "deberta" else lambda: Attention(width, heads, kind == "gpt")
        gelu = "tanh" if kind == "gpt" else "none"
        self.layers = nn.ModuleList(Layer(width, make(), kind == "gpt", gelu) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, tokens, bias=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
        self.head.weight = self.token.weight

    def forward(self, ids):  # [batch, seq]
        s = torch.arange(ids.shape[1], device=ids.device)
        x = self.token(ids)
        if self.kind == "deberta":
            x, places = self.norm(x), (s[:, None] - s[None, :] + self.positions).clamp(0, 2 * self.positions - 1)
            for layer in self.layers:
                x = layer(x, self.position.weight, places)
            return self.head(x)
        x = x + self.position(s)
        if self.kind == "bert":
            x = self.norm(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x) if self.kind == "gpt" else x)


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.norm3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.short = nn.Sequential(nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)) \
            if stride > 1 or channels != 4 * width else nn.Identity()

    def forward(self, x):
        y = F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))
        return F.relu(self.norm3(self.conv3(y)) + self.short(x))


def resnet(blocks, width, classes):
    layers, channels = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], width
    for stage, n in enumerate(blocks):
        for i in range(n):
            layers.append(Bottleneck(channels, width << stage, 2 if i == 0 and stage > 0 else 1))
            channels = 4 * (width << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


# name: what makes it, in full and small
MODELS = {
    "gpt2-124m": (lambda: Transformer("gpt", 50257, 1024, 768, 12, 12), lambda: Transformer("gpt", 97, 32, 32, 2, 2)),
    "bert-large": (lambda: Transformer("bert", 30522, 512, 1024, 24, 16), lambda: Transformer("bert", 97, 32, 32, 2, 2)),
    "deberta": (lambda: Transformer("deberta", 30522, 512, 768, 12, 12), lambda: Transformer("deberta", 97, 32, 32, 2, 2)),
    "resnet50": (lambda: resnet((3, 4, 6, 3), 64, 1000), lambda: resnet((1, 1), 8, 10)),
    "mlp": (lambda: mlp(784, 256, 10), lambda: mlp(20, 16, 10)),
}


def make_model(words):
    torch.manual_seed(0)
    return MODELS[words.name][1 if words.small else 0]().train()


def make_feeds(words, batch):
    return [torch.from_numpy(values) for values in model_feeds.make_feeds(words.name, words.small, batch, words.seq)]


def export(words):
    model, (x, _) = make_model(words), make_feeds(words, 2)
    kind = model_feeds.KINDS[words.name][0]
    os.makedirs(words.folder, exist_ok=True)
    dynamic = {0: "batch"} | ({1: "seq"} if kind == "tokens" else {})
    torch.onnx.export(model, (x,), os.path.join(words.folder, "model.onnx"), input_names=["x"], output_names=["logits"], opset_version=20,
                      dynamic_axes={"x": dynamic, "logits": dynamic}, do_constant_folding=False,
                      training=torch.onnx.TrainingMode.TRAINING, dynamo=False)
    return {"parameters": sum(p.numel() for p in model.parameters())}


class Trainer:
    def __init__(self, words, model=None):
        # float32 is float32 on both sides.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        if words.threads:
            torch.set_num_threads(words.threads)
        self.words = words
        self.model = (copy.deepcopy(model) if model else make_model(words)).to(words.device)
        self.layout = torch.channels_last if model_feeds.KINDS[words.name][0] == "image" and words.device == "cuda" else torch.contiguous_format
        self.model = self.model.to(memory_format=self.layout)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.loss = torch.compile(self.plain_loss, dynamic=False) if words.compile else self.plain_loss

    def plain_loss(self, x, target):
        with torch.autocast(self.words.device, torch.bfloat16, enabled=self.words.precision == "bf16"):
            logits = self.model(x)
        return F.cross_entropy(logits.flatten(0, -2).float(), target.flatten())

    def feeds(self, batch):
        x, target = (tensor.to(self.words.device) for tensor in make_feeds(self.words, batch))
        return x.to(memory_format=self.layout) if x.dim() == 4 else x, target

    def step(self, x, target):
        loss = self.loss(x, target)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def device_memory():
    if not torch.cuda.is_available():
        return 0
    free, total = torch.cuda.mem_get_info()
    return total - free


def measure(words, model=None):
    before, device_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, device_memory()
    begin = time.perf_counter()
    trainer = Trainer(words, model)
    created = time.perf_counter()
    x, target = trainer.feeds(words.batch)
    losses, times, hosts = [], [], []
    for _ in range(words.steps + 3):
        a = time.perf_counter()
        loss = trainer.step(x, target)
        b = time.perf_counter()
        losses.append(loss.item())
        c = time.perf_counter()
        times.append((c - a) * 1e3)
        hosts.append((b - a) * 1e3)
    first = times[0]
    times, hosts = sorted(times[3:]), sorted(hosts[3:])
    result = {"ms_median": times[len(times) // 2], "ms_best": times[0], "ms_host": hosts[len(hosts) // 2], "ms_create": (created - begin) * 1e3,
              "ms_until_first_step": (created - begin) * 1e3 + first, "losses": losses}
    if words.device == "cuda":
        a = time.perf_counter()
        for _ in range(words.steps):
            loss = trainer.step(x, target)
        loss.item()
        result["ms_ahead"] = (time.perf_counter() - a) * 1e3 / words.steps
        result["peak_bytes"] = torch.cuda.max_memory_allocated()
    result["device_bytes"] = max(0, device_memory() - device_before)
    result["resident_peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    return result


def largest(words):
    trainer = Trainer(words)

    def fits(batch):
        try:
            feeds = trainer.feeds(batch)
            for _ in range(2):
                loss = trainer.step(*feeds)
            loss.item()
            return True
        except (torch.cuda.OutOfMemoryError, RuntimeError) as error:
            if "memory" not in str(error).lower():
                raise
            trainer.optimizer.zero_grad(set_to_none=True)
            return False
        finally:
            if words.device == "cuda":
                torch.cuda.empty_cache()

    from models_beside import search_largest
    return {"batch": search_largest(fits, words.batch, words.limit)}


def serve(words):
    """What one line takes of the device is given back before the next one; a failure is an answer."""
    model, answers = make_model(words), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what compilers print is no answer
    known = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
    print(json.dumps({"ready": True, "versions": known}), file=answers, flush=True)
    for line in sys.stdin:
        asked = argparse.Namespace(**vars(words) | json.loads(line))
        try:
            answer = measure(asked, model)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        print(json.dumps(answer), file=answers, flush=True)
        torch._dynamo.reset()
        gc.collect()
        if asked.device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


def versions(words):
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=["export", "time", "largest", "serve", "versions"])
    parser.add_argument("name", nargs="?", choices=list(MODELS))
    parser.add_argument("folder", nargs="?")
    for name, number in (("batch", 2), ("seq", 16), ("steps", 10), ("limit", 4096), ("threads", 0)):
        parser.add_argument("--" + name, type=int, default=number)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--precision", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    words = parser.parse_args()
    if words.do == "serve":
        return serve(words)
    print(json.dumps({"export": export, "time": measure, "largest": largest, "versions": versions}[words.do](words)))


main()
