#include "cistern/observe/svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <tuple>
#include <unordered_map>

#include "cistern/base/units.hpp"

namespace cistern {
namespace {

constexpr double kPlotWidth = 440;
constexpr double kPlotHeight = 280;
constexpr double kLeft = 64;  // room for the y axis, of the first panel
constexpr double kGap = 24;   // between panels
constexpr double kTop = 56;
constexpr double kBottom = 64;
constexpr double kThinPixels = 3;  // blocks below get no outline and are merged with their like

enum Layer : std::size_t { kUnused, kLong, kShort, kLayerCount };
constexpr std::array<const char*, kLayerCount> kFill{"#d9d9d9", "#4c78a8", "#f58518"};
constexpr std::array<const char*, kLayerCount> kMeaning{
    "reserved, not in use", "block in use for over half of the run", "block in use for less"};

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  std::array<char, 512> text{};
  std::va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text.data(), text.size(), pattern, arguments);
  va_end(arguments);
  return text.data();
}

std::string escape(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    switch (letter) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      default:
        result += letter;
    }
  }
  return result;
}

/// Address space that held memory at some time, packed.
class AddressScale {
 public:
  explicit AddressScale(const std::vector<Event>& events) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> spans;
    for (const Event& event : events) {
      if (event.kind == EventKind::kCommit) spans.emplace_back(event.address, event.address + event.bytes);
    }
    std::sort(spans.begin(), spans.end());
    for (const auto& [begin, end] : spans) {
      if (pieces_.empty() || begin > pieces_.back().end) {
        pieces_.push_back({begin, begin, bytes_});
      }
      Piece& piece = pieces_.back();
      if (end > piece.end) {
        bytes_ += end - piece.end;
        piece.end = end;
      }
    }
  }

  std::uint64_t bytes() const noexcept { return bytes_; }

  /// Distance from the bottom in bytes. Requires an address in a span that was committed, or at its end.
  std::uint64_t height(std::uint64_t address) const {
    const auto after =
        std::upper_bound(pieces_.begin(), pieces_.end(), address,
                         [](std::uint64_t value, const Piece& piece) { return value < piece.begin; });
    if (after == pieces_.begin()) return 0;
    const Piece& piece = *std::prev(after);
    return piece.height + std::min(address, piece.end) - piece.begin;
  }

 private:
  struct Piece {
    std::uint64_t begin, end, height;
  };
  std::vector<Piece> pieces_;
  std::uint64_t bytes_ = 0;
};

/// In operations and bytes; `from`/`to` in time, `low`/`high` in height.
struct Box {
  Layer layer = kUnused;
  double from = 0, to = 0, low = 0, high = 0;
  double area() const noexcept { return (to - from) * (high - low); }
};

/// What the events of one panel look like.
struct Picture {
  std::vector<Box> boxes;
  double operation_count = 0;
  double height_bytes = 0;
  std::uint64_t peak_reserved_bytes = 0;
  std::uint64_t peak_live_bytes = 0;
  std::vector<std::pair<double, double>> reserved;  ///< (time, bytes) at every change
};

class PictureBuilder {
 public:
  explicit PictureBuilder(const std::vector<Event>& events) : scale_(events) {
    for (const Event& event : events) add(event);
    while (!committed_.empty()) {
      const auto [begin, span] = *committed_.begin();
      take_memory(begin, span.end);
    }
    for (const auto& [address, block] : live_) close_block(address, block);
    picture_.operation_count = std::max(time_, 1.0);
    picture_.height_bytes = static_cast<double>(std::max(scale_.bytes(), picture_.peak_reserved_bytes));
    for (Box& box : picture_.boxes) {
      if (box.layer == kShort && box.to - box.from > picture_.operation_count / 2) box.layer = kLong;
    }
    picture_.reserved.emplace_back(time_, static_cast<double>(reserved_bytes_));
  }

  Picture take() { return std::move(picture_); }

 private:
  struct Span {
    std::uint64_t end;
    double since;
  };
  struct Live {
    std::uint64_t bytes, granted_bytes;
    double since;
  };

  void add(const Event& event) {
    switch (event.kind) {
      case EventKind::kAllocate:
        live_[event.address] = {event.bytes, event.granted_bytes, time_++};
        live_bytes_ += event.bytes;
        picture_.peak_live_bytes = std::max(picture_.peak_live_bytes, live_bytes_);
        break;
      case EventKind::kFree:
        if (const auto found = live_.find(event.address); found != live_.end()) {
          time_ += 1;
          live_bytes_ -= found->second.bytes;
          close_block(found->first, found->second);
          live_.erase(found);
        }
        break;
      case EventKind::kCommit:
        committed_[event.address] = {event.address + event.bytes, time_};
        reserve(reserved_bytes_ + event.bytes);
        break;
      case EventKind::kDecommit:
        take_memory(event.address, event.address + event.bytes);
        reserve(reserved_bytes_ - event.bytes);
        break;
      default:
        break;
    }
  }

