# SPDX-License-Identifier: Apache-2.0
# With RESHARDFS_STATIC_LIBRARIES, the folder that package/static_libraries.sh has filled: the program and the
# Python module are linked with static libraries, so that they need only glibc of the system. How the sources
# are compiled stays the same.
set(RESHARDFS_STATIC_LIBRARIES "" CACHE PATH "Folder of static libraries, which the products are linked with")
if(NOT RESHARDFS_STATIC_LIBRARIES)
  return()
endif()

# link_static(NAME TARGET): TARGET stands for libNAME.a.
function(link_static name target)
  find_library(RESHARDFS_STATIC_${name} NAMES lib${name}.a HINTS ${RESHARDFS_STATIC_LIBRARIES} REQUIRED)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")  # of pkg-config
    set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES
                          "${RESHARDFS_STATIC_${name}};Threads::Threads")
    return()
  endif()
  get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
  foreach(configuration IN LISTS configurations)
    set_property(TARGET ${target} PROPERTY IMPORTED_LOCATION_${configuration} ${RESHARDFS_STATIC_${name}})
  endforeach()
  set_property(TARGET ${target} PROPERTY IMPORTED_LOCATION ${RESHARDFS_STATIC_${name}})
endfunction()

link_static(protobuf-lite protobuf::libprotobuf)
link_static(z ZLIB::ZLIB)
link_static(crypto OpenSSL::Crypto)
link_static(spdlog spdlog::spdlog)
link_static(fmt fmt::fmt)
link_static(fuse3 PkgConfig::fuse3)
link_static(expat PkgConfig::expat)
link_static(tomlplusplus PkgConfig::tomlplusplus)
link_static(utf8proc PkgConfig::utf8proc)
link_static(yaml-cpp PkgConfig::yaml_cpp)
link_static(xxhash PkgConfig::xxhash)
set(CMAKE_SKIP_BUILD_RPATH ON)
# No other library of the process can take a symbol of theirs for its own.
add_link_options(-static-libstdc++ -static-libgcc -Wl,--as-needed -Wl,--exclude-libs,ALL -Wl,--gc-sections)
