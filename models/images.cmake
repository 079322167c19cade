# cistern_images: pictures from files, by OpenCV. Without OpenCV there is no such target, nor what is built on it.
include(opencv)
if(NOT TARGET opencv::core)
  message(STATUS "cistern: without OpenCV there is no cistern-classify, and cistern-train has mnist_cnn only")
  return()
endif()

add_library(cistern_images STATIC image_file.cpp image_header.cpp image_input.cpp)
add_library(cistern::images ALIAS cistern_images)
target_link_libraries(cistern_images
  PUBLIC cistern::models opencv::core PRIVATE cistern::observe opencv::imgproc opencv::imgcodecs cistern_warnings)
cistern_use_torch_pool(cistern_images)
