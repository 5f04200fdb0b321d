#!/usr/bin/env python3
"""Writes perplexity.json: the loss of the models in models/ on random tokens as Transformers computes it, in the sliding
windows of Hugging Face's guide to perplexity.

    python3 -m venv v && v/bin/pip install torch==2.6.0 transformers==4.53.3 safetensors numpy
    v/bin/python tests/golden/make_perplexity.py

The file is committed; neither building nor testing needs this script. The guide weighs a window's mean by its labels
less one; here it is weighed by the labels that the mean is of (only the first window loses one to the shift).
"""

import json
import pathlib

import torch
import transformers

HERE = pathlib.Path(__file__).parent
TOKENS, VOCABULARY = 90, 47


def windows(model, tokens, max_length, stride):
    total, count, previous_end = 0.0, 0, 0
    for begin in range(0, tokens.size(1), stride):
        end = min(begin + max_length, tokens.size(1))
        ids = tokens[:, begin:end]
        labels = ids.clone()
        labels[:, :previous_end - end] = -100
        counted = int((labels[:, 1:] != -100).sum())
        with torch.no_grad():
            total += model(ids, labels=labels).loss.double().item() * counted
        count += counted
        previous_end = end
        if end == tokens.size(1):
            break
    return total, count


torch.manual_seed(3)
torch.set_num_threads(1)
tokens = torch.randint(VOCABULARY, (1, TOKENS))
cases = []
for family, max_length, stride in [("gpt2", 20, 19), ("gpt2", 20, 7), ("gpt2", 12, 1), ("llama3", 33, 32),
                                   ("llama3", 33, 5), ("qwen3", 64, 20), ("qwen3", 64, 63)]:
    model = transformers.AutoModelForCausalLM.from_pretrained(HERE / "models" / family, attn_implementation="eager")
    total, count = windows(model.float().eval(), tokens, max_length, stride)
    cases.append(dict(model=family, context=max_length - 1, stride=stride, nats=total, predicted_tokens=count))
(HERE / "perplexity.json").write_text(json.dumps(dict(tokens=tokens[0].tolist(), cases=cases)) + "\n")
