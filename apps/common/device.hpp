// Which device computes, and what a program that does not link libtorch_cuda does to use one.
#pragma once

#include <optional>
#include <string>

namespace cistern {
struct Options;
class CachingAllocator;
}  // namespace cistern

namespace cistern::apps {

struct ChosenDevice {
  std::optional<int> cuda_index;  ///< None: the CPU.
  std::string reason;             ///< In a few words.

  /// As torch writes it.
  std::string name() const { return cuda_index ? "cuda:" + std::to_string(*cuda_index) : "cpu"; }
};

/// What --device (auto, cpu, cuda, cuda:N) means on this machine; CUDA is then ready to be used. "auto" is
/// the first CUDA device, or the CPU where something is in the way of that or the caller has a reason for the
/// CPU. Fails with std::runtime_error if CUDA was asked for and something is in the way.
ChosenDevice choose_device(const std::string& device, const std::string& reason_for_cpu = {});

// Two implementations, one of which is built: cuda.cpp with the CUDA plug, no_cuda.cpp without.

/// Loads libtorch_cuda if the device is there. Gives what is in the way of using it, empty if nothing is.
std::string prepare_cuda(int index);

struct CudaAllocators {
  CachingAllocator& device;
  CachingAllocator& pinned;  ///< Of host memory that the device copies from and to.
};

/// Puts cistern under torch's tensors on CUDA devices, with the options, and under its pinned memory, with
/// the defaults. Gives the allocators of that device. Requires prepare_cuda. Fails with std::runtime_error:
/// InstallError, DriverError.
CudaAllocators install_under_cuda(const Options& options, int index);

}  // namespace cistern::apps
