// Device memory by virtual memory management: address space first, memory behind it granule by granule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "cistern/core/memory_source.hpp"
#include "cistern/sources/cuda/driver_api.hpp"
#include "cistern/sources/cuda/driver_handles.hpp"

namespace cistern {

struct VmmOptions {
  std::size_t granule_bytes = 0;  ///< 0: what the driver recommends; else a power of two and a multiple of its least.
};

/// Granules that another process may map, in address order. They stay pinned until unpin().
struct ExportedGranules {
  Address base = 0;  ///< Of the first granule; never the base of a whole range.
  std::size_t granule_bytes = 0;
  std::vector<FileDescriptor> descriptors;
};

/// One driver handle a granule, so that any granule can go back by itself; and decommit gives it to the driver at once,
/// so that what trim gives back is free for everybody (cudaMemGetInfo shows it). A remap thus creates anew: keeping
/// granules between decommit and commit would hide memory from all others for a saving nobody has measured.
///
/// Errors: reserve and commit refuse when memory ran out and throw DriverError on any other fault; nothing is changed.
/// decommit and unreserve never throw: what the driver would not take back stays with its address, is used again by a
/// later commit there or tried again later, and the error waits in faults().
/// Threads: all members from any thread at once, as peers and exports come from outside the allocator.
class VmmSource final : public MemorySource {
 public:
  /// Fails with DriverError: no driver, or what why_no_vmm() says.
  VmmSource(const DriverApi& api, int device, const VmmOptions& options = {});
  /// Gives back whatever is still reserved.
  ~VmmSource() override;

  const SourceTraits& traits() const noexcept override { return traits_; }
  std::size_t available_bytes() const override { return api_.memory(device_).free_bytes; }
  std::optional<SourceRange> reserve(std::size_t bytes) override;
  std::size_t commit(RangeId range, std::size_t offset, std::size_t bytes) override;
  void decommit(RangeId range, std::size_t offset, std::size_t bytes) override;
  void unreserve(RangeId range) override;

  /// Lets another device use everything committed now and later. Fails with DriverError and no change.
  void add_peer(int device);

  /// Descriptors for the granules that hold [address, address + bytes), and a pin on each until unpin().
  /// Requires that all of it is committed. Fails with DriverError (the device cannot export, say) and no change.
  ExportedGranules export_granules(Address address, std::size_t bytes);
  /// Requires a pin on each granule of it.
  void unpin(Address address, std::size_t bytes);
  /// Whether a granule of it is pinned: decommitting one is misuse, caught by a CHECK.
  bool is_pinned(Address address, std::size_t bytes);
  /// The granules that hold [address, address + bytes): what export_granules() would export.
  Span base_allocation(Address address, std::size_t bytes) const noexcept;

  KeptFaults& faults() noexcept { return faults_; }

 private:
  struct Granule {
    PhysicalGranule memory;
    Mapping mapping;
    bool committed = false;
    std::uint32_t pins = 0;
  };
  struct Range {
    AddressRange space;
    std::vector<Granule> granules;
    bool unwanted = false;  ///< Unreserved, but the driver did not take all of it back yet.
  };
  enum class Access : std::uint8_t { kNone, kReadWrite };
  struct Granules {  ///< A span of a range, by index.
    Range& range;
    std::size_t first = 0;
    std::size_t end = 0;
  };

  Granules find(RangeId range, std::size_t offset, std::size_t bytes);
  Granules find(Address address, std::size_t bytes);
  Address address_of(const Range& range, std::size_t index) const;
  bool fill(Range& range, std::size_t index);
  void empty(Granule& granule) noexcept;
  bool set_access(Span span, const std::vector<int>& devices, Access access);
  bool give_back(Range& range) noexcept;
  std::vector<Span> committed_spans() const;
  std::optional<PhysicalGranule> create_granule() const;

  DriverApi api_;
  const DriverFunctions& functions_;
  const int device_;
  bool exportable_ = false;
  bool remote_access_ = false;  ///< Network cards may reach the memory.
  SourceTraits traits_;

  mutable std::mutex mutex_;
  std::vector<int> devices_;  ///< That may use the memory: ours first, then peers.
  std::map<std::uint32_t, Range> ranges_;
  std::uint32_t next_id_ = 0;
  KeptFaults faults_;
};

}  // namespace cistern