  void reserve(std::uint64_t bytes) {
    picture_.reserved.emplace_back(time_, static_cast<double>(reserved_bytes_));
    reserved_bytes_ = bytes;
    picture_.peak_reserved_bytes = std::max(picture_.peak_reserved_bytes, bytes);
    picture_.reserved.emplace_back(time_, static_cast<double>(bytes));
  }

  void close_block(std::uint64_t address, const Live& block) {
    push(kShort, block.since, address, address + block.granted_bytes);
  }

  /// Ends what is committed in [begin, end), which may cover parts of several commits.
  void take_memory(std::uint64_t begin, std::uint64_t end) {
    auto at = committed_.upper_bound(begin);
    if (at != committed_.begin()) --at;
    while (at != committed_.end() && at->first < end) {
      const std::uint64_t first = at->first;
      const Span span = at->second;
      if (span.end <= begin) {
        ++at;
        continue;
      }
      at = committed_.erase(at);
      push(kUnused, span.since, std::max(first, begin), std::min(span.end, end));
      if (first < begin) committed_[first] = {begin, span.since};
      if (span.end > end) at = committed_.emplace(end, Span{span.end, span.since}).first;
    }
  }

  void push(Layer layer, double since, std::uint64_t begin, std::uint64_t end) {
    const auto low = static_cast<double>(scale_.height(begin));
    picture_.boxes.push_back({layer, since, time_, low, low + static_cast<double>(end - begin)});
  }

  AddressScale scale_;
  Picture picture_;
  std::map<std::uint64_t, Span> committed_;
  std::unordered_map<std::uint64_t, Live> live_;
  double time_ = 0;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t reserved_bytes_ = 0;
};

/// Turns operations and bytes into pixels of one panel, up to there down.
struct Pixels {
  double left = 0, per_operation = 0, per_byte = 0;
  double x(double operation) const noexcept { return left + operation * per_operation; }
  double y(double bytes) const noexcept { return kTop + kPlotHeight - bytes * per_byte; }
  Box place(const Box& box) const noexcept {
    return {box.layer, x(box.from), x(box.to), y(box.high), y(box.low)};
  }
};

bool is_thin(const Box& box) noexcept {
  return box.high - box.low < kThinPixels;
}

/// Joins thin boxes of one layer that stand on each other for the same time, to half a pixel.
std::vector<Box> merge_thin(std::vector<Box> boxes) {
  const auto key = [](const Box& box) {
    return std::tuple(box.layer, !is_thin(box), static_cast<long>(box.from * 2),
                      static_cast<long>(box.to * 2), box.low);
  };
  std::sort(boxes.begin(), boxes.end(),
            [&](const Box& left, const Box& right) { return key(left) < key(right); });
  std::vector<Box> merged;
  std::vector<bool> thin;
  for (const Box& box : boxes) {
    const bool box_is_thin = is_thin(box);
    if (box_is_thin && !merged.empty() && thin.back()) {
      Box& below = merged.back();
      const bool same_time = static_cast<long>(below.from * 2) == static_cast<long>(box.from * 2) &&
                             static_cast<long>(below.to * 2) == static_cast<long>(box.to * 2);
      if (below.layer == box.layer && same_time && box.low - below.high < 0.2) {
        below.high = std::max(below.high, box.high);
        continue;
      }
    }
    merged.push_back(box);
    thin.push_back(box_is_thin);
  }
  return merged;
}

void draw_boxes(std::string& svg, std::vector<Box> boxes, std::size_t most) {
  boxes = merge_thin(std::move(boxes));
  if (boxes.size() > most) {
    std::nth_element(boxes.begin(), boxes.begin() + static_cast<std::ptrdiff_t>(most), boxes.end(),
                     [](const Box& left, const Box& right) { return left.area() > right.area(); });
    boxes.resize(most);
  }
  std::array<std::array<std::string, 2>, kLayerCount> paths;  // by layer, without and with outline
  for (const Box& box : boxes) {
    const double height = std::max(box.high - box.low, 0.3);
    const double width = std::max(box.to - box.from, 0.3);
    const bool outlined = box.layer != kUnused && !is_thin(box) && width > 1;
    paths[box.layer][outlined ? 1 : 0] +=
        format("M%.1f %.1fh%.1fv%.1fh%.1fz", box.from, box.low, width, height, -width);
  }
  for (std::size_t layer = 0; layer < kLayerCount; ++layer) {
    for (const bool outlined : {false, true}) {
      const std::string& path = paths[layer][outlined ? 1 : 0];
      if (path.empty()) continue;
      svg += format("<path fill=\"%s\"%s d=\"", kFill[layer],
                    outlined ? " stroke=\"#fff\" stroke-width=\".5\"" : "");
      svg += path + "\"/>\n";
    }
  }
}

