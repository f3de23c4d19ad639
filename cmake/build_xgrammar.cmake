# Builds xgrammar's static library from ARCHIVE into ROOT, with the compiler CXX; does nothing when it is there. A script
# and not an ExternalProject, because the steps of that are remembered by each build folder: every preset would unpack and
# compile again. Two builds at a time wait for each other.
get_filename_component(parent "${ROOT}" DIRECTORY)
file(MAKE_DIRECTORY "${parent}")
file(LOCK "${parent}/lock" GUARD PROCESS)
set(library "${ROOT}/lib/libxgrammar.a")
if(EXISTS "${library}")
  file(TOUCH_NOCREATE "${library}")
  return()
endif()

set(work "${ROOT}.work")
file(REMOVE_RECURSE "${work}")
file(ARCHIVE_EXTRACT INPUT "${ARCHIVE}" DESTINATION "${work}/unpacked")
file(GLOB unpacked "${work}/unpacked/*")
file(RENAME "${unpacked}" "${work}/src")
# xgrammar reads this file before anything else and sets plain variables in it, so options of the command line would lose.
file(WRITE "${work}/build/config.cmake"
     "set(XGRAMMAR_BUILD_PYTHON_BINDINGS OFF)\nset(XGRAMMAR_BUILD_CXX_TESTS OFF)\n")
set(launcher)
if(LAUNCHER)
  set(launcher "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}")
endif()

# Half of the cores, since minim itself is compiled beside it, and a job for every 2 GB that are free.
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
cmake_host_system_information(RESULT free QUERY AVAILABLE_PHYSICAL_MEMORY)
math(EXPR jobs "(${cores} + 1) / 2")
math(EXPR fitting "${free} / 2000")
if(fitting LESS jobs)
  set(jobs ${fitting})
endif()
if(jobs LESS 1)
  set(jobs 1)
endif()

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "xgrammar does not build (MINIM_XGRAMMAR=OFF builds minim without it):\n${output}")
  endif()
endfunction()
# Its own flags hold -Werror and -flto=auto, whose objects only g++ can link; ours come last and win. With
# XGRAMMAR_LOG_CUSTOMIZE the adapter decides what happens to its log: nothing is written.
run(${CMAKE_COMMAND} -S "${work}/src" -B "${work}/build" -G Ninja -DCMAKE_INSTALL_PREFIX=${ROOT}
    -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=${CXX} ${launcher}
    "-DCMAKE_CXX_FLAGS=-fno-lto -Wno-error -DXGRAMMAR_LOG_CUSTOMIZE=1"
    "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG")
run(${CMAKE_COMMAND} --build "${work}/build" -j ${jobs} --target install)
file(REMOVE_RECURSE "${work}")
