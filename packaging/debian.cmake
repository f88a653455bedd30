# SPDX-License-Identifier: Apache-2.0
# Two Debian packages: reshardfs (program, library, manual) and libreshardfs-dev. Built by deb.sh.
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
reshardfs mounts a MindSpore checkpoint that many ranks saved, and shows
read-only the files that another parallel strategy would have. Nothing is
converted or copied: every byte is read from the source when it is asked for.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libreshardfs-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SOURCE reshardfs)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "reshardfs (= ${CPACK_DEBIAN_VERSION})")
set(CPACK_COMPONENT_DEV_DESCRIPTION
"reads distributed checkpoints under another strategy - development files
Headers, CMake package and pkg-config file of libreshardfs, the library below
reshardfs: open a checkpoint set under a strategy, and read any byte range of
the files that it would have.")
include(CPack)
