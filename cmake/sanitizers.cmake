# What the chosen sanitizer needs around the tests: CLEAVE_TEST_ENVIRONMENT, a list of NAME=value.
set(suppressions ${PROJECT_SOURCE_DIR}/cmake/sanitizers)
set(CLEAVE_TEST_ENVIRONMENT "")
if(CLEAVE_SANITIZE MATCHES "address")
  list(APPEND CLEAVE_TEST_ENVIRONMENT
    "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1"
    "LSAN_OPTIONS=suppressions=${suppressions}/leaks.txt:print_suppressions=0"
    "UBSAN_OPTIONS=print_stacktrace=1")
elseif(CLEAVE_SANITIZE MATCHES "thread")
  # Archer tells the thread sanitizer what OpenMP's barriers and teams order.
  find_file(ARCHER_LIBRARY libarcher.so PATHS /usr/lib/llvm-14/lib REQUIRED)
  list(APPEND CLEAVE_TEST_ENVIRONMENT
    "TSAN_OPTIONS=suppressions=${suppressions}/threads.txt:second_deadlock_stack=1"
    "OMP_TOOL_LIBRARIES=${ARCHER_LIBRARY}")
endif()
