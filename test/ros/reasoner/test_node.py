# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""The reasoner node as its clients see it, with a tiny random model."""
from dataclasses import replace
from functools import partial
import gc

from action_msgs.msg import GoalStatus
import numpy as np
from std_msgs.msg import Header

from engine_jobs import Gate
from waiting import quiet, wait_for

CAMERAS = ['wrist', 'exterior_left', 'exterior_right']
LONG = 3000     # tokens; the tiny model writes some hundred a second


def jpeg(name='', value=90, stamp=None):
    from cosmos3_ros.ros.images import compress
    header = Header(frame_id=name)
    header.stamp.sec = stamp or 0
    return compress(np.full((48, 80, 3), value, np.uint8), header)


def test_service_answers_about_cameras_and_pictures_with_their_names_and_stamps(desk):
    from cosmos3_ros.msg import Answer
    desk.node()
    desk.wait_for_pictures()
    before = desk.setup.cell.node.get_clock().now().nanoseconds
    answer = desk.ask(cameras=['exterior_left', 'wrist'], pictures=[jpeg('gripper', stamp=7)],
                      max_tokens=9)
    assert answer.error == '' and answer.finish_reason == Answer.LENGTH
    assert answer.completion_tokens == 9 and (answer.text or answer.thinking)
    assert answer.prompt_tokens > 100 and answer.time_to_first_token > 0
    assert answer.tokens_per_second > 0
    assert answer.picture_names == ['exterior_left', 'wrist', 'gripper']
    *taken, sent = (stamp.sec * 10**9 + stamp.nanosec for stamp in answer.picture_stamps)
    assert sent == 7 * 10**9
    assert all(abs(stamp - before) < 2 * 10**9 for stamp in taken)


def test_thinking_is_apart_and_off_when_not_wanted(desk):
    desk.node()
    assert desk.ask(thinking=True).thinking
    assert desk.ask(thinking=False).thinking == ''


def test_video_shows_the_last_seconds(desk):
    desk.node()
    desk.wait_for_pictures()
    node = desk.setup.cell.node
    start = node.get_clock().now().nanoseconds
    wait_for(lambda: node.get_clock().now().nanoseconds - start > 2.2e9)
    asked = node.get_clock().now().nanoseconds * 1e-9
    answer = desk.ask(cameras=['wrist'], video_seconds=2.0, max_tokens=2)
    assert answer.error == ''
    stamps = [stamp.sec + stamp.nanosec * 1e-9 for stamp in answer.picture_stamps]
    assert answer.picture_names == ['wrist'] * len(stamps)
    # 4 half seconds begin in 2 s; the picture of the last may be on its way, or one more be there
    assert 3 <= len(stamps) <= 5 and stamps[0] >= asked - 2.0
    assert all(0.3 < gap < 0.7 for gap in np.diff(stamps))


def all_came(feedback, answer):
    """Whether deltas are as long as the answer."""
    return sum(len(message.delta) for message in feedback) >= len(answer.text + answer.thinking)


def test_eight_goals_stream_together_whole_characters_only(desk):
    desk.node()
    sent = [desk.send_async(f'Question {i}', max_tokens=60, temperature=1.5, seed=i,
                            thinking=bool(i % 2)) for i in range(8)]
    for future, _ in sent:
        wait_for(future.done)
    for future, feedback in sent:
        status, answer = desk.ended(future.result())
        assert status == GoalStatus.STATUS_SUCCEEDED and answer.error == ''
        wait_for(partial(all_came, feedback, answer))       # some may come after the result
        text = ''.join(message.delta for message in feedback if not message.thinking)
        thinking = ''.join(message.delta for message in feedback if message.thinking)
        assert (text, thinking) == (answer.text, answer.thinking)   # a cut character would differ
        assert len(feedback) > 5
    ends = [feedback[0].completion_tokens for _, feedback in sent]
    assert max(ends) <= 8                                       # streamed, not sent at the end


