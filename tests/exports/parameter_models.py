# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whole PyTorch models for parameter_table.py: of transformers, torchvision and timm, built from a small configuration with random weights, and two
that are written here.

MODELS: name → function that returns (module, tuple of inputs).
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

from parameter_modules import Of, x2

MODELS = {}


def model(function):
    MODELS[function.__name__] = function
    return function


class Pick(nn.Module):
    def __init__(self, model, pick, **arguments):
        super().__init__()
        self.model, self.pick, self.arguments = model, pick, arguments

    def forward(self, *inputs):
        return self.pick(self.model, *inputs)


def ids(n=40, length=6):
    return (torch.randint(3, n, (2, length)),)


SMALL = dict(vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, max_position_embeddings=16)


def hugging(name, pick=lambda m, i: m(input_ids=i)[0], inputs=ids, extra=None, kind="", **options):
    def make():
        import transformers
        config = getattr(transformers, name + "Config")(**options)
        config._attn_implementation = "eager"
        for key, value in (extra or {}).items():
            setattr(config, key, value)
        m = getattr(transformers, name + (kind or "Model"))._from_config(config) if hasattr(getattr(transformers, name + (kind or "Model")), "_from_config") else getattr(transformers, name + (kind or "Model"))(config)
        return Pick(m.eval(), pick), inputs()
    return make


def image(size=32, channels=3):
    return lambda: (x2(2, channels, size, size),)


def pixels(m, i):
    return m(pixel_values=i)[0]


NOCACHE = dict(use_cache=False)
MODELS.update(
    bert=hugging("Bert", kind="ForSequenceClassification", **SMALL),
    distilbert=hugging("DistilBert", kind="ForSequenceClassification", vocab_size=40, dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=16),
    roberta=hugging("Roberta", kind="ForTokenClassification", **SMALL),
    albert=hugging("Albert", embedding_size=8, **SMALL),
    electra=hugging("Electra", embedding_size=8, **SMALL),
    deberta_v2=hugging("DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"], position_biased_input=False, **SMALL),
    mpnet=hugging("MPNet", **SMALL),
    gpt2=hugging("GPT2", kind="LMHeadModel", extra=NOCACHE, vocab_size=40, n_embd=16, n_layer=2, n_head=2, n_positions=16),
    gpt_neox=hugging("GPTNeoX", kind="ForCausalLM", extra=NOCACHE, **SMALL),
    llama=hugging("Llama", kind="ForCausalLM", extra=NOCACHE, num_key_value_heads=1, **SMALL),
    mistral=hugging("Mistral", kind="ForCausalLM", extra=NOCACHE, num_key_value_heads=1, **SMALL),
    qwen2=hugging("Qwen2", kind="ForCausalLM", extra=NOCACHE, num_key_value_heads=1, **SMALL),
    qwen3=hugging("Qwen3", kind="ForCausalLM", extra=NOCACHE, num_key_value_heads=1, head_dim=8, **SMALL),
    gemma=hugging("Gemma", kind="ForCausalLM", extra=NOCACHE, num_key_value_heads=1, head_dim=8, **SMALL),
    phi=hugging("Phi", kind="ForCausalLM", extra=NOCACHE, **SMALL),
    opt=hugging("OPT", extra=NOCACHE, vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, ffn_dim=24, max_position_embeddings=16, word_embed_proj_dim=16),
    bloom=hugging("Bloom", extra=NOCACHE, vocab_size=40, hidden_size=16, n_layer=2, n_head=2),
    mamba_model=hugging("Mamba", extra=NOCACHE, vocab_size=40, hidden_size=16, num_hidden_layers=1, state_size=4),
    t5_encoder=hugging("T5", kind="EncoderModel", vocab_size=40, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2),
    vit=hugging("ViT", kind="ForImageClassification", pick=pixels, inputs=image(), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=32, patch_size=8),
    deit=hugging("DeiT", kind="ForImageClassification", pick=pixels, inputs=image(), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=32, patch_size=8),
    beit=hugging("Beit", pick=pixels, inputs=image(), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=32, patch_size=8, use_relative_position_bias=True, use_absolute_position_embeddings=True),
    dinov2=hugging("Dinov2", pick=pixels, inputs=image(), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8),
    swin=hugging("Swin", kind="ForImageClassification", pick=pixels, inputs=image(), image_size=32, patch_size=4, embed_dim=8, depths=[2, 2], num_heads=[1, 2], window_size=4),
    swinv2=hugging("Swinv2", kind="ForImageClassification", pick=pixels, inputs=image(), image_size=32, patch_size=4, embed_dim=8, depths=[2], num_heads=[2], window_size=4),
    convnext=hugging("ConvNext", kind="ForImageClassification", pick=pixels, inputs=image(), hidden_sizes=[8, 12, 16, 20], depths=[1, 1, 1, 1]),
    segformer=hugging("Segformer", kind="ForSemanticSegmentation", pick=pixels, inputs=image(), num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16], num_attention_heads=[1, 2], patch_sizes=[7, 3], strides=[4, 2], mlp_ratios=[2, 2], decoder_hidden_size=8),
    mobilevit=hugging("MobileViT", kind="ForImageClassification", pick=pixels, inputs=image(64), image_size=64, hidden_sizes=[16, 20, 24], neck_hidden_sizes=[8, 8, 8, 12, 16, 20, 24], num_attention_heads=2, expand_ratio=2.0),
    whisper_encoder=hugging("Whisper", pick=lambda m, f: m.encoder(f)[0], inputs=lambda: (x2(2, 8, 32),), vocab_size=60, num_mel_bins=8, d_model=16, encoder_layers=2, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_source_positions=16, max_target_positions=16, pad_token_id=1, bos_token_id=2, eos_token_id=3, decoder_start_token_id=2),
    wav2vec2=hugging("Wav2Vec2", pick=lambda m, f: m(f)[0], inputs=lambda: (x2(2, 800),), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, conv_dim=(8, 8), conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2, num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, apply_spec_augment=False),
    clip=hugging("CLIP", pick=lambda m, i, p: m(input_ids=i, pixel_values=p).logits_per_image, inputs=lambda: ids() + image()(),
                 text_config=dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, vocab_size=40, max_position_embeddings=16, projection_dim=8, eos_token_id=2),
                 vision_config=dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8, projection_dim=8), projection_dim=8),
    bart=hugging("Bart", pick=lambda m, i: m(input_ids=i, decoder_input_ids=i)[0], extra=NOCACHE, vocab_size=40, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=16),
    detr=hugging("Detr", pick=lambda m, p: m(pixel_values=p).logits, kind="ForObjectDetection", inputs=image(64), use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, num_queries=5),
    time_series=hugging("PatchTST", pick=lambda m, x: m(past_values=x).prediction_outputs, kind="ForPrediction", inputs=lambda: (x2(2, 32, 3),), num_input_channels=3, context_length=32, patch_length=8, patch_stride=8, d_model=16, num_attention_heads=2, num_hidden_layers=1, ffn_dim=24, prediction_length=4),
)


