# SPDX-License-Identifier: Apache-2.0
# Run by CPack on what it has staged: Debian wants manuals and changelogs compressed, and a
# changelog of its own and a copyright file in the documents of every package. Each package gets its bill of
# materials, too.
set(debian_dir ${CMAKE_CURRENT_LIST_DIR}/debian)
set(mode FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
# Of SOURCE_DATE_EPOCH, if that is set.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)

# bill_of_materials(component name file): of the products that the package has.
function(bill_of_materials component name file)
  set(words --version ${CPACK_PACKAGE_VERSION} --build ${CPACK_RESHARDFS_BUILD} --inside ${name})
  if(component STREQUAL "runtime")
    list(APPEND words --target bin/reshardfs --depends "${CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS}")
  elseif(component STREQUAL "python")
    file(GLOB module RELATIVE ${CPACK_RESHARDFS_BUILD} ${CPACK_RESHARDFS_BUILD}/python/reshardfs/_core*.so)
    list(APPEND words --target ${module} --depends "${CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS}")
  endif()
  execute_process(COMMAND ${CPACK_RESHARDFS_PYTHON} -B ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/package/sbom.py ${words} ${file}
                  COMMAND_ERROR_IS_FATAL ANY)
endfunction()

foreach(package "runtime;reshardfs" "dev;libreshardfs-dev" "python;python3-reshardfs")
  list(GET package 0 component)
  list(GET package 1 name)
  set(share "${CPACK_TEMPORARY_DIRECTORY}/${component}/usr/share")
  if(NOT IS_DIRECTORY "${CPACK_TEMPORARY_DIRECTORY}/${component}")
    continue()
  endif()
  file(COPY ${debian_dir}/copyright DESTINATION "${share}/doc/${name}" ${mode})
  configure_file(${debian_dir}/changelog.in "${share}/doc/${name}/changelog.Debian" @ONLY)
  if(EXISTS ${debian_dir}/${name}.lintian-overrides)
    file(COPY ${debian_dir}/${name}.lintian-overrides DESTINATION "${share}/lintian/overrides" ${mode})
    file(RENAME "${share}/lintian/overrides/${name}.lintian-overrides"
         "${share}/lintian/overrides/${name}")
  endif()
  # Nobody has an address until the packages are published; see RESHARDFS_MAINTAINER.
  if(CPACK_PACKAGE_CONTACT MATCHES "@localhost>")
    file(APPEND "${share}/lintian/overrides/${name}"
         "# Not published: who builds it for others names an address, as deb.sh says.\n"
         "${name}: bogus-mail-host *\n"
         "${name}: bogus-mail-host-in-debian-changelog *\n")
  endif()
  if(EXISTS "${share}/doc/${name}/CHANGELOG.md")
    file(RENAME "${share}/doc/${name}/CHANGELOG.md" "${share}/doc/${name}/changelog")
  endif()
  bill_of_materials(${component} ${name} "${share}/doc/${name}/${name}.spdx.json")
  file(REMOVE "${share}/doc/${name}/LICENSE")  # the copyright file names Debian's copy
  file(GLOB documents "${share}/man/man?/*.?" "${share}/doc/${name}/changelog*")
  foreach(document IN LISTS documents)
    # -n: no time stamp, so that the same sources give the same package.
    execute_process(COMMAND gzip -9nf "${document}" COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
endforeach()
