// cistern-classify: says what is on pictures, through cistern's allocator.
#include "apps/classify/options.hpp"
#include "apps/classify/run.hpp"
#include "apps/common/cli.hpp"

int main(int argc, char** argv) {
  CLI::App app("Says what is on pictures, with MobileNetV2 through cistern's allocator.", "cistern-classify");
  cistern::classify::ClassifyOptions options;
  cistern::classify::add_options(app, options);
  return cistern::apps::run_program(app, argc, argv, [&] {
    cistern::classify::check_options(options);
    return cistern::classify::run_classification(options);
  });
}
