# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A small tokenizer and processor with the special tokens and chat template of the published.

Byte-level BPE trained on a few sentences: every text can be written, and the sentences that a
robot's prompts share come out about as long as in the published vocabulary.
"""
from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Cosmos3EdgeImageProcessor,
    Cosmos3EdgeProcessor,
    Cosmos3EdgeVideoProcessor,
    PreTrainedTokenizerFast,
)

VOCABULARY = 512
EOS = (11, 2)       # of the generation config
SPECIAL = {
    0: '<unk>', 1: '<s>', 2: '</s>', 10: '<|im_start|>', 11: '<|im_end|>', 12: '<think>',
    13: '</think>', 18: '<|video_pad|>', 19: '<|image_pad|>', 20: '<|vision_start|>',
    21: '<|vision_end|>',
}
_CORPUS = (
    '{"cinematography": {"framing": "This video contains concatenated views from multiple camera '
    'perspectives. The top row is from the wrist-mounted camera. The bottom row contains two '
    'horizontally concatenated third-person perspective views of the scene from opposite sides, '
    'with the robot visible."}, "actions": [{"time": "0:00-0:02", "description": "Put the block '
    'into the bowl."}], "duration": "2s", "fps": 15.0, "resolution": {"H": 544, "W": 736}, '
    '"aspect_ratio": "4,3"}',
    'system user assistant What is on the table? Pick up the cube. Close the drawer.',
)
CHAT_TEMPLATE = """\
{%- macro write(content) -%}
{%- if content is string -%}{{ content }}{%- else -%}
{%- for part in content -%}
{%- if part.type == 'image' -%}<|vision_start|><|image_pad|><|vision_end|>
{%- elif part.type == 'video' -%}<|video_pad|>
{%- else -%}{{ part.text }}{%- endif -%}
{%- endfor -%}{%- endif -%}
{%- endmacro -%}
{{ '\\n' }}
{%- if messages[0].role != 'system' -%}{{ '<|im_start|>system\\n<|im_end|>\\n' }}{%- endif -%}
{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\\n' + write(message.content) + '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and not enable_thinking -%}<think></think>
{%- else -%}{{ '<think>\\n' }}{%- endif -%}
{%- endif -%}
"""


def random_tokenizer() -> PreTrainedTokenizerFast:
    """Train the tokenizer (some ms); ids up to 21 are special, the rest pieces of bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token=SPECIAL[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [SPECIAL.get(i, f'<reserved_{i}>') for i in range(max(SPECIAL) + 1)]
    tokenizer.train_from_iterator(_CORPUS, trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token=SPECIAL[0], bos_token=SPECIAL[1],
        eos_token=SPECIAL[11], pad_token=SPECIAL[0], chat_template=CHAT_TEMPLATE)


def random_processor() -> Cosmos3EdgeProcessor:
    """Tokenizer, picture and video processors as a checkpoint holds them."""
    tokenizer = random_tokenizer()
    tokenizer.init_kwargs['return_mm_token_type_ids'] = True
    return Cosmos3EdgeProcessor(
        image_processor=Cosmos3EdgeImageProcessor(),
        video_processor=Cosmos3EdgeVideoProcessor(return_metadata=True),
        tokenizer=tokenizer, chat_template=CHAT_TEMPLATE)
