# SPDX-License-Identifier: Apache-2.0
# With RESHARDFS_PORTABLE, the folder that portable/parts.sh has filled: the target `portable` makes, in portable/
# of the build folder, the program, the engine as one library, and a Python module for each Python whose headers
# are there. They take the objects of the ordinary build, static libraries, and an older glibc to link with, so
# that they run with every glibc from 2.28 on, and need nothing else.
set(RESHARDFS_PORTABLE "" CACHE PATH "What portable packages are linked with (packaging/portable/parts.sh)")
if(NOT RESHARDFS_PORTABLE)
  return()
endif()

set(portable ${PROJECT_BINARY_DIR}/portable)
set(here ${CMAKE_CURRENT_LIST_DIR}/portable)
set(glibc ${RESHARDFS_PORTABLE}/glibc)
set(triple ${CMAKE_LIBRARY_ARCHITECTURE})
file(GLOB static_libraries ${RESHARDFS_PORTABLE}/lib/*.a)
# The linker takes what is asked for from any of them.
set(archives "-Wl,--start-group")
get_directory_property(layers DIRECTORY src DEFINITION RESHARDFS_LAYERS)
foreach(layer IN LISTS layers)
  list(APPEND archives $<TARGET_FILE:reshardfs_${layer}>)
  list(APPEND layer_targets reshardfs_${layer})
endforeach()
list(APPEND archives ${static_libraries} "-Wl,--end-group")

add_library(reshardfs_old_glibc OBJECT ${here}/old_glibc.cpp)
target_link_libraries(reshardfs_old_glibc PRIVATE reshardfs_flags)

add_custom_target(portable)

# add_portable(TARGET FOLDER): links it so, and refuses what a glibc 2.28 does not have.
function(add_portable target folder)
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${portable}/${folder} LIBRARY_OUTPUT_DIRECTORY ${portable}/${folder}
    SKIP_BUILD_RPATH ON LINKER_LANGUAGE CXX EXCLUDE_FROM_ALL ON)
  target_link_options(${target} PRIVATE
    --sysroot=${glibc} -B${glibc}/usr/lib/${triple} -L${glibc}/usr/lib/${triple} -L${glibc}/lib/${triple}
    -Wl,--wrap=pow -Wl,--as-needed -Wl,--gc-sections)
  target_link_libraries(${target} PRIVATE reshardfs_flags)
  add_dependencies(${target} ${layer_targets})
  add_custom_command(TARGET ${target} POST_BUILD VERBATIM
    COMMAND ${RESHARDFS_PYTHON} -B ${here}/check_symbols.py $<TARGET_FILE:${target}>)
  add_dependencies(portable ${target})
endfunction()

add_executable(portable_program ${PROJECT_SOURCE_DIR}/src/cli/main.cpp $<TARGET_OBJECTS:reshardfs_old_glibc>)
take_objects(portable_program ${RESHARDFS_WARM_LAYERS})
set_target_properties(portable_program PROPERTIES OUTPUT_NAME reshardfs)
target_include_directories(portable_program PRIVATE $<TARGET_PROPERTY:reshardfs_cli,INTERFACE_INCLUDE_DIRECTORIES>)
target_link_options(portable_program PRIVATE -static-libstdc++ -static-libgcc)
target_link_libraries(portable_program PRIVATE ${archives} -ldl -lpthread)
add_portable(portable_program bin)
# As beside an installed program.
file(MAKE_DIRECTORY ${portable}/share/reshardfs)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/config/maps ${portable}/share/reshardfs/maps SYMBOLIC)

# --- the Python modules and their engine -----------------------------------------------------------
file(GLOB pythons RELATIVE ${RESHARDFS_PORTABLE}/pythons ${RESHARDFS_PORTABLE}/pythons/3*)
if(NOT pythons OR NOT IS_DIRECTORY ${RESHARDFS_PORTABLE}/pybind11)
  return()
endif()
# add_objects(NAME SOURCES): of modules, without what a debugger reads: all products are stripped.
function(add_objects name)
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/python)
  target_link_libraries(${name} PRIVATE reshardfs_cli reshardfs_flags)
  target_compile_options(${name} PRIVATE -fvisibility=hidden -g0)
endfunction()

file(GLOB of_python CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/core/*.cpp)
# These know nothing of Python: each module has the same.
set(plain ${of_python})
list(FILTER plain INCLUDE REGEX "/(memory|opening|workers)\\.cpp$")
list(REMOVE_ITEM of_python ${plain})
add_objects(portable_objects ${plain})
set(module_objects $<TARGET_OBJECTS:portable_objects>)
foreach(python IN LISTS pythons)
  add_objects(portable_objects_${python} ${of_python})
  target_include_directories(portable_objects_${python} SYSTEM PRIVATE
    ${RESHARDFS_PORTABLE}/pybind11 ${RESHARDFS_PORTABLE}/pythons/${python})
  list(APPEND module_objects $<TARGET_OBJECTS:portable_objects_${python}>)
endforeach()

# The engine shows what the modules ask for, of the C++ library, too: an error that it throws is caught in a module, and
# both need the same functions for it. Their version keeps those of other libraries in the process apart.
set(symbols ${portable}/engine.ld)
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.a OUTPUT_VARIABLE cxx_library
                OUTPUT_STRIP_TRAILING_WHITESPACE)
list(FILTER archives EXCLUDE REGEX "^-Wl")
add_custom_command(OUTPUT ${symbols} VERBATIM COMMAND_EXPAND_LISTS
  COMMAND ${RESHARDFS_PYTHON} -B ${here}/engine_symbols.py --nm ${CMAKE_NM} --out ${symbols}
          --archives ${archives} ${cxx_library} --objects ${module_objects}
  DEPENDS ${here}/engine_symbols.py ${layer_targets} ${module_objects})
add_custom_target(portable_symbols DEPENDS ${symbols})
add_library(portable_engine SHARED $<TARGET_OBJECTS:reshardfs_old_glibc>)
add_dependencies(portable_engine portable_symbols)
set_target_properties(portable_engine PROPERTIES OUTPUT_NAME reshardfs_engine LINK_DEPENDS ${symbols})
target_link_options(portable_engine PRIVATE -static-libstdc++ -static-libgcc -Wl,-Bsymbolic -Wl,--no-undefined)
target_link_libraries(portable_engine PRIVATE ${symbols} -Wl,--start-group ${archives} -Wl,--end-group -ldl -lpthread)
add_portable(portable_engine lib)

foreach(python IN LISTS pythons)
  string(REPLACE "." "" short ${python})
  add_library(portable_module_${python} MODULE
              $<TARGET_OBJECTS:portable_objects_${python}> $<TARGET_OBJECTS:portable_objects>
              $<TARGET_OBJECTS:reshardfs_old_glibc>)
  set_target_properties(portable_module_${python} PROPERTIES
    PREFIX "" OUTPUT_NAME _core SUFFIX .cpython-${short}-${triple}.so LINK_DEPENDS ${PROJECT_SOURCE_DIR}/python/core/symbols.map
    LINK_FLAGS "-Wl,-rpath,'$ORIGIN/lib'")  # that word as it stands: CMake would escape it twice elsewhere
  target_link_options(portable_module_${python} PRIVATE -nodefaultlibs
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/python/core/symbols.map)
  target_link_libraries(portable_module_${python} PRIVATE $<TARGET_FILE:portable_engine>
    -lgcc_eh -lgcc -lm -ldl -lpthread -lc -lgcc)
  add_dependencies(portable_module_${python} portable_engine)
  add_portable(portable_module_${python} .)
endforeach()
