# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""A reasoner driven by hand, and the same questions asked of transformers."""
from concurrent.futures import Future

import numpy as np
from PIL import Image
import torch

from cosmos3_ros.model.processor import Video
from cosmos3_ros.tasks.question import Question
from cosmos3_ros.tasks.reason import Reasoner


def picture(seed, height=64, width=96):
    """Noise with a bright patch: no two are alike, and no two of its tokens."""
    values = np.random.default_rng(seed).integers(0, 200, (height, width, 3), dtype=np.uint8)
    values[:height // 3, :width // 2] += 50
    return values


def video(seed, frames=5, fps=2.0):
    return Video(np.stack([picture(seed + i) for i in range(frames)]), fps)


QUESTIONS = {
    'text': Question('Pick up the cube. What is on the table?', max_tokens=24),
    'no thinking': Question('Close the drawer.', thinking=False, max_tokens=24),
    'picture': Question('What is on the table?', (picture(1),), max_tokens=24),
    'three pictures': Question('Which has the cube?', (picture(2, 64, 64), picture(3, 128, 64),
                                                       picture(4, 96, 128)),
                               thinking=False, max_tokens=24),
    'video': Question('What happens?', videos=(video(10),), max_tokens=24),
}


class HandDriven:
    """A reasoner whose job is advanced by the test."""

    def __init__(self, model, **options):
        self.jobs = []
        self.reasoner = Reasoner(model, self._start, **{'length': 512} | options)

    def _start(self, job):
        self.jobs.append((job, Future()))
        return self.jobs[-1][1]

    def submit(self, question):
        return self.reasoner.submit(question)

    def advance(self, count=1):
        """Take steps; False when there was nothing to do."""
        with torch.inference_mode():
            return all(self._advance() for _ in range(count))

    def _advance(self):
        if not self.jobs:
            return False
        job, future = self.jobs[0]
        try:
            next(job)
        except StopIteration:
            self.jobs.pop(0)
            future.set_result(None)
        except Exception as error:
            self.jobs.pop(0)
            future.set_exception(error)
        return True

    def finish(self, *handles):
        """Run until nothing is open; the answers."""
        while self.advance():
            pass
        return [handle.result(0) for handle in handles]

    def ask(self, question):
        return self.finish(self.submit(question))[0]


def patches(model, span):
    """fp32 [rows * columns, values] of a picture or video frame."""
    if span.pixels.dtype == torch.uint8:
        return model.processor.cutter.patches(span.pixels[None])[0]
    return span.pixels


def reference_inputs(processor, question):
    """What transformers' own processor makes of a question."""
    content = [{'type': 'image', 'image': Image.fromarray(p)} for p in question.pictures]
    content += [{'type': 'video', 'video': v.frames} for v in question.videos]
    messages = [{'role': 'user', 'content': [*content, {'type': 'text', 'text': question.text}]}]
    if question.system:
        messages.insert(0, {'role': 'system',
                            'content': [{'type': 'text', 'text': question.system}]})
    metadata = [{'fps': v.fps, 'total_num_frames': len(v.frames)} for v in question.videos]
    return processor.apply_chat_template(
        messages, tokenize=True, add_generation_prompt=True, return_dict=True,
        return_tensors='pt', enable_thinking=question.thinking,
        processor_kwargs={'video_metadata': metadata} if metadata else {})
