// Where the official MiniMax-M3 template lies if scripts/fetch_m3_template.sh has fetched it.
#pragma once

#include <cstdlib>
#include <string>

namespace minim::testing {

// $MINIM_M3_TEMPLATE, else the cache of the script. The file may be absent.
inline std::string official_template_path() {
  if (const char* named = std::getenv("MINIM_M3_TEMPLATE")) return named;
  const char* cache = std::getenv("MINIM_DEPS_CACHE");
  const char* home = std::getenv("HOME");
  return (cache ? std::string(cache) : std::string(home ? home : "") + "/.cache/minim-deps") +
         "/MiniMax-M3.jinja";
}

}  // namespace minim::testing
