# What users install: the command, the library (shared and static), its header, the files by which
# other builds find it, man page and completion. Everything finds its parts from where it lies
# itself, so the installed tree can be moved.
include(GNUInstallDirs)

find_library(LUA_SHARED NAMES lua5.4)
lp_require(LUA_SHARED liblua5.4-dev)

# ---- the library ---------------------------------------------------------------

# Of the objects that lp_engine has. Those of the release build hold code for linking as a
# whole and code as it is; the latter is taken, since a library is not linked as a whole.
add_library(lp_shared SHARED $<TARGET_OBJECTS:lp_engine>)
target_link_libraries(lp_shared PRIVATE ${LUA_SHARED} ev Threads::Threads m ${CMAKE_DL_LIBS})
target_include_directories(lp_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_options(lp_shared PRIVATE -fno-lto -Wl,--no-undefined)
set_target_properties(lp_shared PROPERTIES
  OUTPUT_NAME lp
  EXPORT_NAME lp
  LINKER_LANGUAGE C
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
if(LP_SANITIZE)
  target_link_options(lp_shared PRIVATE -fsanitize=${LP_SANITIZE})
  set_target_properties(lp_shared PROPERTIES EXCLUDE_FROM_ALL TRUE)
endif()

# One object whose only names are those of lp.h: a static library hides nothing by itself.
set(LP_STATIC ${CMAKE_BINARY_DIR}/liblp.a)
add_custom_command(
  OUTPUT ${LP_STATIC}
  COMMAND ${CMAKE_LINKER} -r --whole-archive $<TARGET_FILE:lp_engine> -o liblp.o
  COMMAND ${CMAKE_OBJCOPY} --localize-hidden "--remove-section=.gnu.lto_*"
          "--remove-section=.gnu.debuglto_*" --wildcard "--strip-symbol=__gnu_lto_*" liblp.o
  COMMAND ${CMAKE_COMMAND} -E rm -f liblp.a
  COMMAND ${CMAKE_AR} rcs liblp.a liblp.o
  COMMAND ${CMAKE_COMMAND} -E rm -f liblp.o
  WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
  DEPENDS lp_engine
  COMMENT "Linking liblp.a"
  VERBATIM)
if(NOT LP_SANITIZE)
  add_custom_target(lp_static ALL DEPENDS ${LP_STATIC})
endif()

# ---- man page and completion: what the command says about itself ----------------

foreach(topic man-page bash-completion)
  add_custom_command(
    OUTPUT ${CMAKE_BINARY_DIR}/${topic}
    COMMAND lp help ${topic} > ${CMAKE_BINARY_DIR}/${topic}
    DEPENDS lp
    COMMENT "Generating ${topic}")
endforeach()
add_custom_target(lp_manual ALL
  DEPENDS ${CMAKE_BINARY_DIR}/man-page ${CMAKE_BINARY_DIR}/bash-completion)

# ---- finding the library --------------------------------------------------------

file(RELATIVE_PATH LP_PREFIX_FROM_PC
  /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" LP_PREFIX_FROM_PC "${LP_PREFIX_FROM_PC}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/lp.pc.in ${CMAKE_BINARY_DIR}/lp.pc @ONLY)
configure_file(${CMAKE_CURRENT_LIST_DIR}/lp-config.cmake.in ${CMAKE_BINARY_DIR}/lp-config.cmake @ONLY)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/lp-config-version.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)

# ---- installing -----------------------------------------------------------------

install(TARGETS lp RUNTIME)
install(TARGETS lp_shared EXPORT lp-targets LIBRARY)
install(FILES ${LP_STATIC} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${PROJECT_SOURCE_DIR}/engine/lp.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_BINARY_DIR}/lp.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(EXPORT lp-targets NAMESPACE lp:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lp)
install(FILES ${CMAKE_BINARY_DIR}/lp-config.cmake ${CMAKE_BINARY_DIR}/lp-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lp)
install(FILES ${CMAKE_BINARY_DIR}/man-page
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 RENAME lp.1)
install(FILES ${CMAKE_BINARY_DIR}/bash-completion
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME lp)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES docs/embedding.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY bindings/c/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
  FILES_MATCHING PATTERN "*.c" PATTERN "*.lua")

# ---- a package for Debian: cpack ------------------------------------------------

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME launchpad-lua)
set(CPACK_PACKAGE_CONTACT "Launchpad for Lua maintainers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "distributed programs in Lua: command and C library")
set(CPACK_DEBIAN_PACKAGE_DEPENDS
  "libc6, liblua5.4-0, libev4, libedit2, lua-argparse")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "lua-busted, graphviz, tmux")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
include(CPack)
