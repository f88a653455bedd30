# SPDX-License-Identifier: Apache-2.0
if(sanitize)
  message("skipped: a library with sanitizers needs a program built with them")
  return()
endif()
file(REMOVE_RECURSE ${work_dir})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "exit code ${code}: ${command}")
  endif()
endfunction()

set(installed)
foreach(component runtime dev)
  run(${CMAKE_COMMAND} --install ${build_dir} --prefix ${work_dir}/prefix --component ${component})
  file(STRINGS ${build_dir}/install_manifest_${component}.txt manifest)
  list(APPEND installed ${manifest})
endforeach()

# By find_package(), from a copy of the example, so that nothing beside it can be found.
file(COPY ${source_dir}/project/ DESTINATION ${work_dir}/source)
run(${CMAKE_COMMAND} -G ${generator} -S ${work_dir}/source -B ${work_dir}/build
    -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_PREFIX_PATH=${work_dir}/prefix)
run(${CMAKE_COMMAND} --build ${work_dir}/build)
run(${work_dir}/build/first_bytes ${golden_dir}/tp4_to_tp8/src ${golden_dir}/tp4_to_tp8/src_strategy.ckpt)

# By pkg-config, and from where an installed tree was moved to. The mount helper is the program.
file(RENAME ${work_dir}/prefix ${work_dir}/moved)
run(${work_dir}/moved/bin/reshardfs --version)
file(GLOB_RECURSE helper ${work_dir}/moved/*/mount.reshardfs)
file(REAL_PATH "${helper}" helped)
if(NOT helped STREQUAL ${work_dir}/moved/bin/reshardfs)
  message(FATAL_ERROR "${helper} leads to ${helped}")
endif()
file(GLOB_RECURSE pc_files ${work_dir}/moved/*/reshardfs.pc)
cmake_path(GET pc_files PARENT_PATH pc_dir)
run(${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${pc_dir} sh -c
    "'${compiler}' -std=c++20 -o '${work_dir}/by_pkg_config' '${source_dir}/project/first_bytes.cpp' \
     $(pkg-config --cflags --libs reshardfs) -Wl,-rpath,$(pkg-config --variable=libdir reshardfs)")
run(${work_dir}/by_pkg_config ${golden_dir}/tp4_to_tp8/src ${golden_dir}/tp4_to_tp8/src_strategy.ckpt)

# What the manifest names is all that was installed.
file(RENAME ${work_dir}/moved ${work_dir}/prefix)
file(REMOVE ${installed})
file(GLOB_RECURSE left LIST_DIRECTORIES false ${work_dir}/prefix/*)
if(left OR NOT installed)
  message(FATAL_ERROR "not in the manifest, so that nobody can uninstall it: ${left}")
endif()