/// The reserved line, to half a pixel.
void draw_reserved(std::string& svg, const Picture& picture, const Pixels& pixels) {
  svg += "<path fill=\"none\" stroke=\"#222\" stroke-width=\"1.5\" d=\"";
  double last_x = -1, last_y = -1;
  for (const auto& [time, bytes] : picture.reserved) {
    const double x = pixels.x(time), y = pixels.y(bytes);
    if (std::abs(x - last_x) < 0.5 && std::abs(y - last_y) < 0.5) continue;
    svg += format("%c%.1f %.1f", last_x < 0 ? 'M' : 'L', x, y);
    last_x = x;
    last_y = y;
  }
  svg += "\"/>\n";
}

void draw_text(std::string& svg, double x, double y, const char* anchor, const std::string& text) {
  svg += format("<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"%s\">", x, y, anchor) + escape(text) + "</text>\n";
}

void draw_panel(std::string& svg, const HeapPanel& panel, const Picture& picture, const Pixels& pixels,
                std::size_t most_rectangles) {
  svg += format("<rect x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" fill=\"#fafafa\"/>\n",
                pixels.left, kTop, kPlotWidth, kPlotHeight);
  std::vector<Box> boxes;
  boxes.reserve(picture.boxes.size());
  for (const Box& box : picture.boxes) boxes.push_back(pixels.place(box));
  draw_boxes(svg, std::move(boxes), most_rectangles);
  const double bound_y = pixels.y(static_cast<double>(picture.peak_live_bytes));
  svg += format("<path stroke=\"#c00\" stroke-dasharray=\"4 3\" d=\"M%.1f %.1fh%.0f\"/>\n", pixels.left,
                bound_y, kPlotWidth);
  draw_reserved(svg, picture, pixels);
  draw_text(svg, pixels.left, kTop - 8, "start",
            panel.title + ": at most " + format_bytes(picture.peak_reserved_bytes) + " reserved");
  draw_text(svg, pixels.left + kPlotWidth, kTop + kPlotHeight + 16, "end",
            format("%.0f operations", picture.operation_count));
}

void draw_axis(std::string& svg, double height_bytes, const Pixels& pixels) {
  double step = static_cast<double>(kKiB);
  while (height_bytes / step > 5) step *= 2;
  for (double bytes = 0; bytes <= height_bytes; bytes += step) {
    draw_text(svg, kLeft - 6, pixels.y(bytes) + 4, "end", format_bytes(static_cast<std::size_t>(bytes)));
  }
}

void draw_legend(std::string& svg) {
  const double y = kTop + kPlotHeight + 40;
  double x = kLeft;
  const auto entry = [&](const std::string& mark, const std::string& meaning) {
    svg += mark;
    draw_text(svg, x + 18, y, "start", meaning);
    x += 32 + 6.2 * static_cast<double>(meaning.size());
  };
  for (const Layer layer : {kLong, kShort, kUnused}) {
    entry(format("<rect x=\"%.0f\" y=\"%.0f\" width=\"12\" height=\"10\" fill=\"%s\"/>", x, y - 9,
                 kFill[layer]),
          kMeaning[layer]);
  }
  entry(format("<path stroke=\"#222\" stroke-width=\"1.5\" d=\"M%.0f %.0fh14\"/>", x, y - 4), "reserved");
  entry(format("<path stroke=\"#c00\" stroke-dasharray=\"4 3\" d=\"M%.0f %.0fh14\"/>", x, y - 4),
        "peak in use: the lower bound");
}

}  // namespace

std::string draw_heap(const std::string& title, const std::vector<HeapPanel>& panels,
                      std::size_t most_rectangles) {
  std::vector<Picture> pictures;
  double height_bytes = 1;
  for (const HeapPanel& panel : panels) {
    pictures.push_back(PictureBuilder(panel.events).take());
    height_bytes = std::max(height_bytes, pictures.back().height_bytes * 1.04);
  }
  const double count = static_cast<double>(panels.size());
  const double width = kLeft + count * kPlotWidth + std::max(count, 1.0) * kGap;
  std::string svg = format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
      width, kTop + kPlotHeight + kBottom);
  svg += "<title>" + escape(title) + "</title>\n<g font-size=\"13\">";
  draw_text(svg, kLeft, 24, "start", title);
  svg += "</g>\n";
  Pixels pixels{kLeft, 0, kPlotHeight / height_bytes};
  draw_axis(svg, height_bytes, pixels);
  for (std::size_t index = 0; index < panels.size(); ++index) {
    pixels.per_operation = kPlotWidth / pictures[index].operation_count;
    draw_panel(svg, panels[index], pictures[index], pixels, most_rectangles / panels.size());
    pixels.left += kPlotWidth + kGap;
  }
  draw_legend(svg);
  return svg + "</svg>\n";
}

}  // namespace cistern
