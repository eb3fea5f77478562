# Include folders of one machine's Python must not pass to another. The ROS 2 wheels on PyPI
# export those of the machine that built them, and CMake refuses folders that do not exist.

# Drops absolute folders that do not exist from every imported target.
function(drop_missing_include_dirs)
  get_property(_targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(_target IN LISTS _targets)
    get_target_property(_dirs ${_target} INTERFACE_INCLUDE_DIRECTORIES)
    if(NOT _dirs)
      continue()
    endif()
    set(_kept)
    foreach(_dir IN LISTS _dirs)
      if(NOT IS_ABSOLUTE "${_dir}" OR EXISTS "${_dir}")
        list(APPEND _kept "${_dir}")
      endif()
    endforeach()
    set_target_properties(${_target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_kept}")
  endforeach()
endfunction()

# Keeps absolute folders out of what the target exports. CMake also refuses to export a folder
# inside the source tree, where a virtual environment's NumPy may lie.
function(hide_local_include_dirs target)
  get_target_property(_dirs ${target} INTERFACE_INCLUDE_DIRECTORIES)
  list(TRANSFORM _dirs REPLACE "^(/.*)$" "$<BUILD_INTERFACE:\\1>")
  set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_dirs}")
endfunction()