def vision(name, size=32, **options):
    def make():
        import torchvision
        return getattr(torchvision.models, name)(num_classes=4, **options).eval(), (x2(2, 3, size, size),)
    return make


def timm_model(name, size=32, **options):
    def make():
        import timm
        return timm.create_model(name, pretrained=False, num_classes=4, **options).eval(), (x2(2, 3, size, size),)
    return make


MODELS.update(
    tv_resnet18=vision("resnet18"),
    tv_mobilenet_v3=vision("mobilenet_v3_small"),
    tv_efficientnet=vision("efficientnet_b0"),
    tv_regnet=vision("regnet_y_400mf"),
    tv_densenet=vision("densenet121"),
    tv_shufflenet=vision("shufflenet_v2_x0_5"),
    tv_squeezenet=vision("squeezenet1_1", 64),
    tv_vgg=vision("vgg11", 32),
    tv_convnext=vision("convnext_tiny"),
    tv_swin=vision("swin_t"),
    tv_maxvit=lambda: (__import__("torchvision").models.MaxVit(input_size=(64, 64), stem_channels=8, partition_size=2, block_channels=[8, 16], block_layers=[1, 1], head_dim=4, stochastic_depth_prob=0.0, num_classes=4).eval(), (x2(2, 3, 64, 64),)),
    timm_resnet10t=timm_model("resnet10t"),
    timm_vit_tiny=timm_model("vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=24, depth=2, num_heads=2),
    timm_convnextv2=timm_model("convnextv2_atto"),
    timm_mixer=timm_model("mixer_s32_224", 64, img_size=64),
    timm_xcit=timm_model("xcit_nano_12_p16_224", img_size=32, embed_dim=32, depth=2, num_heads=2),
    timm_cait=timm_model("cait_xxs24_224", img_size=32, embed_dim=24, depth=2, num_heads=2, patch_size=8),
    timm_levit=timm_model("levit_128s", 224),
    timm_eva=timm_model("eva02_tiny_patch14_224", 28, img_size=28, embed_dim=24, depth=2, num_heads=2),
    timm_resnet_blur=timm_model("resnetblur50", 64),
    timm_nfnet=timm_model("nf_resnet50", 64),
    timm_poolformer=timm_model("poolformer_s12", 64),
    timm_coat=timm_model("coat_lite_tiny", 64, img_size=64),
)


@model
def unet():
    def block(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.GroupNorm(2, b), nn.SiLU())
    def forward(s, x):
        a = s.d1(x)
        b = s.d2(F.max_pool2d(a, 2))
        c = s.d3(F.max_pool2d(b, 2))
        b = s.u2(torch.cat([s.t2(c), b], 1))
        return s.out(s.u1(torch.cat([F.interpolate(b, scale_factor=2, mode="bilinear"), a], 1)))
    return Of(forward, d1=block(3, 4), d2=block(4, 8), d3=block(8, 16), t2=nn.ConvTranspose2d(16, 8, 2, 2), u2=block(16, 8), u1=block(12, 4), out=nn.Conv2d(4, 2, 1)).eval(), (x2(2, 3, 16, 16),)


@model
def nano_gpt():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(16, bias=False), nn.LayerNorm(16)
            self.c_attn, self.c_proj = nn.Linear(16, 48), nn.Linear(16, 16)
            self.fc, self.proj = nn.Linear(16, 32), nn.Linear(32, 16)
            self.register_buffer("bias", torch.tril(torch.ones(8, 8)).view(1, 1, 8, 8))

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (y.view(b, t, 2, 8).transpose(1, 2) for y in self.c_attn(self.ln_1(x)).split(16, 2))
            a = (q @ k.transpose(2, 3) / math.sqrt(8)).masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf")).softmax(-1)
            x = x + self.c_proj((a @ v).transpose(1, 2).reshape(b, t, c))
            return x + self.proj(F.gelu(self.fc(self.ln_2(x))))
    wte, head = nn.Embedding(40, 16), nn.Linear(16, 40, bias=False)
    head.weight = wte.weight
    return Of(lambda s, i: s.head(s.ln(s.h(s.wte(i) + s.wpe(torch.arange(i.shape[1]))))), wte=wte, wpe=nn.Embedding(8, 16), h=nn.Sequential(Block(), Block()),
              ln=nn.LayerNorm(16), head=head), ids(40, 6)
