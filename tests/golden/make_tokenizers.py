#!/usr/bin/env python3
"""Writes tests/golden/tokenizers: small tokenizers with the pre-tokenizers of well-known ones, trained here, and the ids
that the Hugging Face library `tokenizers` (0.21) gives to texts that are hard to cut.

    python3 tests/golden/make_tokenizers.py tests/golden/tokenizers

A development tool: building and testing Cleave needs neither Python nor this script. Bytes that are not UTF-8, which the
library does not take, have as golden ids those of the rule in src/train/bpe_encoder.h: the library's ids of the text before
and behind, and its model's ids of the run of such bytes written in the byte-level alphabet.
"""
import json
import pathlib
import random
import subprocess
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CL100K = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
LLAMA3 = CL100K % r"\p{N}{1,3}"
QWEN2 = CL100K % r"\p{N}"

ENGLISH = "In the beginning God created the heaven and the earth. It's what they're saying; we've DON'T, I'LL and you'd.\n"
CHINESE = "中文分词是自然语言处理的基础。他说：“你好，世界！”\n我们今天去北京大学参加会议，明天再回上海。\n"
EMOJI = "👍🏽 family 👨‍👩‍👧‍👦 flags 🇩🇪🇯🇵🇺🇳 heart ❤️ rainbow 🏳️‍🌈 keycap 1️⃣ 😀😀😀\n"
CODE = """def f(x):\n\tif x <= 0x1F and not self._a[i]:\n\t\treturn {"k": [1, 2.50, -3e-7]}  # ok\n\n\n    for (int i = 0; i < n; ++i) { a[i] += b[i] << 2; }\r\n\r\n\tstd::vector<std::string> v{"a", 'b'};\r\n"""

CASES = {
    "english": ENGLISH,
    "contractions": "it's IT'S it'S 's 'S don'T we'Ve they'RE I'm I'M he'D 'dx 'llama x'lly it'\u017f \u212a's o'clock''s",
    "chinese": CHINESE,
    "japanese, korean, hindi, thai, arabic": "日本語のテキスト カタカナ ｶﾀｶﾅ 한국어 텍스트 हिन्दी में पाठ ภาษาไทย اللغة العربية עברית",
    "emoji": EMOJI,
    "code": CODE,
    "spaces": "a b  c   d    e     \n f\n  g\n\n  \n\n\nh   ",
    "spaces only": "       ",
    "one space": " ",
    "line breaks": "a\nb\r\nc\rd\n\ne\r\n\r\nf \n g \r\n h\n\r\n",
    "tabs": "\ta\t\tb \t c\t ",
    "other white space": "a\u00a0b\u2003c\u3000d\u2028e\u2029f\u0085g\u200bh\u180ei\u1680j\ufeffk\u202fl\x0bm\x0cn\x1co\x1fp",
    "combining marks": "e\u0301 a\u0308\u0323 \u1e69 s\u0323\u0307 s\u0307\u0323 \u0344 \u212b \u2126 \uac00 \u1100\u1161\u11a8 \u0958 \ufb01 Zalgo\u0300\u0316\u0301\u0317",
    "marks after Unicode 9": "a\u0323\u08ca\u0301 a\u0300\u1abf\u0323 a\u0315\U0001e130\u0300 \U00011935\U00011930 \U00011938 \u1acea\u0301",
    "numbers": "1 12 123 1234 12345 1,234,567.89 3.14e-10 0x7f ½ ² Ⅷ ١٢٣ 一二三 1st 2nd 10km v2.0.1 2026-11-29",
    "punctuation": "!!! ... ?!? --- *** <<>> (a)[b]{c} a/b\\c @#$%^&*_+=~`| \"q\" «q» „q“ – — … § © ®",
    "punctuation and line breaks": "end.\n\nNext!\r\n}\n});\n\n// x ...\n",
    "special": "<|endoftext|>a<|endoftext|><|endoftext|> b <|im_start|>user\nhi<|im_end|>\n<|begin_of_text|>x<|end_of_text|><|eot_id|>",
    "nearly special": "<|endoftext|<|endoftext |> <|end<|endoftext|>of<|im_start <|im_start|><tool_call>x</tool_call> <tool_callX",
    "whole words": " tokenization tokenization xtokenization supercalifragilistic",
    "control characters": "\x00\x01\x02\x7f a\x00b",
    "letters after Unicode 14": "a\U0001e030b \U00031350\U0002ebf0 \ua7cb\u1c8a \U00010d4a \U00010d40\U00010d41",
    "long word": "a" * 700 + "é" * 150 + " " + "ab" * 300,
    "long number": "1234567890" * 30,
    "many spaces": " " * 300 + "x" + "\n" * 100 + "y" + " \n" * 50,
    "empty": "",
}

BROKEN = {
    "broken: one byte": b"ab\xffcd",
    "broken: cut character": "naïve".encode()[:3] + b" next " + "中".encode()[:2],
    "broken: continuation": b"\x80\x80 a \xbf",
    "broken: overlong": b"x\xc0\xafy\xe0\x80\xafz",
    "broken: surrogate": b"a\xed\xa0\x80b\xed\xb0\x80",
    "broken: beyond": b"\xf4\x90\x80\x80 \xf8\x88\x80\x80\x80",
    "broken: spaces around": b"a  \xfe  b\n\xff\n",
    "broken: special beside": b"\xe4<|endoftext|>\xb8\xad",
    "broken: all bytes": bytes(range(256)),
    "broken: Latin-1": "Größe für Käse, à la carte\r\n".encode("latin-1"),
}


