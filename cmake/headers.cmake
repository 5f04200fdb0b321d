# Precompiled headers: what nearly every file includes takes longer to read than most files take to compile. One is made
# for the rooms and one for the tests. A file must still include what it uses: the presets with clang (tidy, tsan, fuzz)
# compile without them.
#
#   cleave_headers(<name> HEADERS <header>... [OPTIONS <compile options>])   declares one
#   cleave_use_headers(<target> <name>)                                      its options must be those of <name>
#
# GCC takes a precompiled header only for the same code generation, so that all that use one are compiled with OpenMP.
option(CLEAVE_PRECOMPILED_HEADERS "precompile the headers that nearly every file includes" ON)

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
