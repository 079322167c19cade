#include <cstdlib>
#include <stdexcept>

#include "apps/train/learner.hpp"
#include "apps/train/pictures.hpp"

namespace cistern::train {

std::shared_ptr<const PictureSets> open_pictures(const Dataset&) {
  throw std::runtime_error("this build has no OpenCV, so it trains no mobilenet_v2");
}

std::unique_ptr<Learner> make_picture_learner(std::shared_ptr<const PictureSets>,
                                              const models::TrainingSetup&, const models::LearnedState&,
                                              at::Device) {
  std::abort();
}  // no pictures could be opened

}  // namespace cistern::train