def test_sixteen_asks_at_once_hold_up_neither_cancel_nor_cameras(desk):
    desk.node(question_slots=1)
    desk.wait_for_pictures()
    handle, feedback = desk.send(max_tokens=LONG)
    wait_for(lambda: feedback)
    asked = [desk.ask_async(f'Question {i}', max_tokens=2) for i in range(16)]
    assert len(desk.send('Last', max_tokens=2)[0].goal_id.uuid) == 16   # goals are still taken
    assert not any(future.done() for future in asked)
    wait_for(handle.cancel_goal_async().done)
    assert desk.ended(handle)[0] == GoalStatus.STATUS_CANCELED
    for future in asked:
        wait_for(future.done)
        assert future.result().answer.error == ''


def test_cancel_ends_within_a_token_and_frees_the_slot(desk):
    from cosmos3_ros.msg import Answer

    from cosmos3_ros.tasks.open_question import OpenQuestion
    desk.node(question_slots=1)
    handle, feedback = desk.send(max_tokens=LONG)
    wait_for(lambda: len(feedback) > 3)
    waiting, _ = desk.send('Next', max_tokens=3)
    with Gate(desk.setup.engine) as gate:
        assert quiet(feedback)
        steps, = [stream.steps for stream in gc.get_objects()      # feedback lags behind
                  if isinstance(stream, OpenQuestion) and stream.steps and not stream.ended]
        wait_for(handle.cancel_goal_async().done)
        assert quiet(feedback)              # the server has passed it on
        gate.release()
        status, answer = desk.ended(handle)
    assert status == GoalStatus.STATUS_CANCELED
    assert answer.finish_reason == Answer.CANCELLED
    # the first token comes before any step, and one step more may have begun
    assert feedback[-1].completion_tokens <= answer.completion_tokens <= steps + 2
    assert desk.ended(waiting)[0] == GoalStatus.STATUS_SUCCEEDED


def test_what_does_not_fit_is_an_error_that_says_which(desk):
    from cosmos3_ros.msg import Answer
    from sensor_msgs.msg import CompressedImage
    desk.setup.cell.frozen.add('exterior_right')
    desk.node(question_length=256)
    wait_for(lambda: not desk.ask(cameras=['wrist'], max_tokens=1).error)
    broken = CompressedImage(header=Header(frame_id='gripper'), format='jpeg', data=b'no picture')
    for fields, *said in (
            ({'text': ' '}, 'text: empty'),
            ({'cameras': ['left']}, "camera 'left' is unknown", 'exterior_left'),
            ({'cameras': ['exterior_right']}, 'exterior_right: no picture yet', '/image_raw'),
            ({'pictures': [broken]}, 'gripper: ', 'not a JPEG'),
            ({'max_tokens': 500}, 'up to 500 (max_tokens)', 'wanted at most 256'),
            ({'cameras': CAMERAS[:2], 'pictures': [jpeg('a'), jpeg('b')]}, 'wanted at most 256'),
            ({'pictures': [jpeg('a'), jpeg('a')]}, 'more than one is named a'),
            ({'cameras': ['wrist'], 'video_seconds': 60.0}, 'video_seconds: found 60.0', '10.0'),
            ({'video_seconds': 1.0}, 'without a camera'),
            ({'cameras': ['wrist'], 'video_seconds': float('nan')}, 'video_seconds: found nan'),
            ({'temperature': -1.0}, 'temperature: found -1.0'),
            ({'top_p': 2.0}, 'top_p: found 2.0')):
        answer = desk.ask(**fields)
        assert answer.finish_reason == Answer.ERROR and answer.text == '', fields
        assert all(words in answer.error for words in said), answer.error
        assert answer.completion_tokens == 0
    status, answer = desk.ended(desk.send(' ')[0])
    assert status == GoalStatus.STATUS_ABORTED
    assert answer.finish_reason == Answer.ERROR and 'text: empty' in answer.error


def test_camera_that_stopped_is_an_error(desk):
    desk.node(max_camera_age=0.5)
    desk.wait_for_pictures()
    desk.setup.cell.frozen.add('wrist')
    wait_for(lambda: 's old' in desk.ask(cameras=['wrist'], max_tokens=1).error)
    assert 'camera wrist: the newest is' in desk.ask(cameras=['wrist']).error
    assert desk.ask(cameras=['exterior_left'], max_tokens=1).error == ''


