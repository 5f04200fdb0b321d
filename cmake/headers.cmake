# Two ways to read headers less often. A file must still compile without either: the preset tsan does.
#
# Precompiled headers: what nearly every file includes takes longer to read than most files take to compile. One is made
# for the rooms and one for the tests.
#
# Joined files: several sources of a target are compiled as one, which takes half the time. So names in anonymous namespaces
# are unique in a folder; a test with many of its own has a namespace of its own.
#
#   cleave_headers(<name> HEADERS <header>... [OPTIONS <compile options>])   declares one
#   cleave_use_headers(<target> <name>)                                      its options must be those of <name>
#   cleave_join_files(<target>)                                              compiles its files several at a time
#
# GCC takes a precompiled header only for the same code generation, so that all that use one are compiled with OpenMP.
option(CLEAVE_PRECOMPILED_HEADERS "precompile the headers that nearly every file includes" ON)
option(CLEAVE_JOIN_FILES "compile several files at once" ON)

function(cleave_headers name)
  cmake_parse_arguments(ARG "" "" "HEADERS;OPTIONS;LIBRARIES" ${ARGN})
  file(WRITE ${PROJECT_BINARY_DIR}/${name}.cpp "")
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE cleave_flags fmt::fmt OpenMP::OpenMP_CXX ${ARG_LIBRARIES})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  if(CLEAVE_PRECOMPILED_HEADERS)
    target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
  endif()
endfunction()

function(cleave_use_headers target name)
  target_link_libraries(${target} PRIVATE OpenMP::OpenMP_CXX)
  if(CLEAVE_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

function(cleave_join_files target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${CLEAVE_JOIN_FILES} UNITY_BUILD_BATCH_SIZE 8)
  if(CLEAVE_JOIN_FILES AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC takes the joined files for headers, and GCC 12 sees strings written beyond their ends where none are.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage -Wno-array-bounds -Wno-stringop-overflow)
  endif()
endfunction()
