# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Prompts to token ids, through the checkpoint's own tokenizer and chat template."""
from __future__ import annotations

from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from .config import CheckpointError


class PromptTokenizer:
    """Writes a prompt as the generation tower was trained to read it."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase):
        self._tokenizer = tokenizer
        start = tokenizer.convert_tokens_to_ids('<|vision_start|>')
        if tokenizer.eos_token_id is None or start in (None, tokenizer.unk_token_id):
            raise CheckpointError(
                f'{tokenizer.name_or_path}: no eos token or no <|vision_start|>; wanted both: '
                'tokenizer.json with tokenizer_config.json or special_tokens_map.json')
        self._suffix = [tokenizer.eos_token_id, start]

    @classmethod
    def from_folder(cls, folder: Path) -> PromptTokenizer:
        """Load from `text_tokenizer/`; raises CheckpointError when a file is missing."""
        for name in ('tokenizer.json', 'chat_template.jinja'):
            if not (folder / name).is_file():
                raise CheckpointError(f'{folder / name}: no such file; it is part of a checkpoint')
        return cls(AutoTokenizer.from_pretrained(folder, local_files_only=True))

    def encode(self, prompt: str) -> list[int]:
        """One user turn without a system prompt, then end of text and start of vision."""
        chat = self._tokenizer.apply_chat_template(
            [{'role': 'user', 'content': prompt}], tokenize=True, add_generation_prompt=True,
            add_vision_id=False, return_dict=True)
        return [*chat.input_ids, *self._suffix]