def random_texts(count):
    """Strings over characters that patterns tell apart."""
    generator = random.Random(2026)
    alphabet = list("aZsStT'’dlmrvRV0 9  \n\r\t.,!-_(\"") + [
        "\u0301", "\u0323", "é", "中", "文", "の", "한", "😀", "\u200d", "\ufe0f", "🇩", "🇪", "\u00a0", "\u3000", "\u2028",
        "\u017f", "\u212a", "½", "Ⅷ", "١", "\u180e", "\u0344", "\U0001e130", "\u08ca", "<|endoftext|>", "<|im_end|>", "'s", "'LL"]
    return ["".join(generator.choice(alphabet) for _ in range(generator.randint(1, 60))) for _ in range(count)]


def training_text():
    bible = subprocess.run(["bible", "-f", "gen1:1-exo40:38"], input="", capture_output=True, text=True, check=True).stdout
    code = pathlib.Path(json.__file__).with_name("decoder.py").read_text()
    return [bible, code * 2] + [CHINESE * 20, EMOJI * 20, CODE * 20, ENGLISH * 20]


def special(text):
    return AddedToken(text, special=True, normalized=False)


def train(stages, size, tokens, normalizer=None, extra=()):
    tokenizer = Tokenizer(models.BPE())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = stages
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(training_text(), trainer)
    document = json.loads(tokenizer.to_str())
    for word in extra:  # tokens that no merge gives
        document["model"]["vocab"][word] = len(document["model"]["vocab"])
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.add_tokens(tokens)
    return tokenizer


def byte_level(use_regex, prefix=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False), byte_level(False)])


def make():
    gpt2 = train(byte_level(True), 2000, [AddedToken("<|endoftext|>", special=True, normalized=True)])
    gpt2.post_processor = processors.ByteLevel(trim_offsets=False)
    llama3 = train(split(LLAMA3), 1500, [special(t) for t in ("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|endoftext|>")],
                   extra=["Ġtokenization", "supercalifragilistic"])
    llama3.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", llama3.token_to_id("<|begin_of_text|>"))])
    document = json.loads(llama3.to_str())
    document["model"]["ignore_merges"] = True
    llama3 = Tokenizer.from_str(json.dumps(document))
    qwen2 = train(split(QWEN2), 1500, [special(t) for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")] + [
        AddedToken("<tool_call>", special=False, normalized=False), AddedToken("\u1e69!", special=False, normalized=True)], normalizers.NFC())
    digits = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True, prefix=True)])
    smollm2 = train(digits, 700, [special("<|endoftext|>"), special("<|im_start|>"), special("<|im_end|>")])
    return {"gpt2": gpt2, "llama3": llama3, "qwen2": qwen2, "smollm2": smollm2}


def file_text(name, tokenizer):
    document = json.loads(tokenizer.to_str())
    if name == "gpt2":  # as files were written before 2024
        document["model"]["merges"] = [" ".join(merge) for merge in document["model"]["merges"]]
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    assert Tokenizer.from_str(text).encode("check 123").ids == tokenizer.encode("check 123").ids
    return text


def byte_alphabet():
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}


ALPHABET = byte_alphabet()


def utf8_end(data, begin):
    """The end of the character at `begin`, or `begin` where there is none."""
    for end in range(begin + 1, min(begin + 5, len(data) + 1)):
        try:
            data[begin:end].decode("utf-8")
            return end
        except UnicodeDecodeError:
            pass
    return begin


def ids_of(tokenizer, data):
    """Runs of UTF-8 and of other bytes, one after the other."""
    ids, at = [], 0
    while at < len(data):
        end = at
        while end < len(data) and utf8_end(data, end) > end:
            end = utf8_end(data, end)
        ids += tokenizer.encode(data[at:end].decode("utf-8"), add_special_tokens=False).ids if end > at else []
        at = end
        while at < len(data) and utf8_end(data, at) == at:
            at += 1
        ids += [token.id for token in tokenizer.model.tokenize("".join(ALPHABET[b] for b in data[end:at]))] if at > end else []
    return ids


def digest(ids):
    value = 0
    for token in ids:
        value = (value * 31 + token + 1) % 2**64
    return f"{value:016x}"


def every_character(tokenizer):
    """How each character is cut from letters, spaces, digits and an apostrophe: for each 4096 code points a digest of the
    bytes of the words (tokens alone would not tell: no merge reaches over most characters)."""
    digests = {}
    for first in [*range(0, 0x20000, 4096), *range(0x2A000, 0x33000, 4096), 0xE0000]:
        characters = [chr(c) for c in range(first, first + 4096) if not 0xD800 <= c < 0xE000]
        text = "".join(f"a{c} {c}1'{c}\n{c}" for c in characters)
        digests[f"{first:x}"] = digest(len(word) for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text))
    return digests


def main(folder):
    tokenizers = make()
    texts = [(name, text.encode()) for name, text in CASES.items()] + list(BROKEN.items())
    texts += [(f"random {i}", text.encode()) for i, text in enumerate(random_texts(60))]
    cases = []
    for name, data in texts:
        case = {"name": name, "hex": data.hex()}
        for kind, tokenizer in tokenizers.items():
            case[kind] = ids_of(tokenizer, data)
        cases.append(case)
    for kind, tokenizer in tokenizers.items():
        (folder / f"{kind}.json").write_text(file_text(kind, tokenizer) + "\n")
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (folder / "cases.json").write_text("[\n" + lines + "\n]\n")
    every = {kind: every_character(tokenizers[kind]) for kind in ("gpt2", "llama3", "qwen2", "smollm2")}
    (folder / "every_character.json").write_text(json.dumps(every, indent=0) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
