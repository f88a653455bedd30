# SPDX-License-Identifier: Apache-2.0
# Run by CPack on what it has staged: Debian wants manuals and changelogs compressed, and a
# copyright file in the documents of every package.
file(GLOB documents "${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/man/man?/*.?"
                    "${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/doc/reshardfs/CHANGELOG.md")
foreach(document IN LISTS documents)
  string(REPLACE "CHANGELOG.md" "changelog" plain "${document}")
  if(NOT plain STREQUAL document)
    file(RENAME "${document}" "${plain}")
  endif()
  # -n: no time stamp, so that the same sources give the same package.
  execute_process(COMMAND gzip -9nf "${plain}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()

foreach(package "runtime;reshardfs" "dev;libreshardfs-dev")
  list(GET package 0 component)
  list(GET package 1 name)
  if(IS_DIRECTORY "${CPACK_TEMPORARY_DIRECTORY}/${component}")
    file(COPY "${CMAKE_CURRENT_LIST_DIR}/copyright"
         DESTINATION "${CPACK_TEMPORARY_DIRECTORY}/${component}/usr/share/doc/${name}"
         FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  endif()
endforeach()
