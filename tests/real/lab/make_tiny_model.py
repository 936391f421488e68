"""Makes a tiny Llama with random weights, enough for a real vLLM to load and to chat.

Writes the five files of a model folder directly, so neither torch nor a download is needed:
0.1 million parameters, one token per byte. It answers small letters and blanks and never ends by
itself, so that `max_tokens` alone says how long a request lasts.

Run by hand: `python make_tiny_model.py FOLDER`.
"""

import hashlib
import json
import struct
import sys
from pathlib import Path

_SPECIAL = ("<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
_BOS, _EOS = 0, 1
_VOCABULARY = len(_SPECIAL) + 256
_HIDDEN, _INNER, _LAYERS, _HEADS = 64, 128, 2, 2
_LENGTH = 2048
_SPREAD = 0.08
_SPOKEN = frozenset(b"abcdefghijklmnopqrstuvwxyz ")

_CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{%- for message in messages -%}"
    "{{ '<|' + message.role + '|>' }}{{ message.content }}{{ eos_token }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}"
)


def _byte_letters() -> list[str]:
    """Return the printable letter that byte-level tokenizers write for each of the 256 bytes.

    Visible Latin-1 characters stand for themselves, all others for the letters from U+0100 on.
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(spare)) for byte in range(256)]


def _tokenizer() -> dict[str, object]:
    """Return a byte-pair tokenizer without pairs: every byte is a token."""
    letters = enumerate(_byte_letters(), start=len(_SPECIAL))
    special = {text: number for number, text in enumerate(_SPECIAL)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": number, "content": text, "special": True, **flags}
            for text, number in special.items()
        ],
        "pre_tokenizer": {**byte_level, "trim_offsets": True},
        "decoder": {**byte_level, "trim_offsets": True},
        "model": {
            "type": "BPE",
            "vocab": {**special, **{letter: number for number, letter in letters}},
            "merges": [],
        },
    }


def _tokenizer_config() -> dict[str, object]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": _SPECIAL[_BOS],
        "eos_token": _SPECIAL[_EOS],
        "pad_token": _SPECIAL[_EOS],
        "model_max_length": _LENGTH,
        "clean_up_tokenization_spaces": False,
        "chat_template": _CHAT_TEMPLATE,
    }


def _config() -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": _VOCABULARY,
        "hidden_size": _HIDDEN,
        "intermediate_size": _INNER,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _HEADS,
        "max_position_embeddings": _LENGTH,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "bos_token_id": _BOS,
        "eos_token_id": _EOS,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }


def _shapes() -> dict[str, tuple[int, ...]]:
    """Return the name and shape of every tensor of the model."""
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (_VOCABULARY, _HIDDEN),
        "model.norm.weight": (_HIDDEN,),
        "lm_head.weight": (_VOCABULARY, _HIDDEN),
    }
    for layer in range(_LAYERS):
        at = f"model.layers.{layer}"
        for part in ("q", "k", "v", "o"):
            shapes[f"{at}.self_attn.{part}_proj.weight"] = (_HIDDEN, _HIDDEN)
        shapes[f"{at}.mlp.gate_proj.weight"] = (_INNER, _HIDDEN)
        shapes[f"{at}.mlp.up_proj.weight"] = (_INNER, _HIDDEN)
        shapes[f"{at}.mlp.down_proj.weight"] = (_HIDDEN, _INNER)
        shapes[f"{at}.input_layernorm.weight"] = (_HIDDEN,)
        shapes[f"{at}.post_attention_layernorm.weight"] = (_HIDDEN,)
    return shapes


def _bfloat16(value: float) -> bytes:
    """Return the upper half of a single-precision number, which is what bfloat16 is."""
    return struct.pack("<f", value)[2:]


def _first_column(name: str) -> list[float] | None:
    """Return the first column of a tensor that has a chosen one.

    Every embedding begins with a large 1, which survives to the end; the last tensor turns it
    into a vote for the spoken tokens and against all others, the end of text included.
    """
    if name == "model.embed_tokens.weight":
        return [1.0] * _VOCABULARY
    if name == "lm_head.weight":
        tokens = range(-len(_SPECIAL), 256)
        return [1.0 if token in _SPOKEN else -1.0 for token in tokens]
    return None


def _weights(name: str, shape: tuple[int, ...]) -> bytes:
    """Return a tensor's bytes: ones for a norm, else noise that its name alone determines."""
    if len(shape) == 1:
        return _bfloat16(1.0) * shape[0]
    rows, width = shape
    table = [_bfloat16(_SPREAD * (2 * step / 255 - 1)) for step in range(256)]
    noise = [table[step] for step in hashlib.shake_256(name.encode()).digest(rows * width)]
    for row, value in enumerate(_first_column(name) or ()):
        noise[row * width] = _bfloat16(value)
    return b"".join(noise)


def _safetensors() -> bytes:
    """Return the weights file: the header's length, the header as JSON, the tensors."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    tensors = b""
    for name, shape in _shapes().items():
        data = _weights(name, shape)
        span = [len(tensors), len(tensors) + len(data)]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": span}
        tensors += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # readers map the tensors into memory, aligned
    return struct.pack("<Q", len(text)) + text + tensors


def make(folder: Path) -> None:
    """Write the model into the folder; the same bytes every time."""
    folder.mkdir(parents=True, exist_ok=True)
    documents = {
        "config.json": _config(),
        "generation_config.json": {"bos_token_id": _BOS, "eos_token_id": _EOS},
        "tokenizer.json": _tokenizer(),
        "tokenizer_config.json": _tokenizer_config(),
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document, indent=1) + "\n")
    (folder / "model.safetensors").write_bytes(_safetensors())


if __name__ == "__main__":
    make(Path(sys.argv[1]))
