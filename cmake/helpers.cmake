# Two functions, so that a leaf CMakeLists.txt is a list of names: lp_layer for the
# folders of the engine, lp_program for everything that has a main.

# Flags of all our C code, tests and benchmarks included.
function(lp_flags target)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wconversion -Wstrict-prototypes
    $<$<C_COMPILER_ID:GNU>:-Wshadow=local>
    $<$<C_COMPILER_ID:Clang>:-Wno-string-conversion>)
  if(LP_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(LP_FAULTS)
    target_compile_definitions(${target} PRIVATE LP_FAULTS)
  endif()
  if(LP_SANITIZE)
    set(flags -fsanitize=${LP_SANITIZE} -fno-omit-frame-pointer)
    if(LP_SANITIZE MATCHES undefined)
      list(APPEND flags -fno-sanitize-recover=undefined)
      if(CMAKE_C_COMPILER_ID STREQUAL Clang) # it would refuse NULL + 0, of an empty buffer
        list(APPEND flags -fno-sanitize=pointer-overflow)
      endif()
    endif()
    target_compile_options(${target} PRIVATE ${flags})
    target_link_options(${target} PRIVATE ${flags})
  endif()
endfunction()

# lp_layer([EXCEPT FILE...]): the calling folder's .c files are part of the engine.
function(lp_layer)
  cmake_parse_arguments(ARG "" "" "EXCEPT" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.c)
  foreach(file ${ARG_EXCEPT})
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
  target_sources(lp_engine PRIVATE ${sources})
endfunction()

# lp_program(NAME SOURCE LIBRARY...): one executable of one file, built by name only. Objects of the
# release build hold code as it is beside code for linking as a whole, which takes ten times as
# long and is for the command alone.
function(lp_program name source)
  add_executable(${name} EXCLUDE_FROM_ALL ${source})
  lp_flags(${name})
  if(NOT name STREQUAL lp)
    target_link_options(${name} PRIVATE -fno-lto)
  endif()
  target_link_libraries(${name} PRIVATE ${ARGN} Threads::Threads)
endfunction()
