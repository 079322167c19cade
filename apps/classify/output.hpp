// What a person or another program reads of the classification.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "apps/common/memory_report.hpp"

namespace cistern::classify {

struct Guess {
  std::int64_t index = 0;
  std::string label;
  double probability = 0.0;
};

struct Summary {
  std::string weights;
  std::int64_t images = 0;  ///< Classified; the broken ones are not among them.
  std::int64_t broken = 0;
  double seconds = 0.0;  ///< From the first image on, with reading and decoding.
  apps::MemoryReport memory;

  double images_per_second() const { return seconds > 0.0 ? static_cast<double>(images) / seconds : 0.0; }
};

/// As text for people, or as JSON, one object a line.
class Output {
 public:
  enum class Form { kText, kJson };
  Output(std::ostream& out, Form form) : out_(out), form_(form) {}

  void image(const std::string& name, const std::vector<Guess>& guesses);
  /// A line on stderr, and in JSON an object in the image's place. `what` names the image.
  void broken(const std::string& name, const std::string& what);
  void summary(const Summary& summary);

 private:
  std::ostream& out_;
  Form form_;
};

}  // namespace cistern::classify
