# The files that make find_package(cistern) work from an install tree.
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
