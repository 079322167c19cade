# Imported targets opencv::core, opencv::imgproc and opencv::imgcodecs, all or none.
# Not find_package(OpenCV): Debian has its file in the package that pulls in all of OpenCV.
find_path(CISTERN_OPENCV_INCLUDE opencv2/imgcodecs.hpp PATH_SUFFIXES opencv4 DOC "holds opencv2/imgcodecs.hpp")
set(opencv_parts core imgproc imgcodecs)
set(opencv_found ${CISTERN_OPENCV_INCLUDE})
foreach(part IN LISTS opencv_parts)
  find_library(CISTERN_OPENCV_${part} opencv_${part})
  if(NOT CISTERN_OPENCV_${part})
    set(opencv_found NO)
  endif()
endforeach()
if(opencv_found AND NOT TARGET opencv::core)
  foreach(part IN LISTS opencv_parts)
    add_library(opencv::${part} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(opencv::${part} PROPERTIES
      IMPORTED_LOCATION ${CISTERN_OPENCV_${part}} INTERFACE_INCLUDE_DIRECTORIES ${CISTERN_OPENCV_INCLUDE})
  endforeach()
endif()
