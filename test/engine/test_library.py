# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Models that several nodes of a process ask for."""

import gc
import threading
import weakref

import pytest
import torch

from cosmos3_ros.engine import library as library_module
from cosmos3_ros.engine.library import ModelLibrary
from cosmos3_ros.model.config import CheckpointError
from engine_jobs import SOON, Gate, steps, still_works

TINY, DROID = 'random:tiny', 'random:tiny-droid'


@pytest.fixture
def library(engine):
    return ModelLibrary(engine)


def model_of(future):
    return future.result(SOON)


def tensors(model):
    return {**model.transformer.state_dict(prefix='transformer.'),
            **model.vae.module.state_dict(prefix='vae.')}


def places(model):
    return {tensor.data_ptr() for tensor in tensors(model).values()}


@pytest.fixture
def loads(monkeypatch):
    """References in the order in which a load of them began."""
    loads, loading = [], library_module.loading

    def watched(checkpoint, *arguments):
        loads.append(checkpoint.name)
        return (yield from loading(checkpoint, *arguments))

    monkeypatch.setattr(library_module, 'loading', watched)
    return loads


def test_a_model_that_is_held_is_not_loaded_again(library, loads):
    first = model_of(library.acquire(TINY, torch.float32))
    assert model_of(library.acquire(TINY, torch.float32)) is first
    assert loads == [TINY]


def test_two_who_ask_at_once_get_one_model_from_one_load(library, loads):
    together, futures = threading.Barrier(2), []

    def ask():
        together.wait(SOON)
        futures.append(library.acquire(TINY, torch.float32))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    first, second = map(model_of, futures)
    assert first is second
    assert loads == [TINY]


def test_another_compute_type_is_another_model(library):
    single = model_of(library.acquire(TINY, torch.float32))
    half = model_of(library.acquire(TINY, torch.bfloat16))
    assert (single.dtype, half.dtype) == (torch.float32, torch.bfloat16)
    assert next(half.vae.module.parameters()).dtype == torch.bfloat16


def test_a_dropped_model_is_freed_and_loaded_anew(engine, library, loads):
    future = library.acquire(TINY, torch.float32)
    model = model_of(future)
    kept = weakref.ref(model)
    kept_tensors = [weakref.ref(tensor) for tensor in (*model.transformer.parameters(),
                                                       *model.vae.module.parameters())]
    assert still_works(engine)
    del future, model
    assert kept() is None
    gc.collect()
    assert {ref() for ref in kept_tensors} == {None}
    assert model_of(library.acquire(TINY, torch.float32)).name == TINY
    assert loads == [TINY, TINY]


@pytest.mark.parametrize('at_once', [False, True])
def test_a_policy_checkpoint_shares_what_it_has_in_common_with_its_base(library, at_once):
    """The two differ in the generation tower, so each also has tensors of its own."""
    base = library.acquire(TINY, torch.float32)
    if not at_once:
        model_of(base)
    policy = tensors(model_of(library.acquire(DROID, torch.float32)))
    base = tensors(model_of(base))
    equal = {name for name in base if torch.equal(base[name], policy[name])}
    shared = {name for name in base if base[name].data_ptr() == policy[name].data_ptr()}
    assert shared == equal
    assert {name for name in base if name.startswith('vae.')} < equal < base.keys()


def test_shared_tensors_outlive_the_model_that_brought_them(library):
    base, policy = (library.acquire(reference, torch.float32) for reference in (TINY, DROID))
    before = {name: tensor.clone() for name, tensor in tensors(model_of(policy)).items()}
    assert places(model_of(base)) & places(model_of(policy))
    del base
    after = tensors(model_of(policy))
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize('reference', ['random:huge', '/no/such/folder'])
def test_a_bad_reference_fails_alone(engine, library, reference):
    before = library.acquire(TINY, torch.float32)
    with pytest.raises(CheckpointError, match=reference):
        library.acquire(reference, torch.float32)
    after = library.acquire(DROID, torch.float32)
    assert (model_of(before).name, model_of(after).name) == (TINY, DROID)
    assert still_works(engine)


def test_a_cancelled_load_makes_room_for_the_next(engine, library, monkeypatch):
    """Cancelled in the middle, while another waits for its turn."""
    begun, closed = threading.Event(), threading.Event()
    loading = library_module.loading

    def endless(*_):
        begun.set()
        try:
            while True:
                yield
        finally:
            closed.set()

    monkeypatch.setattr(library_module, 'loading', endless)
    first = library.acquire(TINY, torch.float32)
    assert begun.wait(SOON)
    monkeypatch.setattr(library_module, 'loading', loading)
    second, third = (library.acquire(TINY, torch.float32) for _ in range(2))
    assert third.cancel()
    assert still_works(engine)
    assert not second.done()
    assert first.cancel()
    assert model_of(second).name == TINY
    assert closed.is_set()


def test_other_jobs_advance_while_a_model_loads(engine, library):
    order = []

    def other():
        for step in range(10):
            order.append('other')
            if step == 5:
                engine.submit(steps(2, log=order, name='urgent'), deadline=1e12)
            yield

    with Gate(engine, task='gate'):     # whose time counts for neither of the two
        model = library.acquire(TINY, torch.float32)
        model.add_done_callback(lambda _: order.append('loaded'))
        future = engine.submit(other())
    model_of(model), future.result(SOON)
    assert order == ['other'] * 6 + ['urgent'] * 2 + ['other'] * 4 + ['loaded']
