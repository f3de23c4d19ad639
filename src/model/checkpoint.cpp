// Owns the mapped shards of a folder and one table from tensor name to bytes.
//
// All shards are mapped for the life of the checkpoint: a mapping costs address space only, and
// the embedding table is read from it while the model runs. Which files are shards is what
// model.safetensors.index.json says, else every *.safetensors of the folder. The index is checked
// against the headers in one direction: each tensor that it names must be in the shard that it
// names. Names of shards must be plain; that a plain name is a symbolic link is allowed, since
// download caches are built of links.
#include "model/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>

#include "base/json_fields.h"
#include "base/mapped_file.h"

namespace minim {
namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kLfsMark = "version https://git-lfs";
constexpr size_t kMaxName = 255;                   // of a file, in every usual file system
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

struct Shard {
  std::string name;
  MappedFile file;
};

struct Entry {
  TensorView view;
  size_t shard = 0;
};

using Tensors = std::map<std::string, Entry, std::less<>>;
// Tensor name -> shard name.
using WeightMap = std::map<std::string, std::string>;

// The name of a file in the folder, fit for a message: short and without control characters.
bool plain_name(std::string_view name) {
  const auto unfit = [](char c) {
    return (c >= 0 && c < ' ') || c == 0x7f || c == '/' || c == '\\';
  };
  return !name.empty() && name[0] != '.' && name.size() <= kMaxName &&
         std::none_of(name.begin(), name.end(), unfit);
}

bool is_lfs_pointer(std::span<const uint8_t> data) {
  return data.size() >= kLfsMark.size() &&
         std::memcmp(data.data(), kLfsMark.data(), kLfsMark.size()) == 0;
}

Result<WeightMap> parse_index(const std::string& text, const std::string& path) {
  const Result<SortedJson> document = parse_sorted_json(text, path);
  if (!document) return document.error();
  const auto map = document->is_object() ? document->find("weight_map") : document->end();
  if (!document->is_object() || map == document->end() || !map->is_object() || map->empty()) {
    return Error{Code::kInvalid,
                 fmt::format("{}: found no weight_map, wanted an object of tensor to shard", path)};
  }
  WeightMap weight_map;
  for (auto it = map->begin(); it != map->end(); ++it) {
    if (!it->is_string() || !plain_name(it->get_ref<const std::string&>())) {
      return Error{Code::kInvalid, fmt::format("{}: tensor {} is in {}, wanted the plain name of a "
                                               "file in the folder",
                                               path, in_quotes(it.key()), describe_json(*it))};
    }
    weight_map.emplace(it.key(), it->get<std::string>());
  }
  return weight_map;
}

Result<std::vector<std::string>> list_shards(const std::string& dir) {
  std::error_code error;
  std::filesystem::directory_iterator it(dir, error);
  std::vector<std::string> names;
  for (const std::filesystem::directory_iterator end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (plain_name(name) && name.ends_with(kSuffix)) names.push_back(name);
  }
  if (error) {
    return Error{error == std::errc::no_such_file_or_directory ? Code::kNotFound : Code::kIo,
                 fmt::format("cannot read the model folder {}: {}", dir, error.message())};
  }
  if (names.empty()) {
    return Error{Code::kNotFound, fmt::format("{} holds no weights: wanted {} or *{} files", dir,
                                              kIndexName, kSuffix)};
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Header text and data area of a shard.
struct Parts {
  std::string_view header;
  std::span<const uint8_t> data;
};
Result<Parts> split(std::span<const uint8_t> file, const std::string& path) {
  if (is_lfs_pointer(file)) {
    return Error{Code::kInvalid,
                 fmt::format("{} is a Git LFS pointer, not the weights (run: git lfs pull)", path)};
  }
  uint64_t length = 0;
  if (file.size() < sizeof length) {
    return Error{Code::kInvalid,
                 fmt::format("{} has {} bytes, wanted a safetensors file (truncated "
                             "download?)",
                             path, file.size())};
  }
  std::memcpy(&length, file.data(), sizeof length);
  const uint64_t rest = file.size() - sizeof length;
  if (length > kMaxHeaderBytes || length > rest) {
    return Error{Code::kInvalid,
                 fmt::format("{}: header of {} bytes in a file of {}, wanted at most "
                             "{} (truncated, or not a safetensors file)",
                             path, length, file.size(), std::min(kMaxHeaderBytes, rest))};
  }
  const char* text = reinterpret_cast<const char*>(file.data()) + sizeof length;
  return Parts{.header = {text, static_cast<size_t>(length)},
               .data = file.subspan(sizeof length + static_cast<size_t>(length))};
}

}  // namespace

struct Checkpoint::State {
  std::string dir;
  std::vector<Shard> shards;
  Tensors tensors;
  size_t total_bytes = 0;

  Result<Ok> add_shard(const std::string& name);
  Result<Ok> check_index(const WeightMap& weight_map) const;
};

Result<Ok> Checkpoint::State::add_shard(const std::string& name) {
  const std::string path = dir + "/" + name;
  Result<MappedFile> file = MappedFile::open(path);
  if (!file) {
    return Error{file.error().code, fmt::format("shard {}: {}", name, file.error().message)};
  }
  const Result<Parts> parts = split(file->data(), path);
  if (!parts) return parts.error();
  Result<std::vector<HeaderEntry>> entries =
      parse_safetensors_header(parts->header, parts->data.size(), path);
  if (!entries) return entries.error();
  for (HeaderEntry& entry : *entries) {
    const size_t bytes = static_cast<size_t>(entry.end - entry.begin);
    Entry tensor{.view = {.dtype = entry.dtype,
                          .shape = std::move(entry.shape),
                          .data = parts->data.subspan(static_cast<size_t>(entry.begin), bytes)},
                 .shard = shards.size()};
    const auto [it, added] = tensors.emplace(std::move(entry.name), std::move(tensor));
    if (!added) {
      return Error{Code::kInvalid,
                   fmt::format("tensor {} is both in {} and in {}", in_quotes(it->first),
                               shards[it->second.shard].name, name)};
    }
    total_bytes += bytes;
  }
  shards.push_back({.name = name, .file = std::move(*file)});
  return Ok{};
}

Result<Ok> Checkpoint::State::check_index(const WeightMap& weight_map) const {
  const std::pair<const std::string, std::string>* first = nullptr;
  size_t n_absent = 0;
  for (const auto& item : weight_map) {
    const auto it = tensors.find(item.first);
    if (it != tensors.end() && shards[it->second.shard].name == item.second) continue;
    if (n_absent++ == 0) first = &item;
  }
  if (n_absent == 0) return Ok{};
  return Error{Code::kInvalid,
               fmt::format("{} places {} in {}, which does not hold it ({} such "
                           "tensors; is the shard of another version?)",
                           kIndexName, in_quotes(first->first), first->second, n_absent)};
}

Result<Checkpoint> Checkpoint::open(const std::string& model_dir) {
  auto state = std::make_unique<State>();
  state->dir = model_dir;
  const std::string index_path = fmt::format("{}/{}", model_dir, kIndexName);
  const Result<std::optional<std::string>> index = read_plain_file(index_path);
  if (!index) return index.error();
  WeightMap weight_map;
  std::vector<std::string> names;
  if (index->has_value()) {
    Result<WeightMap> read = parse_index(**index, index_path);
    if (!read) return read.error();
    weight_map = std::move(*read);
    for (const auto& item : weight_map) names.push_back(item.second);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
  } else {
    Result<std::vector<std::string>> listed = list_shards(model_dir);
    if (!listed) return listed.error();
    names = std::move(*listed);
  }
  for (const std::string& name : names) {
    if (Result<Ok> added = state->add_shard(name); !added) return added.error();
  }
  if (Result<Ok> checked = state->check_index(weight_map); !checked) return checked.error();
  return Checkpoint(std::move(state));
}

Checkpoint::Checkpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto it = state_->tensors.find(name);
  return it == state_->tensors.end() ? nullptr : &it->second.view;
}

std::vector<std::string_view> Checkpoint::names() const {
  std::vector<std::string_view> names;
  names.reserve(state_->tensors.size());
  for (const auto& item : state_->tensors) names.push_back(item.first);
  return names;
}

size_t Checkpoint::total_bytes() const { return state_->total_bytes; }
size_t Checkpoint::n_shards() const { return state_->shards.size(); }
const std::string& Checkpoint::dir() const { return state_->dir; }

std::vector<Checkpoint::ShardFile> Checkpoint::shards() const {
  std::vector<ShardFile> files;
  for (const Shard& shard : state_->shards) {
    files.push_back({.name = shard.name, .bytes = shard.file.data()});
  }
  return files;
}

void Checkpoint::will_need(std::span<const uint8_t> data) const { advise_will_need(data); }
void Checkpoint::release(std::span<const uint8_t> data) const { advise_release(data); }

}  // namespace minim
