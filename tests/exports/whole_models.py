# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whole models of transformers, torchvision and timm, exported as doc/exporting.md says, by PyTorch's three exporters.

whole_models.py FOLDER [PATTERN…] writes the files; they are small configurations with random weights, nothing is fetched. Then

    meson devenv -C _build python $PWD/tests/exports/pytorch_losses.py FOLDER --table

trains them beside PyTorch and prints the table. All are in training mode, without dropout, since its randomness differs.
"""
import os
import sys

import timm
import torch
import torchvision
import transformers
from pytorch_case import FOLDED, NEAR, NORM, PADDING, Case, integers, when
from pytorch_export import export_all
from torch import nn

os.environ["HF_HUB_OFFLINE"] = "1"
IDS, PIXELS = integers(40, 2, 8), (2, 3, 32, 32)
TEXT = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
NO_DROPOUT = {f"{prefix}{name}": 0.0 for prefix in ("", "hidden_", "attention_", "attention_probs_", "activation_", "embd_", "attn_", "resid_",
                                                     "embed_", "classifier_", "hidden_act_", "mlp_", "seq_classif_", "qa_", "feat_proj_", "final_",
                                                     "summary_last_", "pooler_", "embedding_")
              for name in ("dropout", "dropout_prob", "pdrop", "dropout_rate")} | {"layerdrop": 0.0, "drop_path_rate": 0.0, "classifier_dropout": 0.0}


class Output(nn.Module):
    """One tensor of the mapping that a model returns."""

    def __init__(self, model, inputs=("input_ids",), output="logits", **fixed):
        super().__init__()
        self.model, self.inputs, self.output, self.fixed = model, inputs, output, fixed

    def forward(self, first, second=None):
        inputs = (first,) if second is None else (first, second)
        outputs = self.model(**dict(zip(self.inputs, inputs)), **self.fixed)
        return outputs[self.output]


def hugging(kind, model, *inputs, names=("input_ids",), output="logits", fixed=None, dynamic=None, differs="", **options):
    """kind and model are the beginnings and ends of class names: GPT2, LMHeadModel"""
    def make():
        config_class = getattr(transformers, f"{kind}Config")
        known = set(config_class().to_dict())
        config = config_class(**{k: v for k, v in NO_DROPOUT.items() if k in known}, **options)
        config._attn_implementation = "eager" if kind in EAGER else "sdpa"
        return Output(getattr(transformers, f"{kind}{model}")(config), names, output, **(fixed or {}))
    return Case(make, inputs or (IDS,), train=True, dynamic=dynamic, tolerance=1e-4, differs=differs)


EAGER = {"Gemma2", "Deberta", "DebertaV2", "XLNet", "MPNet", "Bloom", "T5", "GPTNeo", "Funnel", "Swin", "Mamba", "SegFormer", "ConvNext", "ResNet"}
BATCH, SEQUENCE = {(0, 0): "batch"}, {(0, 0): "batch", (0, 1): "seq"}
NO_CACHE = {"use_cache": False}
MASK = lambda generator: torch.ones((2, 8), dtype=torch.int64)  # without one, transformers looks for packed sequences by aten::diff
CAUSAL = {"names": ("input_ids", "attention_mask"), "dynamic": SEQUENCE | {(1, 0): "batch", (1, 1): "seq"}, "use_cache": False}
GATED = TEXT | {"num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
VISION = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "image_size": 32, "patch_size": 8, "num_labels": 5}

TRANSFORMERS = {
    "bert": hugging("Bert", "ForSequenceClassification", dynamic=SEQUENCE, **TEXT),
    "bert_masked": hugging("Bert", "ForMaskedLM", IDS, integers(2, 2, 8), names=("input_ids", "attention_mask"), **TEXT),
    "distilbert": hugging("DistilBert", "ForSequenceClassification", dynamic=SEQUENCE, vocab_size=40, dim=16, n_layers=2, n_heads=2, hidden_dim=24),
    "roberta": hugging("Roberta", "ForTokenClassification", dynamic=SEQUENCE, differs=when(PADDING, "ts"), **TEXT),
    "albert": hugging("Albert", "ForSequenceClassification", dynamic=SEQUENCE, embedding_size=12, **TEXT),
    "electra": hugging("Electra", "ForTokenClassification", dynamic=SEQUENCE, embedding_size=12, **TEXT),
    "deberta_v2": hugging("DebertaV2", "ForTokenClassification", relative_attention=True, position_buckets=4, pos_att_type=["p2c", "c2p"], **TEXT),
    "mpnet": hugging("MPNet", "ForTokenClassification", **TEXT),
    "modernbert": hugging("ModernBert", "ForMaskedLM", pad_token_id=0, global_attn_every_n_layers=2, local_attention=4, **TEXT),
    "gpt2": hugging("GPT2", "LMHeadModel", IDS, MASK, vocab_size=40, n_embd=16, n_layer=2, n_head=2, n_positions=32, **CAUSAL),
    "gpt_neo": hugging("GPTNeo", "ForCausalLM", IDS, MASK, vocab_size=40, hidden_size=16, num_layers=2, num_heads=2, max_position_embeddings=32,
                       attention_types=[[["global", "local"], 1]], window_size=4, **CAUSAL),
    "gpt_neox": hugging("GPTNeoX", "ForCausalLM", IDS, MASK, **TEXT, **CAUSAL),
    "opt": hugging("OPT", "ForCausalLM", IDS, MASK, vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, ffn_dim=24, word_embed_proj_dim=16, **CAUSAL),
    "bloom": hugging("Bloom", "ForCausalLM", IDS, MASK, vocab_size=40, hidden_size=16, n_layer=2, n_head=2, **CAUSAL),
    "llama": hugging("Llama", "ForCausalLM", IDS, MASK, differs=when(PADDING, "ts"), **GATED, **CAUSAL),
    "mistral": hugging("Mistral", "ForCausalLM", IDS, MASK, differs=when(PADDING, "ts"), **GATED, **CAUSAL),
    "qwen2": hugging("Qwen2", "ForCausalLM", IDS, MASK, **{k: v for k, v in GATED.items() if k != "head_dim"}, **CAUSAL),
    "qwen3": hugging("Qwen3", "ForCausalLM", IDS, MASK, **GATED, **CAUSAL),
    "gemma2": hugging("Gemma2", "ForCausalLM", IDS, MASK, **GATED, **CAUSAL),
    "phi3": hugging("Phi3", "ForCausalLM", IDS, MASK, **{k: v for k, v in GATED.items() if k != "head_dim"}, **CAUSAL),
    "mixtral": hugging("Mixtral", "ForCausalLM", IDS, MASK, num_local_experts=3, num_experts_per_tok=2, **GATED, **CAUSAL),
    "mamba": hugging("Mamba", "ForCausalLM", vocab_size=40, hidden_size=16, num_hidden_layers=2, state_size=4, time_step_rank=2, use_cache=False),
    "t5": hugging("T5", "ForConditionalGeneration", IDS, integers(40, 2, 6), names=("input_ids", "decoder_input_ids"), vocab_size=40, d_model=16,
                  d_kv=8, d_ff=24, num_layers=2, num_heads=2, use_cache=False),
    "bart": hugging("Bart", "ForConditionalGeneration", IDS, integers(40, 2, 6), names=("input_ids", "decoder_input_ids"), vocab_size=40, d_model=16,
                    encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24,
                    max_position_embeddings=32, use_cache=False, differs=when(PADDING, "ts")),
    "vit": hugging("ViT", "ForImageClassification", PIXELS, names=("pixel_values",), dynamic=BATCH, **VISION),
    "dinov2": hugging("Dinov2", "ForImageClassification", PIXELS, names=("pixel_values",), dynamic=BATCH, **VISION),
    "segformer": hugging("Segformer", "ForSemanticSegmentation", PIXELS, names=("pixel_values",), dynamic=BATCH, differs=when(NORM, "dyn"),
                         num_labels=5, depths=[1, 1, 1, 1],
                         hidden_sizes=[8, 8, 16, 16], num_attention_heads=[1, 1, 2, 2], decoder_hidden_size=16),
    "hf_swin": hugging("Swin", "ForImageClassification", PIXELS, names=("pixel_values",), dynamic=BATCH, num_labels=5, image_size=32, patch_size=2,
                       embed_dim=8, depths=[2, 2], num_heads=[1, 2], window_size=4),
    "wav2vec2": hugging("Wav2Vec2", "ForCTC", (2, 400), names=("input_values",), vocab_size=12, hidden_size=16, num_hidden_layers=1,
                        num_attention_heads=2, intermediate_size=24, conv_dim=[8, 8], conv_stride=[5, 2], conv_kernel=[10, 3],
                        num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, num_feat_extract_layers=2, apply_spec_augment=False),
    "clip": hugging("CLIP", "Model", IDS, PIXELS, names=("input_ids", "pixel_values"), output="logits_per_image", projection_dim=16, differs=when(FOLDED, "dyn"),
                    text_config=GATED | {"bos_token_id": 1}, vision_config=VISION),
}


def vision(make, *inputs, folds=True, others="", rate=1e-4, tolerance=2e-4):
    """folds: the exporter that optimizes folds norms or weights; others: why the files of the others differ"""
    return Case(make, inputs or ((4, 3, 64, 64),), train=True, dynamic=BATCH, rate=rate, tolerance=tolerance,
                differs=(when(f"{NORM}, or {FOLDED}", "dyn") if folds else {}) | (when(others, "ts", "raw") if others else {}))


def torchvision_model(name, folds=True, others="", **options):
    return vision(lambda: getattr(torchvision.models, name)(weights=None, num_classes=5, **options), folds=folds, others=others)


def vision_transformer():
    return torchvision.models.VisionTransformer(32, 8, 2, 2, 16, 24, num_classes=5)


def swin():
    return torchvision.models.SwinTransformer([2, 2], 8, [1, 1], [1, 2], [4, 4], stochastic_depth_prob=0.0, num_classes=5)


def convnext():
    from torchvision.models.convnext import CNBlockConfig
    return torchvision.models.ConvNeXt([CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)], num_classes=5)


def lraspp():
    from torchvision.models.segmentation import lraspp_mobilenet_v3_large
    return Output(lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=3), ("input",), "out")


TORCHVISION = {
    "resnet18": torchvision_model("resnet18"),
    "mobilenet_v2": torchvision_model("mobilenet_v2", others=NEAR, dropout=0.0),
    "mobilenet_v3": torchvision_model("mobilenet_v3_small", dropout=0.0),
    "shufflenet": torchvision_model("shufflenet_v2_x0_5"),
    "squeezenet1_1": torchvision_model("squeezenet1_1", folds=False, dropout=0.0),
    "mnasnet": torchvision_model("mnasnet0_5", dropout=0.0),
    "efficientnet": torchvision_model("efficientnet_b0", dropout=0.0, stochastic_depth_prob=0.0),
    "regnet": torchvision_model("regnet_y_400mf"),
    "densenet": vision(lambda: torchvision.models.DenseNet(8, (2, 2), 8, num_classes=5), PIXELS, rate=0.02),
    "tv_vit": vision(vision_transformer, PIXELS, folds=False, rate=0.02),
    "tv_swin": vision(swin, PIXELS, folds=False, rate=0.02),
    "tv_convnext": vision(convnext, PIXELS, folds=False, rate=0.02),
    "lraspp": vision(lraspp),
}

NOT_FOLDED = {"test_vit", "test_vit3", "test_efficientnet_gn", "test_convnext", "mobilenetv4_conv_small"}
TIMM = {f"timm_{name}": vision(lambda name=name, options=options: timm.create_model(name, num_classes=5, **options),
                               folds=name not in NOT_FOLDED) for name, options in {
    "test_vit": {"img_size": 64}, "test_vit3": {"img_size": 64}, "test_resnet": {}, "test_efficientnet": {}, "test_efficientnet_gn": {},
    "test_byobnet": {}, "test_convnext": {}, "test_nfnet": {}, "mobilenetv4_conv_small": {}, "ghostnet_100": {"drop_rate": 0.0}}.items()}

MODELS = TRANSFORMERS | TORCHVISION | TIMM


if __name__ == "__main__":
    export_all(sys.argv[1], MODELS, sys.argv[2:])
