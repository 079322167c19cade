#include "cistern/core/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cistern {
namespace {

using ::testing::HasSubstr;

Options options_of(std::string_view text) {
  const auto options = parse_config(text);
  EXPECT_TRUE(options) << (options ? "" : options.error().message);
  return options ? *options : Options{};
}

ConfigError error_of(std::string_view text) {
  const auto options = parse_config(text);
  EXPECT_FALSE(options) << text;
  return options ? ConfigError{} : options.error();
}

TEST(Config, EmptyTextChangesNothing) {
  Options base;
  base.headroom_bytes = 7;
  EXPECT_EQ(parse_config("", base)->headroom_bytes, 7u);
}

TEST(Config, ReachesEveryField) {
  const Options options = options_of(
      "strategy:preallocate,limit:1GiB,preallocate:50%,headroom:64MiB,remap_slack:0.05,trim:above_high_water,"
      "high_water:100MB,misuse:report,record:/tmp/a:b.trace");
  EXPECT_EQ(options.strategy, Strategy::kPreallocate);
  EXPECT_EQ(options.limit, (Amount{kGiB, 0.0}));
  EXPECT_EQ(options.preallocate, (Amount{0, 0.5}));
  EXPECT_EQ(options.headroom_bytes, 64 * kMiB);
  EXPECT_DOUBLE_EQ(options.remap_slack, 0.05);
  EXPECT_EQ(options.trim, TrimMode::kAboveHighWater);
  EXPECT_EQ(options.high_water_bytes, 100'000'000u);
  EXPECT_EQ(options.misuse, Misuse::kReport);
  EXPECT_EQ(options.record, "/tmp/a:b.trace") << "only the first colon separates";
}

TEST(Config, NamesEveryStrategy) {
  for (const Strategy strategy : {Strategy::kGrowth, Strategy::kGeometric, Strategy::kPreallocate}) {
    EXPECT_EQ(options_of(std::string("strategy:") + strategy_name(strategy)).strategy, strategy);
  }
  EXPECT_EQ(options_of("strategy:plan,plan:run.plan").strategy, Strategy::kPlan);
  EXPECT_EQ(options_of("plan:run.plan").plan_file, "run.plan") << "another strategy may take over later";
  EXPECT_FALSE(strategy_from_name("Growth"));
}

TEST(Config, AnUnknownKeyNamesItselfItsPositionAndTheNearestKey) {
  const ConfigError error = error_of("strategy:growth,limt:1GiB");
  EXPECT_EQ(error.key, "limt");
  EXPECT_EQ(error.position, 16u);
  EXPECT_THAT(error.message, HasSubstr("'limt' at character 16"));
  EXPECT_THAT(error.message, HasSubstr("nearest is limit"));
}

TEST(Config, ABadValueNamesItsKeyItsPositionAndWhatIsWrong) {
  const ConfigError size = error_of("limit:banana");
  EXPECT_EQ(size.key, "limit");
  EXPECT_EQ(size.position, 6u);
  EXPECT_THAT(size.message, HasSubstr("'banana' is not a size"));
  EXPECT_THAT(error_of("strategy:plan").message, HasSubstr("plan needs plan:FILE"));
  EXPECT_THAT(error_of("strategy:plan,plan:").message, HasSubstr("a file name is missing"));
  EXPECT_THAT(error_of("strategy:grwth").message, HasSubstr("did you mean growth?"));
  EXPECT_THAT(error_of("trim:idel").message, HasSubstr("did you mean idle?"));
  EXPECT_THAT(error_of("misuse:panic").message, HasSubstr("abort"));
  EXPECT_THAT(error_of("remap_slack:2").message, HasSubstr("between 0 and 1"));
  EXPECT_THAT(error_of("remap_slack:").message, HasSubstr("between 0 and 1"));
  EXPECT_THAT(error_of("headroom:50%").message, HasSubstr("share"));
  EXPECT_THAT(error_of("limit:512").message, HasSubstr("did you mean 512MiB?"));
  EXPECT_THAT(error_of("record:").message, HasSubstr("file name"));
}

TEST(Config, GrammarSlipsAreErrors) {
  EXPECT_THAT(error_of("limit").message, HasSubstr("value is missing"));
  EXPECT_THAT(error_of("limit:1GiB,").message, HasSubstr("key is missing"));
  EXPECT_THAT(error_of("limit:1GiB,limit:2GiB").message, HasSubstr("twice"));
  EXPECT_THAT(error_of(",").message, HasSubstr("no such key"));
  EXPECT_THAT(error_of(" limit:1GiB").message, HasSubstr("nearest is limit"));
}

TEST(Config, AContradictionIsAnError) {
  EXPECT_THAT(error_of("trim:above_high_water").message, HasSubstr("needs high_water"));
}

TEST(Config, FindsTheNearestName) {
  EXPECT_EQ(nearest_name("preallocat", {"growth", "preallocate", "geometric"}), "preallocate");
  EXPECT_EQ(nearest_name("", {"ab", "abc"}), "ab");
}

}  // namespace
}  // namespace cistern
