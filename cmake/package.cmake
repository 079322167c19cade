# The files that make find_package(cistern) work from an install tree, and the Debian package of that tree:
#   cpack --config build/release/CPackConfig.cmake
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/cistern)
get_property(plugs GLOBAL PROPERTY cistern_plugs)

foreach(set cistern ${plugs})
  if(NOT set STREQUAL "cistern")
    set(set cistern_${set})
  endif()
  install(EXPORT ${set}Targets NAMESPACE cistern:: DESTINATION ${package_dir})
endforeach()
configure_package_config_file(cmake/cisternConfig.cmake.in ${PROJECT_BINARY_DIR}/cisternConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cisternConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cisternConfig.cmake ${PROJECT_BINARY_DIR}/cisternConfigVersion.cmake
  cmake/torch.cmake DESTINATION ${package_dir})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# What links torch and is not a plug stays out of the package: torch has none, so nothing there would find it.
set(CPACK_GENERATOR DEB)
set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};cistern;Unspecified;/")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_CONTACT "The cistern authors <cistern@localhost>")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# The C library and such by what the files ask for; torch is looked at, and is nobody's package.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib ${CISTERN_TORCH}/lib)
set(CPACK_DEBIAN_PACKAGE_DEPENDS zlib1g-dev)  # libcistern.a wants it of who links it
include(CPack)
