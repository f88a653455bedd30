# SPDX-License-Identifier: Apache-2.0
# Debian's compiler for RESHARDFS_MACHINE, with the headers of this system: those of the packages that
# ../packages.sh lists are the same for all machine types. Only what ../portable.cmake links is of that machine.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES RESHARDFS_MACHINE)
set(triple ${RESHARDFS_MACHINE}-linux-gnu)
set(CMAKE_C_COMPILER ${triple}-gcc)
set(CMAKE_CXX_COMPILER ${triple}-g++)
set(CMAKE_LIBRARY_ARCHITECTURE ${triple})
cmake_host_system_information(RESULT own QUERY OS_PLATFORM)
if(NOT own STREQUAL RESHARDFS_MACHINE)
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_SYSTEM_PROCESSOR ${RESHARDFS_MACHINE})
  # Packages of this system are found, so that its headers are; none of their libraries is linked.
  list(APPEND CMAKE_LIBRARY_PATH /usr/lib/${own}-linux-gnu)
  foreach(package IN ITEMS fmt spdlog)
    set(${package}_DIR /usr/lib/${own}-linux-gnu/cmake/${package} CACHE PATH "")
  endforeach()
  set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/${own}-linux-gnu/pkgconfig:/usr/share/pkgconfig)
  foreach(language C CXX)
    string(APPEND CMAKE_${language}_FLAGS_INIT " -idirafter /usr/include -idirafter /usr/include/${own}-linux-gnu")
  endforeach()
endif()
