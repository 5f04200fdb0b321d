# The environment of every test, CLEAVE_TEST_ENVIRONMENT (a list of NAME=value), with what the chosen sanitizer needs.
set(suppressions ${PROJECT_SOURCE_DIR}/cmake/sanitizers)
# mpirun refuses root, which containers usually are, unless told twice.
# A team's threads sleep while they wait: where other programs share the machine, spinning ones make a rank with several
# threads ten times slower and more.
set(CLEAVE_TEST_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_WAIT_POLICY=passive)
if(CLEAVE_SANITIZE MATCHES "address")
  # No detect_stack_use_after_return: GCC 12 aligns the frames that it moves to the heap to 32 bytes, and AVX-512 registers
  # spilled there fault (GCC bug 110027).
  list(APPEND CLEAVE_TEST_ENVIRONMENT
    "ASAN_OPTIONS=detect_stack_use_after_return=0:strict_string_checks=1"
    "LSAN_OPTIONS=suppressions=${suppressions}/leaks.txt:print_suppressions=0"
    "UBSAN_OPTIONS=print_stacktrace=1")
elseif(CLEAVE_SANITIZE MATCHES "thread")
  # Archer tells the thread sanitizer what OpenMP's barriers and teams order.
  find_file(ARCHER_LIBRARY libarcher.so PATHS /usr/lib/llvm-14/lib REQUIRED)
  list(APPEND CLEAVE_TEST_ENVIRONMENT
    "TSAN_OPTIONS=suppressions=${suppressions}/threads.txt:second_deadlock_stack=1"
    "OMP_TOOL_LIBRARIES=${ARCHER_LIBRARY}")
endif()

# The MPI library unloads its plug-ins before the leak checker looks, so that what they keep cannot be suppressed by name.
# Cleave's own leaks show in the same tests on inproc.
set(CLEAVE_MPI_TEST_ENVIRONMENT ${CLEAVE_TEST_ENVIRONMENT})
list(TRANSFORM CLEAVE_MPI_TEST_ENVIRONMENT APPEND ":detect_leaks=0" REGEX "^ASAN_OPTIONS")
