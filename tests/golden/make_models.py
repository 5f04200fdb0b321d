#!/usr/bin/env python3
"""Writes models/<family>/: a tiny model as Transformers saves it, and golden.safetensors, what PyTorch computes with it.

    python3 -m venv v && v/bin/pip install torch==2.6.0 transformers==4.53.3 safetensors numpy
    v/bin/python tests/golden/make_models.py

The files are committed; neither building nor testing needs this script. golden.safetensors holds
    tokens, labels          [steps, batch, time] i32; label -100 is not counted
    logits, loss            of the first step's batch, before any update
    gradient.<parameter>    of that loss
    norms                   the gradients' global norm of every step, before clipping
    parameter.<parameter>   after all steps of AdamW
everything in f32. types.safetensors holds the same values in every floating type and what they are in f32, and
rotary.safetensors the rotary frequencies of released models.
"""

import json
import pathlib

import torch
import transformers
from safetensors.torch import save_file
from transformers import GPT2Config, LlamaConfig, Qwen2Config, Qwen3Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

STEPS, BATCH, TIME, VOCABULARY = 5, 4, 16, 47
# As tests/golden/models_test.cpp has them. Epsilon is far above the rounding noise of gradients that are truly zero
# (GPT-2's key bias), which AdamW would otherwise blow up to the size of the learning rate.
ADAMW = dict(lr=1e-3, betas=(0.9, 0.99), eps=1e-4, weight_decay=0.1)
CLIP = 0.5
HERE = pathlib.Path(__file__).parent / "models"

llama = dict(vocab_size=VOCABULARY, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=4, max_position_embeddings=64, initializer_range=0.2, bos_token_id=None,
             eos_token_id=None)
llama3_scaling = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                      original_max_position_embeddings=64)
FAMILIES = {
    "gpt2": GPT2Config(vocab_size=VOCABULARY, n_positions=20, n_embd=24, n_layer=2, n_head=4, n_inner=40,
                       initializer_range=0.2, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0, bos_token_id=None,
                       eos_token_id=None),
    "llama2": LlamaConfig(**llama, rms_norm_eps=1e-5),
    # Waves of 6, 50 and 396 tokens: one stays, one is between, one is stretched.
    "llama3": LlamaConfig(**{**llama, "num_key_value_heads": 2, "max_position_embeddings": 512}, rms_norm_eps=1e-5,
                          rope_theta=500.0, rope_scaling=llama3_scaling),
    "smollm2": LlamaConfig(**{**llama, "num_attention_heads": 6, "num_key_value_heads": 2}, rope_theta=100000.0,
                           tie_word_embeddings=True),
    "qwen2": Qwen2Config(**{**llama, "num_key_value_heads": 2}, rope_theta=1e6, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**{**llama, "num_key_value_heads": 2}, head_dim=10, rope_theta=1e6),
}
SHARDED = {"smollm2": "20KB"}


def make_model(config):
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():  # gains and biases away from 1 and 0, so that each term counts
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.2 * torch.randn_like(parameter)
    return model.float().eval()


def loss_of(model, tokens, labels):
    logits = model(input_ids=tokens, use_cache=False).logits
    return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def optimizer_of(model):
    parameters = list(model.parameters())
    groups = [dict(params=[p for p in parameters if p.dim() > 1]),
              dict(params=[p for p in parameters if p.dim() == 1], weight_decay=0.0)]
    return torch.optim.AdamW(groups, **ADAMW)


def write_family(name, config):
    folder = HERE / name
    model = make_model(config)
    model.save_pretrained(folder, max_shard_size=SHARDED.get(name, "5GB"))
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokens = torch.randint(VOCABULARY, (STEPS, BATCH, TIME))
    labels = torch.randint(VOCABULARY, (STEPS, BATCH, TIME))
    labels[torch.rand(labels.shape) < 0.2] = -100
    golden = dict(tokens=tokens.int(), labels=labels.int())
    optimizer = optimizer_of(model)
    norms = []
    for step in range(STEPS):
        optimizer.zero_grad()
        logits, loss = loss_of(model, tokens[step], labels[step])
        loss.backward()
        if step == 0:
            golden.update(logits=logits.detach().clone(), loss=loss.detach().clone())
            golden.update({f"gradient.{n}": p.grad.clone() for n, p in model.named_parameters()})
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP))
        optimizer.step()
    golden.update(norms=torch.stack(norms))
    golden.update({f"parameter.{n}": p.detach().clone() for n, p in model.named_parameters()})
    save_file(golden, folder / "golden.safetensors")


def write_types():
    values = torch.cat([torch.randn(40, dtype=torch.float64), torch.randn(20, dtype=torch.float64) * 1e-6,
                        torch.tensor([0.0, -0.0, 1.0, 65504.0, 6e-8, float("inf"), -float("inf"), float("nan")],
                                     dtype=torch.float64)])
    tensors = {}
    for name, dtype in dict(F64=torch.float64, F32=torch.float32, F16=torch.float16, BF16=torch.bfloat16).items():
        tensors[name] = values.to(dtype)
        tensors[name + ".f32"] = tensors[name].float().clone()
    save_file(tensors, HERE / "types.safetensors")


def write_rotary():
    def scaled(factor):
        return dict(rope_type="llama3", factor=factor, low_freq_factor=1.0, high_freq_factor=4.0,
                    original_max_position_embeddings=8192)

    models = {  # head width, base, scaling
        "llama2": (128, 1e4, None), "llama3": (128, 5e5, None), "llama3_1": (128, 5e5, scaled(8.0)),
        "llama3_2": (64, 5e5, scaled(32.0)), "qwen": (128, 1e6, None), "smollm2": (64, 1e5, None)}
    frequencies = {}
    for name, (width, base, scaling) in models.items():
        config = LlamaConfig(hidden_size=width, num_attention_heads=1, rope_theta=base, rope_scaling=scaling,
                             max_position_embeddings=131072)
        frequencies[name] = ROPE_INIT_FUNCTIONS["llama3" if scaling else "default"](config, "cpu")[0]
    save_file(frequencies, HERE / "rotary.safetensors")


if __name__ == "__main__":
    torch.manual_seed(1)
    torch.set_num_threads(1)
    HERE.mkdir(exist_ok=True)
    for family, configuration in FAMILIES.items():
        write_family(family, configuration)
    write_types()
    write_rotary()
    for file in sorted(HERE.rglob("*")):
        if file.is_file():
            print(f"{file.stat().st_size:8} {file.relative_to(HERE)}")
