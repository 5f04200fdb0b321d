#!/usr/bin/env python3
"""Compares what `cleave convert` has exported with its origin, both loaded by Transformers.

    v/bin/python tests/golden/check_export.py ORIGINAL EXPORTED [--dtype bf16]

Every weight and the logits of a prompt must be equal, after rounding the original to bf16 where that is asked for.
"""

import sys

import torch
from transformers import AutoModelForCausalLM


def load(folder):
    model, report = AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", torch_dtype=torch.float32, output_loading_info=True)
    problems = {kind: names for kind, names in report.items() if names}
    assert not problems, f"{folder}: {problems}"
    return model.eval()


def main(original, exported, bf16):
    before, after = load(original), load(exported)
    if bf16:
        with torch.no_grad():  # the weights alone: rotary frequencies are no part of a file
            for parameter in before.parameters():
                parameter.copy_(parameter.bfloat16())
    weights, others = before.state_dict(), after.state_dict()
    assert weights.keys() == others.keys(), weights.keys() ^ others.keys()
    for name in weights:
        assert torch.equal(weights[name], others[name]), name
    tokens = torch.arange(12)[None] % before.config.vocab_size
    with torch.no_grad():
        a, b = before(tokens).logits, after(tokens).logits
    assert torch.equal(a, b), f"logits differ by {(a - b).abs().max()}"
    print(f"{exported}: {len(weights)} tensors and {a.numel()} logits are equal")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], "bf16" in sys.argv)
