// Aho-Corasick: the current node is the longest end of the text that begins some stop string, so
// its depth is what must be held back, and its match the stop string that is complete. Links that
// lead to shorter ends make the work linear in the text, however the strings overlap; comparing
// every string at every place is quadratic for strings like "aaaa...b".
#include "text/stop_strings.h"

#include <utility>

namespace minim {

// Children of a node form a list; a node of the trie has few, and at most 256.
int32_t StopStrings::child(int32_t node, char byte) const {
  int32_t at = nodes_[static_cast<size_t>(node)].first_child;
  while (at != kNone && nodes_[static_cast<size_t>(at)].byte != byte) {
    at = nodes_[static_cast<size_t>(at)].next_sibling;
  }
  return at;
}

int32_t StopStrings::next(int32_t node, char byte) const {
  while (true) {
    const int32_t found = child(node, byte);
    if (found != kNone) return found;
    if (node == kRoot) return kRoot;
    node = nodes_[static_cast<size_t>(node)].shorter;
  }
}

void StopStrings::insert(size_t stop) {
  int32_t node = kRoot;
  for (const char byte : stops_[stop]) {
    int32_t to = child(node, byte);
    if (to == kNone) {
      to = static_cast<int32_t>(nodes_.size());
      Node& parent = nodes_[static_cast<size_t>(node)];
      const int32_t first = std::exchange(parent.first_child, to);
      const size_t depth = parent.depth + 1;
      nodes_.push_back({.byte = byte, .depth = depth, .next_sibling = first});
    }
    node = to;
  }
  nodes_[static_cast<size_t>(node)].match = static_cast<int32_t>(stop);
}

// Breadth first: a node's link leads to a node of smaller depth, which is linked already.
void StopStrings::link() {
  std::vector<int32_t> queue = {kRoot};
  for (size_t at = 0; at < queue.size(); ++at) {
    const int32_t parent = queue[at];
    for (int32_t node = nodes_[static_cast<size_t>(parent)].first_child; node != kNone;
         node = nodes_[static_cast<size_t>(node)].next_sibling) {
      Node& linked = nodes_[static_cast<size_t>(node)];
      if (parent != kRoot) {
        linked.shorter = next(nodes_[static_cast<size_t>(parent)].shorter, linked.byte);
      }
      if (linked.match == kNone) {
        linked.match = nodes_[static_cast<size_t>(linked.shorter)].match;
      }
      queue.push_back(node);
    }
  }
}

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)), nodes_(1) {
  for (size_t stop = 0; stop < stops_.size(); ++stop) {
    if (!stops_[stop].empty()) insert(stop);
  }
  link();
}

// Takes the first n held bytes out. They are dropped from the buffer only when they are most of it:
// moving the rest each time would make long stop strings quadratic.
std::string StopStrings::release(size_t n) {
  std::string shown = held_.substr(released_, n);
  released_ += n;
  if (released_ > held_.size() / 2) {
    held_.erase(0, released_);
    released_ = 0;
  }
  return shown;
}

std::string StopStrings::push(std::string_view text) {
  if (matched_) return {};
  for (size_t i = 0; i < text.size(); ++i) {
    node_ = next(node_, text[i]);
    const int32_t match = nodes_[static_cast<size_t>(node_)].match;
    if (match == kNone) continue;
    matched_ = stops_[static_cast<size_t>(match)];
    held_ += text.substr(0, i + 1);
    std::string shown = release(held_.size() - released_ - matched_->size());
    held_.clear();
    released_ = 0;
    return shown;
  }
  held_ += text;
  return release(held_.size() - released_ - nodes_[static_cast<size_t>(node_)].depth);
}

std::string StopStrings::flush() {
  node_ = kRoot;
  return release(held_.size() - released_);
}

}  // namespace minim
