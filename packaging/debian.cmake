# SPDX-License-Identifier: Apache-2.0
# Debian packages: reshardfs (program, library, manual), libreshardfs-dev and, if it is built,
# python3-reshardfs. Built by deb.sh.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME reshardfs)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_VERSION ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
# Empty: the first line of the description of each package is its summary.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
set(RESHARDFS_MAINTAINER "The reshardfs authors <reshardfs@localhost>"
    CACHE STRING "Who builds the Debian packages, as in \"Name <address>\"")
set(CPACK_PACKAGE_CONTACT "${RESHARDFS_MAINTAINER}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL runtime dev)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_SOURCE_DIR}/debian_documents.cmake)
set(CPACK_RESHARDFS_BUILD ${PROJECT_BINARY_DIR})
set(CPACK_RESHARDFS_PYTHON ${RESHARDFS_PYTHON})
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME reshardfs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
# Its sonames for other packages.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# dpkg-shlibdeps finds the libraries; fusermount3, a program, it cannot see, nor libcurl, which is loaded
# when the first URL is used.
set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS "fuse3, libcurl4")
set(debian_dir ${CMAKE_CURRENT_SOURCE_DIR}/debian)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA
    ${debian_dir}/postinst ${debian_dir}/prerm ${debian_dir}/postrm ${debian_dir}/triggers)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
"mounts a distributed checkpoint under another parallel strategy
reshardfs mounts a checkpoint that many ranks saved, of MindSpore or PyTorch,
and shows read-only the files that another parallel strategy would have.
Nothing is converted or copied: every byte is read from the source when a
program asks for it.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libreshardfs-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SOURCE reshardfs)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "reshardfs (= ${CPACK_DEBIAN_VERSION})")
set(CPACK_COMPONENT_DEV_DESCRIPTION
"reads distributed checkpoints under another strategy - development files
Headers, CMake package and pkg-config file of libreshardfs, the library below
reshardfs: open a checkpoint set under a strategy, and read any byte range of
the files that it would have.")
if(TARGET reshardfs_python)
  list(APPEND CPACK_COMPONENTS_ALL python)
  # The module is for this version of Python alone.
  execute_process(COMMAND ${RESHARDFS_PYTHON} -c "import sys
print(*sys.version_info[:2], sys.version_info[1] + 1, sep=';', end='')" OUTPUT_VARIABLE python_version)
  list(GET python_version 0 1 python_this)
  list(GET python_version 0 2 python_next)
  string(REPLACE ";" "." python_this "${python_this}")
  string(REPLACE ";" "." python_next "${python_next}")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-reshardfs)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SOURCE reshardfs)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS ON)
  # It runs the program for what it does not do itself, and loads libcurl as that does.
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= ${python_this}), python3 (<< ${python_next}), \
reshardfs (= ${CPACK_DEBIAN_VERSION}), libcurl4")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS python3-numpy)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "python3-torch, python3-fsspec")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA
      ${debian_dir}/python/postinst ${debian_dir}/python/prerm)
  set(CPACK_COMPONENT_PYTHON_DESCRIPTION
"reads distributed checkpoints under another strategy - Python module
A checkpoint that many ranks saved, as tensors for NumPy and PyTorch under
another parallel strategy, without a mount and without a conversion: what is
indexed is read, and nothing else.")
endif()
include(CPack)
