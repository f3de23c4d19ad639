// Formats that are enforced. Each pattern matches only texts that the format allows, and of those
// all that people write; what RFCs allow beyond (comments in addresses, leap seconds) is left out.
#include <string>

#include "text/json_schema_nodes.h"

namespace minim {
namespace {

// Days that exist: 31, 30 or 28 in each month, and the 29th of February in leap years.
const char kDate[] =
    R"(\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8])))"
    R"(|(\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)";
const char kTime[] =
    R"((([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?([Zz]|[+\-]([01]\d|2[0-3]):[0-5]\d)))";
const char kLabel[] = R"([A-Za-z0-9]+(-+[A-Za-z0-9]+)*)";
const char kHex16[] = R"([0-9A-Fa-f]{1,4})";

std::string host() { return std::string(kLabel) + R"((\.)" + kLabel + ")*"; }

std::string ipv4() {
  const std::string byte = R"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
  return byte + R"(\.)" + byte + R"(\.)" + byte + R"(\.)" + byte;
}

std::string ipv6() {
  const std::string h = kHex16;
  // In full; then with "::" for what is left out: at the end, in the middle, at the front.
  std::string all = "(" + h + ":){7}" + h + "|(" + h + ":){1,7}:";
  for (int front = 1; front <= 6; ++front) {
    all += "|(" + h + ":){" + std::to_string(front) + "}(:" + h + "){1," +
           std::to_string(7 - front) + "}";
  }
  return all + "|:(:" + h + "){1,7}|::";
}

std::string uri() {
  const std::string part = R"(([A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2}))";
  const std::string first = R"(([A-Za-z0-9\-._~!$&'()*+,;=:@?]|%[0-9A-Fa-f]{2}))";
  return R"([A-Za-z][A-Za-z0-9+.\-]*:(//)" + host() + R"((:\d{1,5})?(/)" + part + "*)?(\\?" + part +
         "*)?|" + first + part + "*)(#" + part + "*)?";
}

DecimalRange whole_range(bool with_sign, int bits) {
  const uint64_t top =
      bits == 64 && !with_sign ? ~uint64_t{0} : (uint64_t{1} << (with_sign ? bits - 1 : bits)) - 1;
  DecimalRange range;
  range.high = DecimalBound{*decimal_of(Json(top)), false};
  range.low = with_sign ? DecimalBound{*decimal_of(Json(-static_cast<int64_t>(top) - 1)), false}
                        : DecimalBound{};
  return range;
}

}  // namespace

std::optional<std::string> format_pattern(std::string_view format) {
  if (format == "date") return kDate;
  if (format == "time") return kTime;
  if (format == "date-time") return "(" + std::string(kDate) + ")" + "[Tt]" + kTime;
  if (format == "uuid") return "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}";
  if (format == "ipv4") return ipv4();
  if (format == "ipv6") return ipv6();
  if (format == "email") {
    return R"([A-Za-z0-9_+\-]+(\.[A-Za-z0-9_+\-]+)*@)" + std::string(kLabel) + R"((\.)" + kLabel +
           ")+";
  }
  if (format == "uri") return uri();
  return std::nullopt;
}

std::optional<DecimalRange> format_range(std::string_view format) {
  if (format == "float" || format == "double") return DecimalRange{};
  for (const int bits : {8, 16, 32, 64}) {
    if (format == "int" + std::to_string(bits)) return whole_range(true, bits);
    if (format == "uint" + std::to_string(bits)) return whole_range(false, bits);
  }
  return std::nullopt;
}

}  // namespace minim
