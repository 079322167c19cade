# cistern_images: pictures from files, by OpenCV. Without OpenCV there is no such target, nor what is built on it.
find_package(OpenCV QUIET COMPONENTS core imgproc imgcodecs)
if(NOT OpenCV_FOUND)
  message(STATUS "cistern: without OpenCV there is no cistern-classify, and cistern-train has mnist_cnn only")
  return()
endif()
set_target_properties(opencv_core opencv_imgproc opencv_imgcodecs PROPERTIES IMPORTED_GLOBAL ON)

add_library(cistern_images STATIC image_file.cpp image_header.cpp image_input.cpp)
add_library(cistern::images ALIAS cistern_images)
target_link_libraries(cistern_images
  PUBLIC cistern::models opencv_core PRIVATE cistern::observe opencv_imgproc opencv_imgcodecs cistern_warnings)
cistern_use_torch_pool(cistern_images)
