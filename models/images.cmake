# cistern_images: pictures from files, by OpenCV. Without OpenCV there is no such target, nor what is built on it.
# Not find_package(OpenCV): Debian has its file in the package that pulls in all of OpenCV.
find_path(CISTERN_OPENCV_INCLUDE opencv2/imgcodecs.hpp PATH_SUFFIXES opencv4 DOC "holds opencv2/imgcodecs.hpp")
foreach(part core imgproc imgcodecs)
  find_library(CISTERN_OPENCV_${part} opencv_${part})
  if(NOT CISTERN_OPENCV_INCLUDE OR NOT CISTERN_OPENCV_${part})
    message(STATUS "cistern: without OpenCV there is no cistern-classify, and cistern-train has mnist_cnn only")
    return()
  endif()
  add_library(opencv::${part} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(opencv::${part} PROPERTIES
    IMPORTED_LOCATION ${CISTERN_OPENCV_${part}} INTERFACE_INCLUDE_DIRECTORIES ${CISTERN_OPENCV_INCLUDE})
endforeach()

add_library(cistern_images STATIC image_file.cpp image_header.cpp image_input.cpp)
add_library(cistern::images ALIAS cistern_images)
target_link_libraries(cistern_images
  PUBLIC cistern::models opencv::core PRIVATE cistern::observe opencv::imgproc opencv::imgcodecs cistern_warnings)
cistern_use_torch_pool(cistern_images)