def test_inactive_node_takes_no_question(desk):
    node = desk.node()
    node.trigger_deactivate()
    assert 'not active' in desk.ask().error
    assert not desk.send()[0].accepted
    node.trigger_activate()
    assert desk.ask(max_tokens=1).error == ''


def test_deactivation_cancels_what_is_open(desk):
    from cosmos3_ros.msg import Answer
    node = desk.node()
    handle, feedback = desk.send(max_tokens=LONG)
    asked = desk.ask_async(max_tokens=LONG)
    wait_for(lambda: feedback and node._server.open == 2)
    node.trigger_deactivate()
    status, answer = desk.ended(handle)
    assert status == GoalStatus.STATUS_ABORTED and answer.finish_reason == Answer.CANCELLED
    assert 'deactivated' in answer.error and answer.completion_tokens > 0
    wait_for(asked.done)
    assert asked.result().answer.finish_reason == Answer.CANCELLED


def test_engine_that_closes_ends_the_question(desk):
    from cosmos3_ros.msg import Answer
    desk.node()
    handle, feedback = desk.send(max_tokens=LONG)
    wait_for(lambda: len(feedback) > 2)
    desk.setup.engine.close()
    status, answer = desk.ended(handle)
    assert status == GoalStatus.STATUS_ABORTED and answer.finish_reason == Answer.CANCELLED
    assert 'engine was closed' in answer.error
    assert answer.text + answer.thinking and answer.completion_tokens > 1   # what was written


def test_callback_of_another_node_may_ask(desk):
    """A node with one thread asks in its timer's callback and is served as it goes on."""
    from cosmos3_ros.msg import Question
    from cosmos3_ros.srv import Ask
    desk.node()
    answers = []

    def tick():
        request = Ask.Request(question=Question(text='Is the door open?', max_tokens=3))
        future = desk.service.call_async(request)
        future.add_done_callback(lambda done: answers.append(done.result().answer))

    timer = desk.setup.cell.node.create_timer(0.05, tick)
    wait_for(lambda: len(answers) > 3)
    timer.cancel()
    assert all(answer.completion_tokens == 3 for answer in answers)


def test_policy_and_reasoner_share_the_engine(desk):
    desk.setup.policy_node()
    desk.node()
    desk.setup.cell.say('pick')
    wait_for(lambda: desk.setup.cell.chunks)
    handle, feedback = desk.send(max_tokens=1000)
    wait_for(lambda: feedback)
    before = len(desk.setup.cell.chunks)
    status, answer = desk.ended(handle)
    assert status == GoalStatus.STATUS_SUCCEEDED and answer.completion_tokens > 100
    assert len(desk.setup.cell.chunks) > before + 1


def test_node_without_a_checkpoint_or_with_a_policy_one_says_so(desk, tiny):
    node = desk.node(start=False, checkpoint='')
    assert node.trigger_configure().name == 'FAILURE'
    wait_for(lambda: 'checkpoint is empty' in desk.setup.cell.status('reasoning')[1])
    assert desk.setup.cell.status('reasoning')[0] == 2
    desk.model = replace(tiny, vision=None)
    node = desk.node(start=False, checkpoint='droid')
    assert node.trigger_configure().name == 'FAILURE'
    wait_for(lambda: 'no vision_encoder/' in desk.setup.cell.status('reasoning')[1])


def test_diagnostics_count_questions(desk):
    desk.node()
    desk.ask(max_tokens=4)
    desk.ask(' ')
    desk.send(max_tokens=LONG)

    def values():
        return desk.setup.cell.status('reasoning')[2]

    wait_for(lambda: values().get('refused') == '1' and values().get('open') == '1')
    assert values()['answered'] == '1' and 'text: empty' in values()['last refusal']
    wait_for(lambda: float(values()['tokens per second']) > 1)
    assert float(values()['time to first token p50 (ms)']) > 0


def test_fp8_is_refused_on_a_cpu_with_the_reason(desk):
    node = desk.node(start=False, precision='fp8')
    assert node.trigger_configure().name == 'FAILURE'
    wait_for(lambda: 'found fp8 on a CPU' in desk.setup.cell.status('reasoning')[1])
