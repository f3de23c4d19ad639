// The index as one SQLite table. WAL with synchronous=NORMAL: a commit is a write without fsync,
// which a killed process leaves whole; after a loss of power the newest rows may be missing, and a
// missing or stale row is a miss. The file is untrusted: schema, types and pages are checked before
// a row is read. A log of our own would need all of this again; LMDB and RocksDB are a second
// storage engine for one table of some thousand rows.
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "engine/disk_index.h"

namespace minim {
namespace {

// Compared as text with what the file says: a table of another shape is another version.
constexpr std::string_view kSchema =
    "CREATE TABLE record (segment INTEGER NOT NULL, slot INTEGER NOT NULL, key BLOB NOT NULL, "
    "scope BLOB NOT NULL, used INTEGER NOT NULL, PRIMARY KEY (segment, slot)) WITHOUT ROWID";
// No memory maps and no file shared with other processes: a lock on the directory does that.
constexpr const char* kSettings =
    "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
    "PRAGMA mmap_size = 0; PRAGMA wal_autocheckpoint = 256; PRAGMA journal_size_limit = 4194304;"
    "PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF";

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
struct FinishStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, FinishStatement>;

// One line, whatever names a damaged file puts into it.
Error index_error(sqlite3* database) {
  std::string reason = database == nullptr ? "no memory" : sqlite3_errmsg(database);
  for (char& c : reason) {
    if (c < ' ' || c > '~') c = '?';
  }
  return Error{Code::kIo, "index: " + reason};
}

Result<Ok> execute(sqlite3* database, const char* sql) {
  if (sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return Ok{};
  return index_error(database);
}

Result<Statement> prepare(sqlite3* database, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(database, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr) !=
      SQLITE_OK) {
    return index_error(database);
  }
  return Statement(statement);
}

// The text in the first column of the first row; empty when there is no row.
Result<std::string> first_text(sqlite3* database, const char* sql) {
  const Result<Statement> statement = prepare(database, sql);
  if (!statement) return statement.error();
  const int state = sqlite3_step(statement->get());
  if (state == SQLITE_DONE) return std::string();
  if (state != SQLITE_ROW) return index_error(database);
  const unsigned char* text = sqlite3_column_text(statement->get(), 0);
  if (text == nullptr) return std::string();
  return std::string(reinterpret_cast<const char*>(text),
                     static_cast<size_t>(sqlite3_column_bytes(statement->get(), 0)));
}

Result<Ok> check_schema(sqlite3* database) {
  const Result<std::string> n = first_text(database, "SELECT count(*) FROM sqlite_schema");
  if (!n) return n.error();
  if (*n == "0") return execute(database, std::string(kSchema).c_str());
  const Result<std::string> found = first_text(database, "SELECT sql FROM sqlite_schema");
  if (!found) return found.error();
  if (*n != "1" || *found != kSchema) return Error{Code::kInvalid, "index: it has other tables"};
  const Result<std::string> check = first_text(database, "PRAGMA quick_check(1)");
  if (!check) return check.error();
  if (*check != "ok") return Error{Code::kInvalid, "index: its pages do not fit together"};
  return Ok{};
}

bool read_digest(sqlite3_stmt* statement, int column, Sha256::Digest& digest) {
  if (sqlite3_column_type(statement, column) != SQLITE_BLOB ||
      sqlite3_column_bytes(statement, column) != static_cast<int>(digest.size())) {
    return false;
  }
  std::memcpy(digest.data(), sqlite3_column_blob(statement, column), digest.size());
  return true;
}

bool read_number(sqlite3_stmt* statement, int column, int64_t most, int64_t& value) {
  if (sqlite3_column_type(statement, column) != SQLITE_INTEGER) return false;
  value = sqlite3_column_int64(statement, column);
  return value >= 0 && value <= most;
}

Result<Ok> read_rows(sqlite3* database, std::vector<IndexRow>& rows) {
  const Result<Statement> select =
      prepare(database, "SELECT segment, slot, key, scope, used FROM record");
  if (!select) return select.error();
  int state = SQLITE_ROW;
  while ((state = sqlite3_step(select->get())) == SQLITE_ROW) {
    IndexRow row;
    int64_t segment = 0, slot = 0, used = 0;
    if (!read_number(select->get(), 0, INT64_MAX, segment) ||
        !read_number(select->get(), 1, UINT32_MAX, slot) ||
        !read_digest(select->get(), 2, row.key) || !read_digest(select->get(), 3, row.scope) ||
        !read_number(select->get(), 4, INT64_MAX, used)) {
      return Error{Code::kInvalid, "index: a row has values of other kinds"};
    }
    row.slot = {static_cast<uint64_t>(segment), static_cast<uint32_t>(slot)};
    row.used = static_cast<uint64_t>(used);
    rows.push_back(row);
  }
  if (state != SQLITE_DONE) return index_error(database);
  return Ok{};
}

// Prompts can be guessed from what is cached: the file is its owner's alone.
Result<Ok> make_private_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
  if (fd < 0) return Error{Code::kIo, fmt::format("index: {}", std::strerror(errno))};
  close(fd);
  return Ok{};
}

}  // namespace

