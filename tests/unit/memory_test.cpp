// Growth, limits and figures by the name of a device, over simulated devices: what TensorFlow's users expect of
// tf.config (config_test.py, gpu_device_test.cc and gpu_bfc_allocator_test.cc; the tests named in the comments), and
// what they were refused there. The registry is the process's, so each test has devices of its own.
#include "cistern/memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "cistern/adapters/registry.hpp"
#include "cistern/core/caching_allocator.hpp"
#include "cistern/sources/simulated_source.hpp"

namespace cistern {
namespace {

using Reason = MemoryError::Reason;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Contains;

constexpr std::size_t kDeviceBytes = kGiB;

/// What a plug would make when the device is first used. It lives to the end, as the registry wants.
struct Device {
  explicit Device(const Options& options = {})
      : source({.granule_bytes = 2 * kMiB, .capacity_bytes = kDeviceBytes}), allocator(options, source) {}
  SimulatedSource source;
  CachingAllocator allocator;
};

Device& lasting_device(const Options& options = {}) { return *std::make_unique<Device>(options).release(); }

/// A kind of three devices, each made at its first use.
class Family {
 public:
  explicit Family(std::string kind) : kind_(std::move(kind)) {}

  void install() {
    register_family({kind_,
                     [this] { return std::vector<std::string>{name(0), name(1), name(2)}; },
                     [this](std::string_view device) -> CachingAllocator& {
                       ++uses_;
                       auto made = std::make_unique<Device>(options);
                       register_device(std::string(device), made->allocator);  // may refuse
                       return made.release()->allocator;
                     },
                     [this](std::string_view device) { return device_used_bytes + reserved(device); }});
  }
  std::string name(int index) const { return kind_ + ":" + std::to_string(index); }
  int uses() const { return uses_; }

  Options options{};
  std::size_t device_used_bytes = 0;  ///< By others.

 private:
  static std::size_t reserved(std::string_view device) { return find_device(device)->stats().reserved.current; }

