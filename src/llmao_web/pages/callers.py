"""What a caller is told about a model: capabilities, privacy, licence, details.

Rule of this file: only what is listed here is told, so that nothing written for the fleet slips
out with `model_info`. No host, port, label, price or count of boxes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen

from llmao_core.config import Model
from llmao_core.records import Availability, ModelView

PRIVATE = "Private: your requests stay on our own machines."
EXTERNAL = "External: a model provider may process your requests."
UNKNOWN = "Unknown: nobody serves it at the moment."
_MODES = {
    "chat": "Chat",
    "completion": "Completion",
    "embedding": "Embeddings",
    "rerank": "Reranking",
}
_SUPPORTS = {
    "supports_function_calling": "Tools",
    "supports_tool_choice": "Tool choice",
    "supports_parallel_function_calling": "Parallel tools",
    "supports_response_schema": "Structured output",
    "supports_reasoning": "Reasoning",
    "supports_thinking": "Thinking",
    "supports_vision": "Vision",
    "supports_audio_input": "Audio input",
    "supports_audio_output": "Audio output",
    "supports_pdf_input": "PDF input",
    "supports_web_search": "Web search",
    "supports_prompt_caching": "Prompt caching",
    "supports_system_messages": "System messages",
}
_DETAILS = {
    "description": "Description",
    "languages": "Languages",
    "max_output_tokens": "Longest answer",
    "knowledge_cutoff": "Knowledge until",
    "parameters": "Parameters",
    "quantization": "Quantization",
}


@frozen
class About:
    """What stands under a model's name. chips, details: pairs of label and word."""

    chips: tuple[tuple[str, str], ...]
    privacy: str
    licence: str
    details: tuple[tuple[str, str], ...]


def about(view: ModelView, model: Model | None) -> About:
    """Return what a caller is told beside availability and context."""
    info = view.info
    return About(
        chips=tuple(_chips(info, model)),
        privacy=_privacy(view),
        licence=_word(info.get("license") or info.get("licence")),
        details=tuple(_details(info, model)),
    )


def _privacy(view: ModelView) -> str:
    callable_ = view.availability in (Availability.AVAILABLE, Availability.DEGRADED)
    if not view.keys and not callable_:
        return UNKNOWN
    return PRIVATE if view.private else EXTERNAL


def _chips(info: Mapping[str, Any], model: Model | None) -> Iterable[tuple[str, str]]:
    recipe = model.recipe if model else None
    mode = str(info.get("mode") or (recipe.mode if recipe else "chat"))
    if mode in _MODES:
        yield "Mode", _MODES[mode]
    if modality := _word(info.get("modality")):
        yield "Input", modality.replace("+", " + ")
    for name, word in _SUPPORTS.items():
        if info.get(name) is True:
            on = name == "supports_thinking" and info.get("thinks_by_default") is True
            yield "", f"{word}, on by default" if on else word


def _details(info: Mapping[str, Any], model: Model | None) -> Iterable[tuple[str, str]]:
    for name, label in _DETAILS.items():
        if word := _word(info.get(name)):
            yield label, word
    recipe = model.recipe if model else None
    # Weights from elsewhere than Hugging Face are named by a path or an address of ours.
    if recipe and (recipe.source is None or recipe.source.kind == "hf"):
        yield "Weights", recipe.model


def _word(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(str(each) for each in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return value if isinstance(value, str) else ""
