#include "apps/classify/image_names.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <iostream>

#include "apps/common/interrupt.hpp"
#include "cistern/observe/files.hpp"
#include "models/image_file.hpp"

namespace cistern::classify {
namespace {

namespace fs = std::filesystem;

constexpr int kLookForInterruptMs = 200;
constexpr std::size_t kLongestName = 1 << 16;

[[noreturn]] void fail_errno(const std::string& name, const char* what) {
  throw FileError(name, std::string(what) + ": " + std::strerror(errno));
}

enum class Wait { kNo, kYes };

// Whether there is something to read. False also where an interrupt came while waiting.
bool readable(int descriptor, Wait wait) {
  pollfd question{descriptor, POLLIN, 0};
  do {
    if (::poll(&question, 1, wait == Wait::kYes ? kLookForInterruptMs : 0) > 0) return true;
  } while (wait == Wait::kYes && apps::pending_interrupt() == 0);
  return false;
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ > STDIN_FILENO) ::close(number_);
  }
  int number() const noexcept { return number_; }

 private:
  int number_;
};

// The lines of a file or pipe.
class Lines {
 public:
  Lines(std::string name, int descriptor) : name_(std::move(name)), descriptor_(descriptor) {
    if (descriptor < 0) fail_errno(name_, "cannot be read");
  }

  /// The next line that is not empty, if there is one now or, where asked to wait, at all.
  std::optional<std::string> next(Wait wait) {
    for (;;) {
      const std::size_t end = pending_.find('\n');
      if (end == std::string::npos && !ended_) {
        if (!fill(wait)) return std::nullopt;
        continue;
      }
      if (pending_.empty()) return std::nullopt;
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end == std::string::npos ? end : end + 1);
      if (line.ends_with('\r')) line.pop_back();
      if (!line.empty()) return line;
    }
  }

  bool at_end() const { return ended_ && pending_.empty(); }

 private:
  bool fill(Wait wait) {
    if (!readable(descriptor_.number(), wait)) return false;
    std::array<char, 4096> buffer;
    const ssize_t got = ::read(descriptor_.number(), buffer.data(), buffer.size());
    if (got < 0 && errno != EINTR && errno != EAGAIN) fail_errno(name_, "cannot be read");
    if (got == 0) ended_ = true;
    if (got > 0) pending_.append(buffer.data(), static_cast<std::size_t>(got));
    if (pending_.size() > kLongestName && pending_.find('\n') == std::string::npos)
      throw FileError(name_, "has a line that is too long for a path; a list has one path a line");
    return true;
  }

  std::string name_;
  Descriptor descriptor_;
  std::string pending_;
  bool ended_ = false;
};

class ListedNames final : public ImageNames {
 public:
  explicit ListedNames(const std::vector<std::string>& inputs) {
    for (const std::string& input : inputs) add(input);
  }

  std::vector<std::string> take(std::size_t most) override {
    std::vector<std::string> names;
    while (names.size() < most && !parts_.empty() && apps::pending_interrupt() == 0) {
      if (std::optional<std::string> name = next(names.empty() ? Wait::kYes : Wait::kNo)) {
        names.push_back(std::move(*name));
      } else if (list_ && !list_->at_end()) {
        break;  // Nothing there now.
      } else {
        list_.reset();
        parts_.pop_front();
      }
    }
    return names;
  }

  std::optional<std::int64_t> total() const override {
    std::int64_t count = 0;
    for (const Part& part : parts_) {
      if (part.is_list) return std::nullopt;
      count += static_cast<std::int64_t>(part.names.size());
    }
    return count;
  }

 private:
  struct Part {
    bool is_list;
    std::deque<std::string> names;  // Of the list; or images.
  };

  void add(const std::string& input) {
    std::error_code error;
    if (input == "-" || (fs::path(input).extension() == ".txt" && !fs::is_directory(input, error))) {
      parts_.push_back({true, {input}});
      return;
    }
    Part part{false, {}};
    if (!fs::is_directory(input, error)) {
      part.names.push_back(input);
    } else {
      try {
        for (const fs::path& file : models::images_below(input)) part.names.push_back(file.string());
      } catch (const fs::filesystem_error& failure) {
        throw FileError(failure.path1().string(), "cannot be read: " + failure.code().message());
      }
      if (part.names.empty()) throw FileError(input, "holds no image (.jpg, .jpeg, .png, .webp, .bmp)");
    }
    parts_.push_back(std::move(part));
  }

  std::optional<std::string> next(Wait wait) {
    Part& part = parts_.front();
    if (part.is_list) {
      const std::string& name = part.names.front();
      if (!list_) {
        list_.emplace(name == "-" ? "stdin" : name,
                      name == "-" ? STDIN_FILENO : ::open(name.c_str(), O_RDONLY | O_CLOEXEC));
      }
      return list_->next(wait);
    }
    if (part.names.empty()) return std::nullopt;
    std::string name = std::move(part.names.front());
    part.names.pop_front();
    return name;
  }

  std::deque<Part> parts_;
  std::optional<Lines> list_;  // The first part's, once begun.
};

class WatchedNames final : public ImageNames {
 public:
  explicit WatchedNames(const std::string& folder)
      : folder_(folder), inotify_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    std::error_code error;
    if (!fs::is_directory(folder, error)) throw FileError(folder, "is no folder to watch");
    // Watched before it is listed: what comes in between is rather classified twice than never.
    if (inotify_.number() < 0 ||
        ::inotify_add_watch(inotify_.number(), folder.c_str(), IN_CLOSE_WRITE | IN_MOVED_TO | IN_ONLYDIR) < 0)
      fail_errno(folder, "cannot be watched");
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      add(entry.path().filename().string());
    std::sort(names_.begin(), names_.end());
  }

  std::vector<std::string> take(std::size_t most) override {
    while (names_.empty() && readable(inotify_.number(), Wait::kYes)) read_events();
    while (names_.size() < most && readable(inotify_.number(), Wait::kNo)) read_events();
    std::vector<std::string> taken;
    while (taken.size() < most && !names_.empty() && apps::pending_interrupt() == 0) {
      taken.push_back((folder_ / names_.front()).string());
      names_.pop_front();
    }
    return taken;
  }

 private:
  void add(const std::string& name) {
    std::error_code error;
    if (models::has_image_name(name) && !fs::is_directory(folder_ / name, error)) names_.push_back(name);
  }

  void read_events() {
    alignas(inotify_event) std::array<char, 4096> buffer;
    const ssize_t got = ::read(inotify_.number(), buffer.data(), buffer.size());
    for (ssize_t at = 0; at < got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      if ((event->mask & IN_Q_OVERFLOW) != 0)
        std::cerr << "cistern-classify: " << folder_.string()
                  << ": images came faster than they were classified; "
                  << "some were missed\n";
      if ((event->mask & IN_IGNORED) != 0)
        throw FileError(folder_.string(), "is no longer there to be watched");
      if (event->len > 0) add(event->name);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }

  fs::path folder_;
  Descriptor inotify_;
  std::deque<std::string> names_;
};

}  // namespace

std::unique_ptr<ImageNames> names_from(const std::vector<std::string>& inputs) {
  return std::make_unique<ListedNames>(inputs);
}

std::unique_ptr<ImageNames> names_in(const std::string& watched_folder) {
  return std::make_unique<WatchedNames>(watched_folder);
}

}  // namespace cistern::classify