struct DiskIndex::State {
  Database database;
  Statement insert, touch, erase, erase_segment;

  // Binds the numbers, runs, resets.
  Result<Ok> run(const Statement& statement, std::span<const uint64_t> numbers);
  Result<Ok> run_insert(const IndexRow& row);
  Result<Ok> prepare_all();
};

Result<Ok> DiskIndex::State::run(const Statement& statement, std::span<const uint64_t> numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    sqlite3_bind_int64(statement.get(), static_cast<int>(i) + 1, static_cast<int64_t>(numbers[i]));
  }
  const bool done = sqlite3_step(statement.get()) == SQLITE_DONE;
  Result<Ok> result = done ? Result<Ok>(Ok{}) : index_error(database.get());
  sqlite3_reset(statement.get());
  return result;
}

Result<Ok> DiskIndex::State::run_insert(const IndexRow& row) {
  const auto bind = [this](int column, const Sha256::Digest& digest) {
    sqlite3_bind_blob(insert.get(), column, digest.data(), static_cast<int>(digest.size()),
                      SQLITE_TRANSIENT);
  };
  bind(4, row.key);
  bind(5, row.scope);
  return run(insert, std::array<uint64_t, 3>{row.slot.segment, row.slot.slot, row.used});
}

Result<Ok> DiskIndex::State::prepare_all() {
  const std::array<std::pair<Statement*, const char*>, 4> all = {{
      {&insert,
       "INSERT OR REPLACE INTO record (segment, slot, used, key, scope) VALUES (?, ?, ?, ?, ?)"},
      {&touch, "UPDATE record SET used = ? WHERE segment = ? AND slot = ?"},
      {&erase, "DELETE FROM record WHERE segment = ? AND slot = ?"},
      {&erase_segment, "DELETE FROM record WHERE segment = ?"},
  }};
  for (const auto& [statement, sql] : all) {
    Result<Statement> prepared = prepare(database.get(), sql);
    if (!prepared) return prepared.error();
    *statement = std::move(*prepared);
  }
  return Ok{};
}

Result<DiskIndex> DiskIndex::open(const std::string& path, std::vector<IndexRow>& rows) {
  if (Result<Ok> made = make_private_file(path); !made) return made.error();
  sqlite3* database = nullptr;
  const int state = sqlite3_open_v2(
      path.c_str(), &database,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, nullptr);
  auto opened = std::make_unique<State>();
  opened->database.reset(database);
  if (state != SQLITE_OK) return index_error(database);
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  if (Result<Ok> set = execute(database, kSettings); !set) return set.error();
  if (Result<Ok> checked = check_schema(database); !checked) return checked.error();
  if (Result<Ok> read = read_rows(database, rows); !read) return read.error();
  if (Result<Ok> prepared = opened->prepare_all(); !prepared) return prepared.error();
  return DiskIndex(std::move(opened));
}

Result<Ok> DiskIndex::remove(const std::string& path) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    const std::string file = path + suffix;
    if (unlink(file.c_str()) != 0 && errno != ENOENT) {
      return Error{Code::kIo, fmt::format("cannot remove {}: {}", file, std::strerror(errno))};
    }
  }
  return Ok{};
}

DiskIndex::DiskIndex(std::unique_ptr<State> state) : state_(std::move(state)) {}
DiskIndex::DiskIndex(DiskIndex&&) noexcept = default;
DiskIndex& DiskIndex::operator=(DiskIndex&&) noexcept = default;
DiskIndex::~DiskIndex() = default;

Result<Ok> DiskIndex::insert(const IndexRow& row) { return state_->run_insert(row); }

Result<Ok> DiskIndex::insert_all(std::span<const IndexRow> rows) {
  if (Result<Ok> begun = execute(state_->database.get(), "BEGIN"); !begun) return begun;
  for (const IndexRow& row : rows) {
    if (Result<Ok> inserted = insert(row); !inserted) {
      sqlite3_exec(state_->database.get(), "ROLLBACK", nullptr, nullptr, nullptr);
      return inserted;
    }
  }
  return execute(state_->database.get(), "COMMIT");
}

Result<Ok> DiskIndex::touch(SlotId slot, uint64_t used) {
  return state_->run(state_->touch, std::array<uint64_t, 3>{used, slot.segment, slot.slot});
}

Result<Ok> DiskIndex::erase(SlotId slot) {
  return state_->run(state_->erase, std::array<uint64_t, 2>{slot.segment, slot.slot});
}

Result<Ok> DiskIndex::erase_segment(uint64_t segment) {
  return state_->run(state_->erase_segment, std::array<uint64_t, 1>{segment});
}

}  // namespace minim
