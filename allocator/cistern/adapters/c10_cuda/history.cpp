#include "cistern/adapters/c10_cuda/history.hpp"

#include <algorithm>

namespace cistern {
namespace {

thread_local std::vector<std::string> compile_contexts;
thread_local std::string metadata_of_user;

constexpr std::int64_t kNsPerUs = 1000;

}  // namespace

void CudaHistory::start(Settings settings, bool clear_first) {
  const std::scoped_lock lock(mutex_);
  settings.most_entries = std::max<std::size_t>(settings.most_entries, 1);
  if (clear_first) clear();
  for (Ring<TraceEntry>& ring : rings_) {
    ring.entries = ring.in_order();
    ring.next = 0;
    if (ring.entries.size() > settings.most_entries) {
      ring.entries.erase(ring.entries.begin(), ring.entries.end() - static_cast<std::ptrdiff_t>(settings.most_entries));
    }
  }
  settings_ = std::make_shared<const Settings>(std::move(settings));
  recording_.store(true, std::memory_order_release);
  listening_.store(true, std::memory_order_release);
}

void CudaHistory::stop() {
  const std::scoped_lock lock(mutex_);
  clear();
  contexts_.clear();
  settings_ = std::make_shared<const Settings>();
  recording_.store(false, std::memory_order_release);
  listening_.store(!trackers_.empty(), std::memory_order_release);
}

void CudaHistory::clear() {
  rings_.clear();
  annotations_ = {};
}

void CudaHistory::attach(Tracker tracker) {
  const std::scoped_lock lock(mutex_);
  trackers_.push_back(std::make_shared<const Tracker>(std::move(tracker)));
  listening_.store(true, std::memory_order_release);
}

CudaHistory::Context CudaHistory::gather(RecordContext level) const {
  CreateContext create = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    if (settings_->when >= level) create = settings_->create_context;
  }
  return create == nullptr ? nullptr : create();
}

void CudaHistory::tell(const Happening& what) {
  std::string compile_context;
  for (const std::string& context : compile_contexts) {
    compile_context += (compile_context.empty() ? "" : " ") + context;
  }
  std::shared_ptr<const Settings> settings;
  std::vector<std::shared_ptr<const Tracker>> trackers;
  {
    const std::scoped_lock lock(mutex_);
    settings = settings_;
    trackers = trackers_;
  }
  TraceEntry entry(what.action, static_cast<c10::DeviceIndex>(what.device), what.address, what.bytes, what.stream,
                   what.pool, c10::getApproximateTime(),
                   settings->when >= RecordContext::ALLOC ? what.context : nullptr, std::move(compile_context),
                   metadata_of_user);
  for (const auto& tracker : trackers) (*tracker)(entry);
  if (!recording() || settings->skipped.count(what.action) != 0) return;
  const std::scoped_lock lock(mutex_);
  const auto device = static_cast<std::size_t>(what.device);
  if (rings_.size() <= device) rings_.resize(device + 1);
  rings_[device].add(std::move(entry), settings_->most_entries);
}

void CudaHistory::annotate(int device, const std::vector<std::pair<std::string, std::string>>& metadata) {
  Annotation annotation(static_cast<c10::DeviceIndex>(device), c10::getApproximateTime());
  for (const auto& [name, value] : metadata) annotation.recordUserMetadata(name, value);
  const std::scoped_lock lock(mutex_);
  if (recording()) annotations_.add(std::move(annotation), settings_->most_entries);
}

void CudaHistory::remember(Address address, Context context) {
  if (context == nullptr || !recording()) return;
  const std::scoped_lock lock(mutex_);
  contexts_.insert_or_assign(address, std::move(context));
}

CudaHistory::Context CudaHistory::forget(Address address) {
  const std::scoped_lock lock(mutex_);
  const auto node = contexts_.extract(address);
  return node.empty() ? nullptr : node.mapped();
}

std::unordered_map<Address, CudaHistory::Context> CudaHistory::contexts() const {
  const std::scoped_lock lock(mutex_);
  return contexts_;
}

void CudaHistory::wait_for(Happening freed) {
  const std::scoped_lock lock(mutex_);
  waiting_.push_back(std::move(freed));
  waiting_count_.store(waiting_.size(), std::memory_order_relaxed);
}

std::vector<std::vector<CudaHistory::TraceEntry>> CudaHistory::traces(int device_count, c10::MempoolId_t pool) {
  std::vector<std::vector<TraceEntry>> traces(static_cast<std::size_t>(device_count));
  {
    const std::scoped_lock lock(mutex_);
    for (std::size_t device = 0; device < std::min(traces.size(), rings_.size()); ++device) {
      traces[device] = rings_[device].in_order();
    }
  }
  const auto to_ns = clock_.makeConverter();
  for (auto& trace : traces) {
    if (pool != c10::MempoolId_t{0, 0}) {
      std::erase_if(trace, [&](const TraceEntry& entry) { return entry.mempool_ != pool; });
    }
    for (TraceEntry& entry : trace) entry.time_.t_ = to_ns(entry.time_.approx_t_) / kNsPerUs;
  }
  return traces;
}

std::vector<CudaHistory::Annotation> CudaHistory::annotations() {
  std::vector<Annotation> all;
  {
    const std::scoped_lock lock(mutex_);
    all = annotations_.in_order();
  }
  const auto to_ns = clock_.makeConverter();
  for (Annotation& annotation : all) annotation.time_.t_ = to_ns(annotation.time_.approx_t_) / kNsPerUs;
  return all;
}

void CudaHistory::push_compile_context(std::string text) { compile_contexts.push_back(std::move(text)); }
void CudaHistory::pop_compile_context() {
  if (!compile_contexts.empty()) compile_contexts.pop_back();
}
void CudaHistory::set_user_metadata(std::string text) { metadata_of_user = std::move(text); }
const std::string& CudaHistory::user_metadata() { return metadata_of_user; }

}  // namespace cistern
