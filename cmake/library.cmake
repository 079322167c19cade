# cistern_add_library(<name> [SHARED | STATIC]
#                     [SOURCES <file>...] [DEPENDS <target>...] [PRIVATE_DEPENDS <target>...])
#
# Without a kind, <name> is a layer: its files become part of libcistern, and cistern::<name> links that.
# With one it is a library of its own, libcistern_<name>, in an install component of its own: a plug.
# All headers beside the sources are installed. A PRIVATE_DEPENDS is not asked of who links us, so in a
# layer it must be header-only or a library that package.cmake.in looks for.

# Adds to `target` what each compiled library of ours has.
function(cistern_configure_library target kind)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/allocator> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:cistern_warnings>)
  set_target_properties(${target} PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    VISIBILITY_INLINES_HIDDEN ON INSTALL_RPATH "$ORIGIN" BUILD_RPATH_USE_ORIGIN ON)
  if(kind STREQUAL "SHARED")
    # Shows namespace cistern only; what other libraries' templates left in our objects stays inside.
    set(map ${PROJECT_SOURCE_DIR}/cmake/exports.map)
    target_link_options(${target} PRIVATE LINKER:--version-script=${map} LINKER:--no-undefined)
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
  else()
    set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden)
  endif()
endfunction()

# Makes and configures the one library that holds all layers; the first layer calls it.
function(cistern_add_layered_library)
  set(kind STATIC)
  if(BUILD_SHARED_LIBS)
    set(kind SHARED)
  endif()
  add_library(cistern ${kind})
  cistern_configure_library(cistern ${kind})
  target_compile_definitions(cistern PUBLIC
    $<$<BOOL:${CISTERN_AUDIT}>:CISTERN_AUDIT=1> $<$<BOOL:${CISTERN_MUTANTS}>:CISTERN_MUTANTS=1>)
  install(TARGETS cistern EXPORT cisternTargets)
endfunction()

function(cistern_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SHARED;STATIC" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "cistern_add_library(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target cistern_${name})
  set(kind "")
  if(arg_SHARED)
    set(kind SHARED)
  elseif(arg_STATIC)
    set(kind STATIC)
  endif()
  if(kind)
    add_library(${target} ${kind} ${arg_SOURCES})
    cistern_configure_library(${target} ${kind})
    target_link_libraries(${target} PUBLIC ${arg_DEPENDS} PRIVATE ${arg_PRIVATE_DEPENDS})
    set(export ${target}Targets)
    set_property(GLOBAL APPEND PROPERTY cistern_plugs ${name})
  else()
    if(NOT TARGET cistern)
      cistern_add_layered_library()
    endif()
    list(TRANSFORM arg_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
    target_sources(cistern PRIVATE ${files})
    target_link_libraries(cistern PRIVATE ${arg_PRIVATE_DEPENDS})
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE cistern ${arg_DEPENDS})
    set(export cisternTargets)
  endif()
  add_library(cistern::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS ${target} EXPORT ${export})

  set(folders "")
  foreach(source IN LISTS arg_SOURCES)
    get_filename_component(folder ${source} DIRECTORY)
    list(APPEND folders ${folder})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder}
      FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
  endforeach()
endfunction()