  const std::string kind_;
  int uses_ = 0;
};

/// One family a test: never destroyed, as the registry keeps it.
Family& lasting_family(const std::string& kind) { return *std::make_unique<Family>(kind).release(); }

Address allocate(std::string_view device, std::size_t bytes) {
  CachingAllocator& allocator = device_allocator(device);
  const auto granted = allocator.allocate({.bytes = bytes, .alignment = 1, .stream = {}, .pool = scoped_pool(allocator)});
  return granted ? granted->address : 0;
}

void free(std::string_view device, Address address) { device_allocator(device).free(address); }

template <class Call>
Reason refusal(Call call, const std::string& words) {
  try {
    call();
  } catch (const MemoryError& error) {
    EXPECT_THAT(error.what(), HasSubstr(words));
    return error.reason();
  }
  ADD_FAILURE() << "nothing was refused";
  return Reason::kUnknownDevice;
}

TEST(Devices, AreListedWithoutUsingThem) {
  Family& family = lasting_family("listed");
  family.install();
  EXPECT_THAT(list_devices("listed"), ElementsAre("listed:0", "listed:1", "listed:2"));
  EXPECT_THAT(list_devices(), Contains("listed:1"));
  EXPECT_EQ(family.uses(), 0);
  device_allocator("listed:1");
  EXPECT_EQ(family.uses(), 1);
  EXPECT_THAT(list_devices("listed"), ElementsAre("listed:0", "listed:1", "listed:2")) << "each once";
}

TEST(Devices, OfAKindNobodyServesAreNone) { EXPECT_THAT(list_devices("rocket"), IsEmpty()); }

// testGetMemoryInfoUnknownDevice, testV1Compatibility, InvalidGpuId
TEST(Devices, ThatDoNotExistAreNamedWithThoseThatDo) {
  Family& family = lasting_family("few");
  family.install();
  for (const char* wrong : {"few:3", "few:-1", "few", "few:0x"}) {
    EXPECT_EQ(refusal([&] { memory_info(wrong); }, "there are few:0, few:1, few:2"), Reason::kUnknownDevice) << wrong;
    EXPECT_EQ(refusal([&] { set_memory_growth(wrong, true); }, wrong), Reason::kUnknownDevice);
    EXPECT_EQ(refusal([&] { set_memory_limit(wrong, "1GiB"); }, wrong), Reason::kUnknownDevice);
  }
  EXPECT_EQ(refusal([] { set_memory_growth("GPU:0", true); }, "names are cpu, pinned, cuda:0"), Reason::kUnknownDevice);
  EXPECT_EQ(refusal([] { set_memory_growth("cuda:zero", true); }, "cuda:zero"), Reason::kUnknownDevice);
  EXPECT_EQ(family.uses(), 0);
}

TEST(Devices, ThatNobodyServesSayWhatToCall) {
  EXPECT_EQ(refusal([] { memory_info("cuda:0"); }, "call install_cuda first"), Reason::kNotServed);
  EXPECT_EQ(refusal([] { trim("pinned"); }, "call install_pinned first"), Reason::kNotServed);
}

// testGpuGrowth; tensorflow/tensorflow #38367: growth and a limit together are impossible there.
TEST(Settings, OfGrowthAndLimitTogetherHoldInAnyOrder) {
  Family& family = lasting_family("both");
  family.options.strategy = Strategy::kPreallocate;
  family.install();
  set_memory_growth("both:0", true);
  set_memory_limit("both:0", "64MiB");
  set_memory_limit("both:1", Amount{64 * kMiB});
  set_memory_growth("both:1", true);
  for (const char* device : {"both:0", "both:1"}) {
    EXPECT_NE(allocate(device, 3 * kMiB), 0u);
    EXPECT_EQ(memory_info(device).reserved_bytes, 4 * kMiB) << "grows";
    EXPECT_EQ(memory_info(device).limit_bytes, 64 * kMiB);
    EXPECT_EQ(allocate(device, 62 * kMiB), 0u) << "and keeps the limit";
  }
}

// #35083: "Memory growth cannot differ between GPU devices"
TEST(Settings, MayDifferBetweenDevices) {
  Family& family = lasting_family("differ");
  family.install();
  set_memory_growth("differ:0", true);
  set_memory_growth("differ:1", false);
  set_memory_limit("differ:1", "32MiB");
  set_memory_limit("differ:2", Amount{0, 0.5});
  for (int index = 0; index < 3; ++index) allocate(family.name(index), 100);
  EXPECT_EQ(memory_info("differ:0").reserved_bytes, 2 * kMiB);
  EXPECT_EQ(memory_info("differ:0").limit_bytes, std::nullopt);
  EXPECT_EQ(memory_info("differ:1").reserved_bytes, 32 * kMiB);
  EXPECT_EQ(memory_info("differ:1").strategy, Strategy::kPreallocate);
  EXPECT_EQ(memory_info("differ:2").limit_bytes, kDeviceBytes / 2);
}

// #25138: "Physical devices cannot be modified after being initialized"
TEST(Settings, ChangeWhileTheDeviceIsInUse) {
  Family& family = lasting_family("late");
  family.install();
  allocate("late:0", 3 * kMiB);
  set_memory_limit("late:0", "64MiB");
  set_memory_growth("late:0", false);
  allocate("late:0", 3 * kMiB);
  EXPECT_EQ(memory_info("late:0").reserved_bytes, 64 * kMiB) << "the rest, at the next miss";
  set_memory_growth("late:0", true);
  EXPECT_EQ(trim("late:0"), 58 * kMiB) << "the preallocation goes back";
  clear_memory_limit("late:0");
  EXPECT_EQ(memory_info("late:0").limit_bytes, std::nullopt);
}

// set_memory_growth of the same value after initialisation is no error there, and nothing here.
TEST(Settings, ToWhatIsAlreadySoChangeNothing) {
  Family& family = lasting_family("same");
  family.install();
  set_memory_limit("same:0", "32MiB");
  set_memory_growth("same:0", false);
  allocate("same:0", 3 * kMiB);
  set_memory_growth("same:0", false);
  EXPECT_EQ(trim("same:0"), 0u) << "still the preallocation, kept";
  EXPECT_EQ(memory_info("same:0").reserved_bytes, 32 * kMiB);
}

TEST(Settings, OfADeviceThatAPlugBringsLaterAreKeptForIt) {
  set_memory_limit("cuda:1", "32MiB");
  set_memory_growth("cuda:1", false);
  Device& made = lasting_device();
  register_device("cuda:1", made.allocator);
  allocate("cuda:1", 100);
  EXPECT_EQ(memory_info("cuda:1").reserved_bytes, 32 * kMiB);
}

TEST(Settings, OfADeviceThatAPlugDoesNotBringAreToldWhenItComes) {
  set_memory_growth("pinned", true);
  const DeviceFamily family{"pinned", [] { return std::vector<std::string>{}; }, nullptr, nullptr};
  EXPECT_EQ(refusal([&] { register_family(family); }, "'pinned'"), Reason::kUnknownDevice);
  EXPECT_EQ(find_family("pinned"), nullptr);
}

TEST(Settings, GoBeforeTheOptionsOfThePlug) {
  Family& family = lasting_family("before");
  family.options.limit = Amount{512 * kMiB};
  family.install();
  set_memory_limit("before:0", "64MiB");
  clear_memory_limit("before:1");
  EXPECT_EQ(memory_info("before:0").limit_bytes, 64 * kMiB);
  EXPECT_EQ(memory_info("before:1").limit_bytes, std::nullopt);
  EXPECT_EQ(memory_info("before:2").limit_bytes, 512 * kMiB);
}

// #22239: a fraction of 1.0 logs CUDA_ERROR_OUT_OF_MEMORY there.
TEST(Limit, OfMoreThanTheDeviceHasIsRefusedWhenTheDeviceIsKnown) {
  Family& family = lasting_family("more");
  family.install();
  set_memory_limit("more:0", "2GiB");
  EXPECT_EQ(refusal([] { memory_info("more:0"); }, "2 GiB is more than the device has (1 GiB)"), Reason::kAboveCapacity);
  EXPECT_EQ(find_device("more:0"), nullptr);
  set_memory_limit("more:0", "100%");
  EXPECT_EQ(memory_info("more:0").limit_bytes, kGiB) << "what was said last counts";
  EXPECT_EQ(refusal([] { set_memory_limit("more:0", "1025MiB"); }, "1 GiB"), Reason::kAboveCapacity);
  EXPECT_EQ(memory_info("more:0").limit_bytes, kGiB);
}

TEST(Limit, BelowWhatIsInUseSaysTheLeastPossibleAndWhoHoldsIt) {
  Family& family = lasting_family("below");
  family.install();
  const Address held = allocate("below:0", 20 * kMiB);
  free("below:0", allocate("below:0", 40 * kMiB));
  EXPECT_EQ(refusal([] { set_memory_limit("below:0", "8MiB"); }, "the least limit possible now is 20 MiB"), Reason::kInUse);
  EXPECT_EQ(refusal([] { set_memory_limit("below:0", "8MiB"); }, "20 MiB in 1 block"), Reason::kInUse);
  EXPECT_EQ(memory_info("below:0").limit_bytes, std::nullopt);
  set_memory_limit("below:0", "20MiB");
  free("below:0", held);
  set_memory_limit("below:0", "8MiB");
  EXPECT_LE(memory_info("below:0").reserved_bytes, 8 * kMiB);
}

TEST(Limit, InWordsThatAreNoAmountIsAnInvalidArgument) {
  Family& family = lasting_family("words");
  family.install();
  for (const char* wrong : {"", "512", "8GB!", "-1", "150%"}) {
    EXPECT_THROW(set_memory_limit("words:0", wrong), std::invalid_argument) << wrong;
  }
}

TEST(Headroom, IsWhatPreallocationLeavesFree) {
  Family& family = lasting_family("headroom");
  family.install();
  set_headroom("headroom:0", kDeviceBytes - 64 * kMiB);
  set_memory_growth("headroom:0", false);
  allocate("headroom:0", 100);
  EXPECT_EQ(memory_info("headroom:0").reserved_bytes, 64 * kMiB);
}

TEST(HostMemory, IsPreallocatedOnlyUpToALimit) {
  Device& cpu = lasting_device();
  register_device("cpu", cpu.allocator);
  EXPECT_EQ(refusal([] { set_memory_growth("cpu", false); }, "set a memory limit first"), Reason::kNoAmount);
  set_memory_limit("cpu", "32MiB");
  set_memory_growth("cpu", false);
  allocate("cpu", 100);
  EXPECT_EQ(memory_info("cpu").reserved_bytes, 32 * kMiB);
  EXPECT_EQ(memory_info("cpu").outside_bytes, std::nullopt);
}

// testGetMemoryInfoBasic before any tensor; NoDups (0/0/0 at the start)
TEST(MemoryInfo, BeforeAnyUseIsZeroAndTellsTheLimit) {
  Family& family = lasting_family("fresh");
  family.device_used_bytes = 7 * kMiB;
  family.install();
  set_memory_limit("fresh:0", "25%");
  const MemoryInfo info = memory_info("fresh:0");
  EXPECT_EQ(info.current_bytes, 0u);
  EXPECT_EQ(info.peak_bytes, 0u);
  EXPECT_EQ(info.reserved_bytes, 0u);
  EXPECT_EQ(info.largest_free_bytes, 0u);
  EXPECT_EQ(info.capacity_bytes, kDeviceBytes);
  EXPECT_EQ(info.limit_bytes, kDeviceBytes / 4);
  EXPECT_EQ(info.outside_bytes, 7 * kMiB);
}

// testPeakMemoryUsage, testResetMemoryStats; #22158: what lies outside the pool
TEST(MemoryInfo, CountsWhatIsGrantedKeptAndTakenByOthers) {
  Family& family = lasting_family("counts");
  family.device_used_bytes = 300 * kMiB;
  family.install();
  const Address first = allocate("counts:0", 4 * kMiB);
  const Address second = allocate("counts:0", 6 * kMiB);
  free("counts:0", first);
  const MemoryInfo info = memory_info("counts:0");
  EXPECT_EQ(info.current_bytes, 6 * kMiB);
  EXPECT_EQ(info.peak_bytes, 10 * kMiB);
  EXPECT_EQ(info.reserved_bytes, 10 * kMiB);
  EXPECT_EQ(info.peak_reserved_bytes, 10 * kMiB);
  EXPECT_EQ(info.largest_free_bytes, 4 * kMiB);
  EXPECT_EQ(info.outside_bytes, 300 * kMiB);
  reset_peak("counts:0");
  EXPECT_EQ(memory_info("counts:0").peak_bytes, 6 * kMiB);
  EXPECT_EQ(memory_info("counts:0").reserved_bytes, 10 * kMiB) << "to reset is not to free";
  EXPECT_EQ(trim("counts:0"), 4 * kMiB);
  free("counts:0", second);
  EXPECT_EQ(trim("counts:0", 2 * kMiB), 4 * kMiB) << "but for what is to be kept";
}

// MultipleVirtualDevices {123, 456}: parts of a device, each within a limit of its own
TEST(ScopedPool, KeepsEachTenantWithinItsLimitAndTheDeviceWithinItsOwn) {
  Family& family = lasting_family("tenants");
  family.install();
  set_memory_limit("tenants:0", "512MiB");
  MemoryPool small("tenants:0", Amount{122 * kMiB});
  MemoryPool large("tenants:0", Amount{456 * kMiB});
  Address in_large = 0;
  {
    const ScopedPool scope(small);
    EXPECT_NE(allocate("tenants:0", 122 * kMiB), 0u);
    EXPECT_EQ(allocate("tenants:0", 2 * kMiB), 0u) << "the tenant's limit";
    {
      const ScopedPool inner(large);
      in_large = allocate("tenants:0", 300 * kMiB);
      EXPECT_EQ(allocate("tenants:0", 100 * kMiB), 0u) << "the device's limit";
    }
    EXPECT_EQ(allocate("tenants:0", 2 * kMiB), 0u) << "the outer scope again";
  }
  EXPECT_NE(allocate("tenants:0", 50 * kMiB), 0u) << "no scope";
  EXPECT_EQ(small.info().current_bytes, 122 * kMiB);
  EXPECT_EQ(small.info().reserved_bytes, 122 * kMiB);
  EXPECT_EQ(large.info().limit_bytes, 456 * kMiB);
  EXPECT_EQ(large.info().current_bytes, 300 * kMiB);
  EXPECT_EQ(refusal([&] { large.set_limit(Amount{100 * kMiB}); }, "limit not changed"), Reason::kInUse);
  free("tenants:0", in_large);
  EXPECT_EQ(large.info().reserved_bytes, 300 * kMiB) << "idle memory is the tenant's";
  EXPECT_EQ(large.trim(), 300 * kMiB);
  large.set_limit(Amount{100 * kMiB});
}

TEST(ScopedPool, IsOfItsThreadAndItsDevice) {
  Family& family = lasting_family("thread");
  family.install();
  const ScopedPool scope("thread:0", Amount{4 * kMiB});
  EXPECT_EQ(allocate("thread:0", 8 * kMiB), 0u);
  EXPECT_NE(allocate("thread:1", 8 * kMiB), 0u);
  std::thread([] { EXPECT_NE(allocate("thread:0", 8 * kMiB), 0u); }).join();
}

TEST(ScopedPool, GivesItsMemoryBackAtTheEndAndLetsTensorsOutliveIt) {
  Family& family = lasting_family("ends");
  family.install();
  Address survivor = 0;
  {
    const ScopedPool scope("ends:0", std::nullopt);
    EXPECT_EQ(scope.pool().info().limit_bytes, std::nullopt);
    survivor = allocate("ends:0", 4 * kMiB);
    free("ends:0", allocate("ends:0", 8 * kMiB));
    EXPECT_EQ(memory_info("ends:0").reserved_bytes, 12 * kMiB);
  }
  EXPECT_EQ(memory_info("ends:0").reserved_bytes, 4 * kMiB);
  EXPECT_EQ(memory_info("ends:0").current_bytes, 4 * kMiB);
  free("ends:0", survivor);
  EXPECT_EQ(trim("ends:0"), 4 * kMiB);
}

TEST(ScopedPool, OfMoreThanTheDeviceHasIsRefused) {
  Family& family = lasting_family("large");
  family.install();
  EXPECT_EQ(refusal([] { ScopedPool("large:0", Amount{2 * kGiB}); }, "more than the device has"), Reason::kAboveCapacity);
  EXPECT_EQ(refusal([] { ScopedPool("large:9", Amount{kMiB}); }, "large:9"), Reason::kUnknownDevice);
  EXPECT_EQ(scoped_pool_count.load(), 0u);
}

TEST(ScopedPoolDeathTest, EndsTheInnermostFirst) {
  Family& family = lasting_family("order");
  family.install();
  std::optional<ScopedPool> outer(std::in_place, "order:0", std::nullopt);
  const ScopedPool inner("order:0", std::nullopt);
  EXPECT_DEATH(outer.reset(), "innermost_first");
}

}  // namespace
}  // namespace cistern
