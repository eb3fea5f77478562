# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Slots: which is given, and what of it need not be read again."""
import random

import numpy as np

from cosmos3_ros.tasks.slots import Slots


def keys(*values):
    return np.array(values, np.int64)


def leave(slots, slot, *content):
    slots.hold(slot, keys(*content))
    slots.release(slot)


def test_lowest_free_slot_is_given():
    slots = Slots(3)
    grants = [slots.take(keys(1, 2)) for _ in range(4)]
    assert [grant and grant.slot for grant in grants] == [0, 1, 2, None]
    slots.release(2)
    slots.release(1)
    assert slots.take(keys(9, 9)).slot == 1


def test_common_start_is_kept_but_for_the_last_token():
    slots = Slots(1)
    slots.take(keys(1, 2, 3))
    leave(slots, 0, 1, 2, 3, 7, 8)
    assert slots.take(keys(1, 2, 3)).cached == 2
    leave(slots, 0, 1, 2, 3, 7, 8)
    assert slots.take(keys(1, 2, 5, 7, 8)).cached == 2
    leave(slots, 0, 1, 2)
    assert slots.take(keys(4, 1, 2)).cached == 0


def test_short_start_is_not_reused_where_that_is_not_worth_it():
    slots = Slots(2)
    slots.take(keys(1, 2, 3, 4))
    slots.hold(0, keys(1, 2, 3, 4))
    grant = slots.take(keys(1, 2, 3, 9), least=4)
    assert (grant.slot, grant.cached, grant.copies) == (1, 0, ())
    slots.hold(1, keys(1, 2, 3, 9))
    slots.release(1)
    assert slots.take(keys(1, 2, 3, 9, 9), least=4).cached == 4


def test_start_is_copied_from_a_slot_in_use():
    slots = Slots(2)
    slots.take(keys(1, 2, 3, 4))
    slots.hold(0, keys(1, 2, 3))
    grant = slots.take(keys(1, 2, 3, 4))
    assert (grant.slot, grant.cached) == (1, 3)
    assert [(c.source, c.target, c.count) for c in grant.copies] == [(0, 1, 3)]


def test_content_that_would_be_lost_moves_to_the_slot_unused_for_longest():
    slots = Slots(3)
    for prompt in ((1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4)):
        grant = slots.take(keys(*prompt))
        assert grant.slot == 0          # one stream: always the first row of the batch
        leave(slots, 0, *prompt)
    assert slots.take(keys(1, 1, 1)).cached == 0        # pushed out
    leave(slots, 0, 1, 1, 1)
    assert slots.take(keys(4, 4, 4)).cached == 2
    leave(slots, 0, 4, 4, 4)
    assert slots.take(keys(3, 3, 3)).cached == 0        # pushed out by the first of these


def test_copies_give_every_slot_what_it_is_said_to_hold():
    """Any order of questions, against a memory that only does the copies."""
    chance, slots, memory, used = random.Random(0), Slots(4), [[]] * 4, {}
    reused = 0
    for _ in range(500):
        if used and chance.random() < 0.5:
            slot = chance.choice(list(used))
            answer = [chance.randrange(3) for _ in range(chance.randrange(4))]
            memory[slot] = used.pop(slot) + answer
            leave(slots, slot, *memory[slot])
        prompt = [chance.randrange(2) for _ in range(chance.randrange(1, 12))]
        grant = slots.take(keys(*prompt))
        assert (grant is None) == (len(used) == 4)
        if grant is None:
            continue
        for copy in grant.copies:
            assert copy.target not in used
            memory[copy.target] = memory[copy.source][:copy.count] + memory[copy.target][
                copy.count:]
        assert grant.slot not in used
        assert memory[grant.slot][:grant.cached] == prompt[:grant.cached]
        assert grant.cached < len(prompt)
        reused += grant.cached
        memory[grant.slot] = used[grant.slot] = prompt
        slots.hold(grant.slot, keys(*prompt))
    assert reused > 300
