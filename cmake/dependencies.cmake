# The libraries we stand on, each as an interface target. docs/dependencies.md says
# why these.
function(lp_require variable package)
  if(NOT ${variable})
    message(FATAL_ERROR "${variable} not found: install ${package}, or set -D${variable}=...")
  endif()
endfunction()

find_path(LUA_INCLUDE_DIR lua.h PATH_SUFFIXES lua5.4)
find_library(LUA_ARCHIVE NAMES liblua5.4.a)
find_path(EV_INCLUDE_DIR ev.h)
find_library(EV_LIBRARY ev)
find_path(MPACK_INCLUDE_DIR mpack.h)
find_library(MPACK_LIBRARY mpack)
find_path(EDIT_INCLUDE_DIR histedit.h)
find_library(EDIT_LIBRARY edit)
find_package(Threads REQUIRED)

lp_require(LUA_INCLUDE_DIR liblua5.4-dev)
lp_require(LUA_ARCHIVE liblua5.4-dev)
lp_require(EV_INCLUDE_DIR libev-dev)
lp_require(EV_LIBRARY libev-dev)
lp_require(EDIT_INCLUDE_DIR libedit-dev)
lp_require(EDIT_LIBRARY libedit-dev)
lp_require(MPACK_INCLUDE_DIR libmpack-dev)
lp_require(MPACK_LIBRARY libmpack-dev)

# lua_headers: to compile against. lua: what a program needs of it. lua_whole: all of
# it and visible, so that C modules built for Debian's Lua find their Lua in us.
add_library(lua_headers INTERFACE)
target_include_directories(lua_headers SYSTEM INTERFACE ${LUA_INCLUDE_DIR})

add_library(lua INTERFACE)
target_link_libraries(lua INTERFACE lua_headers ${LUA_ARCHIVE} m ${CMAKE_DL_LIBS})

add_library(lua_whole INTERFACE)
target_link_libraries(lua_whole INTERFACE lua_headers
  "-Wl,-E,--whole-archive,${LUA_ARCHIVE},--no-whole-archive" m ${CMAKE_DL_LIBS})

add_library(ev INTERFACE)
target_include_directories(ev SYSTEM INTERFACE ${EV_INCLUDE_DIR})
target_link_libraries(ev INTERFACE ${EV_LIBRARY})

add_library(mpack INTERFACE)
target_include_directories(mpack SYSTEM INTERFACE ${MPACK_INCLUDE_DIR})
target_link_libraries(mpack INTERFACE ${MPACK_LIBRARY})

# Line editing; for the command only.
add_library(edit INTERFACE)
target_include_directories(edit SYSTEM INTERFACE ${EDIT_INCLUDE_DIR})
target_link_libraries(edit INTERFACE ${EDIT_LIBRARY})
