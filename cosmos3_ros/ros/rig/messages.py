# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of the rig: pictures, camera calibration, joint states, trajectories."""
from array import array

from builtin_interfaces.msg import Time
import cv2
import numpy as np
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, JointState
from std_msgs.msg import Header
from trajectory_msgs.msg import JointTrajectory

from cosmos3_ros.rig.controller import Point
from cosmos3_ros.rig.simulation import JOINTS, JointReading


def seconds(moment) -> float:
    """Return a Time or Duration message in seconds."""
    return moment.sec + moment.nanosec * 1e-9


def stamp(nanoseconds: int) -> Time:
    """Return nanoseconds as a Time message."""
    return Time(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)


def image(rgb: np.ndarray, header: Header) -> Image:
    """Return uint8 [H, W, 3] RGB as rgb8."""
    height, width = rgb.shape[:2]
    return Image(header=header, height=height, width=width, encoding='rgb8', step=3 * width,
                 data=array('B', rgb.tobytes()))


def compressed(rgb: np.ndarray, header: Header, quality: int) -> CompressedImage:
    """Return uint8 [H, W, 3] RGB as JPEG, format as image_transport writes it."""
    bgr = cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR)
    _, data = cv2.imencode('.jpg', bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])
    return CompressedImage(header=header, format='rgb8; jpeg compressed bgr8',
                           data=array('B', data.tobytes()))


def camera_info(matrix: np.ndarray, width: int, height: int, header: Header) -> CameraInfo:
    """Return an ideal pinhole camera; matrix: K, [3, 3] in pixels."""
    projection = np.hstack([matrix, np.zeros((3, 1))])
    return CameraInfo(header=header, width=width, height=height, distortion_model='plumb_bob',
                      d=[0.0] * 5, k=matrix.ravel(), r=np.eye(3).ravel(), p=projection.ravel())


def joint_state(reading: JointReading, moment: Time) -> JointState:
    """Return all joints of the cell: rad, rad/s, N m."""
    return JointState(header=Header(stamp=moment), name=list(JOINTS),
                      position=reading.positions.tolist(), velocity=reading.velocities.tolist(),
                      effort=reading.efforts.tolist())


def trajectory(message: JointTrajectory) -> tuple[list[Point], float | None]:
    """Return the points and the start in seconds, None for a zero stamp (now)."""
    points = [Point(seconds(point.time_from_start), point.positions, point.velocities)
              for point in message.points]
    return points, seconds(message.header.stamp) or None
