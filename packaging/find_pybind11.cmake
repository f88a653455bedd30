# SPDX-License-Identifier: Apache-2.0
# What the Python module is compiled with, of the interpreter RESHARDFS_PYTHON: sets
# RESHARDFS_PYTHON_INCLUDE, RESHARDFS_PYTHON_SUFFIX and RESHARDFS_PYBIND11_INCLUDE, and
# RESHARDFS_PYTHON_MODULE_FOUND if all of it is there. pybind11's own package would look for an
# interpreter by itself, and take the first one on PATH.
set(RESHARDFS_PYTHON_MODULE_FOUND OFF)
execute_process(
  COMMAND ${RESHARDFS_PYTHON} -c "import sysconfig
print(sysconfig.get_path('include'), sysconfig.get_config_var('EXT_SUFFIX'), sep=';', end='')"
  OUTPUT_VARIABLE python_facts RESULT_VARIABLE python_failed ERROR_QUIET)
find_path(RESHARDFS_PYBIND11_INCLUDE pybind11/pybind11.h)
if(NOT python_failed AND RESHARDFS_PYBIND11_INCLUDE)
  list(GET python_facts 0 RESHARDFS_PYTHON_INCLUDE)
  list(GET python_facts 1 RESHARDFS_PYTHON_SUFFIX)
  if(EXISTS ${RESHARDFS_PYTHON_INCLUDE}/Python.h)
    set(RESHARDFS_PYTHON_MODULE_FOUND ON)
  endif()
endif()
