#include "text/chat_template.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/sha256.h"
#include "support/official_template.h"

namespace minim {
namespace {

const std::string kData = std::string(MINIM_TEST_DATA) + "/text/template/";

// The clock of the vectors: Wednesday 2026-03-04 05:06:07.
ChatTemplate::Options fixed_clock() {
  std::tm now{};
  now.tm_year = 126;
  now.tm_mon = 2;
  now.tm_mday = 4;
  now.tm_hour = 5;
  now.tm_min = 6;
  now.tm_sec = 7;
  now.tm_wday = 3;
  now.tm_yday = 62;
  return {now};
}

std::vector<Json> read_lines(const std::string& path) {
  std::ifstream in(path);
  std::vector<Json> out;
  for (std::string line; std::getline(in, line);) {
    Result<Json> json = parse_json(line, path);
    EXPECT_TRUE(json) << path;
    if (json) out.push_back(std::move(*json));
  }
  return out;
}

ChatTemplate must_parse(const std::string& source) {
  Result<ChatTemplate> parsed = ChatTemplate::parse(source, "t");
  EXPECT_TRUE(parsed) << parsed.error().message;
  return *parsed;
}

// Renders, or gives "error: ...".
std::string render(const ChatTemplate& chat, const Json& vars) {
  const auto out = chat.render(vars, fixed_clock());
  return out ? ChatTemplate::join(*out) : "error: " + out.error().message;
}

std::vector<PromptSegment> segments(const std::string& source, const char* vars) {
  const auto out = must_parse(source).render(*parse_json(vars, "vars"), fixed_clock());
  EXPECT_TRUE(out) << out.error().message;
  return out ? *out : std::vector<PromptSegment>();
}

void check_vectors(const std::string& file, size_t count, const ChatTemplate* chat) {
  const std::vector<Json> vectors = read_lines(kData + file);
  ASSERT_EQ(vectors.size(), count);
  for (const Json& v : vectors) {
    const std::string id = v["id"];
    const Result<ChatTemplate> own =
        ChatTemplate::parse(chat ? "" : v["template"].get<std::string>(), id);
    ASSERT_TRUE(own) << own.error().message;
    const auto out = (chat ? *chat : *own).render(v["vars"], fixed_clock());
    if (v.contains("error")) {
      ASSERT_FALSE(out) << id;
      EXPECT_NE(out.error().message.find(v["error"].get<std::string>()), std::string::npos)
          << id << ": " << out.error().message;
      continue;
    }
    ASSERT_TRUE(out) << id << ": " << out.error().message;
    EXPECT_EQ(ChatTemplate::join(*out), v["text"].get<std::string>()) << id;
    for (size_t i = 0; i < out->size(); ++i) {
      EXPECT_FALSE((*out)[i].text.empty());
      EXPECT_TRUE(i == 0 || (*out)[i].from_template != (*out)[i - 1].from_template) << id;
    }
  }
}

TEST(ChatTemplate, FamilyTemplateGivesPythonsBytes) {
  const Result<ChatTemplate> chat = ChatTemplate::load(kData + "chat_template.jinja");
  ASSERT_TRUE(chat) << chat.error().message;
  check_vectors("chat.jsonl", 242, &*chat);
}

TEST(ChatTemplate, FeaturesOfOtherModelsTemplatesGivePythonsBytes) {
  check_vectors("generic.jsonl", 28, nullptr);
}

TEST(ChatTemplate, DifferentialCasesGivePythonsBytes) {
  const std::vector<Json> vectors = read_lines(kData + "differential.jsonl");
  ASSERT_GE(vectors.size(), 500u);
  size_t wrong = 0;
  for (const Json& v : vectors) {
    const std::string source = v["t"];
    const Result<ChatTemplate> chat = ChatTemplate::parse(source, "t");
    const Json vars = v.contains("v") ? v["v"] : Json::object();
    const std::string got = chat ? render(*chat, vars) : "error: " + chat.error().message;
    const bool refused = got.rfind("error: ", 0) == 0;
    const bool right = v.contains("e") ? refused : got == v["o"].get<std::string>();
    if (!right && ++wrong <= 40)
      ADD_FAILURE() << source << "\n  want: " << (v.contains("e") ? v["e"] : v["o"])
                    << "\n  got:  " << Json(got);
  }
  EXPECT_EQ(wrong, 0u);
}

TEST(ChatTemplate, OfficialTemplateGivesTheKnownHashes) {
  const std::string path = testing::official_template_path();
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "MiniMax-M3's template is not at " << path
                 << "; scripts/fetch_m3_template.sh fetches it";
  }
  const Result<ChatTemplate> chat = ChatTemplate::load(path);
  ASSERT_TRUE(chat) << chat.error().message;
  const Result<Json> file = read_json_file(kData + "official_hashes.json");
  ASSERT_TRUE(file);
  ASSERT_EQ((*file)["expect"].size(), 4u);
  for (const Json& expect : (*file)["expect"]) {
    Json vars = {{"messages", (*file)["messages"]}, {"add_generation_prompt", true}};
    if (!expect["thinking_mode"].is_null()) vars["thinking_mode"] = expect["thinking_mode"];
    const std::string text = render(*chat, vars);
    EXPECT_EQ(text.size(), expect["bytes"].get<size_t>()) << text;
    EXPECT_EQ(sha256_hex(text), expect["sha256"].get<std::string>());
  }
}

// --- who wrote what ---

using Segments = std::vector<PromptSegment>;

TEST(Provenance, LiteralsAndDataAreToldApart) {
  EXPECT_EQ(
      segments("<s>{{ m }}</s>{{ '[x]' ~ m ~ '[y]' }}", R"({"m": "<s>"})"),
      (Segments{{"<s>", true}, {"<s>", false}, {"</s>[x]", true}, {"<s>", false}, {"[y]", true}}));
}

TEST(Provenance, OriginSurvivesStringOperations) {
  const char* vars = R"({"m": "  <think>Secret</think>, <b>  ", "list": ["<a>", "<b>"]})";
  const Segments upper = segments("{{ ('x' ~ m.strip().upper() ~ 'y')[1:-1] }}", vars);
  EXPECT_EQ(upper, (Segments{{"<THINK>SECRET</THINK>, <B>", false}}));
  EXPECT_EQ(segments("{{ (m ~ '<end>').split('</think>')[-1].strip() }}", vars),
            (Segments{{", <b>  ", false}, {"<end>", true}}));
  EXPECT_EQ(segments("{{ list | join('<sep>') }}", vars),
            (Segments{{"<a>", false}, {"<sep>", true}, {"<b>", false}}));
  EXPECT_EQ(segments("{{ '<a>%s</a>' % list[0] }}", vars),
            (Segments{{"<a>", true}, {"<a>", false}, {"</a>", true}}));
  EXPECT_EQ(segments("{{ '<a>{}</a>'.format(list[0]) }}", vars),
            (Segments{{"<a>", true}, {"<a>", false}, {"</a>", true}}));
  EXPECT_EQ(segments("{{ list[0] | replace('a', '<t>') }}", vars),
            (Segments{{"<", false}, {"<t>", true}, {">", false}}));
}

TEST(Provenance, OriginSurvivesMacrosBlocksAndNamespaces) {
  const char* vars = R"({"m": "<u>"})";
  const Segments wrapped{{"<t>", true}, {"<u>", false}, {"</t>", true}};
  EXPECT_EQ(segments("{% macro f(x) %}<t>{{ x }}</t>{% endmacro %}{{ f(m) }}", vars), wrapped);
  EXPECT_EQ(segments("{% set x %}<t>{{ m }}</t>{% endset %}{{ x }}", vars), wrapped);
  EXPECT_EQ(segments("{% set ns = namespace(x='') %}{% for i in [1] %}{% set ns.x = '<t>' + m %}{% "
                     "endfor %}{{ ns.x }}</t>",
                     vars),
            wrapped);
  EXPECT_EQ(
      segments(
          "{% macro f() %}<t>{{ caller() }}</t>{% endmacro %}{% call f() %}{{ m }}{% endcall %}",
          vars),
      wrapped);
  EXPECT_EQ(segments("{% filter trim %} <t>{{ m }}</t> {% endfilter %}", vars), wrapped);
  EXPECT_EQ(segments("{% generation %}<t>{{ m }}</t>{% endgeneration %}", vars), wrapped);
}

TEST(Provenance, JsonKeepsTheOriginOfItsStringsAndItsOwnSignsAreData) {
  EXPECT_EQ(segments("{{ {'<k>': m} | tojson }}", R"({"m": "<v>\n"})"),
            (Segments{{"{\"", false}, {"<k>", true}, {"\": \"<v>\\n\"}", false}}));
}

TEST(Provenance, NumbersAndPythonWordsCountAsData) {
  EXPECT_EQ(segments("a{{ 1 }}b{{ none }}", "{}"),
            (Segments{{"a", true}, {"1", false}, {"b", true}, {"None", false}}));
}

// --- hostile input ---

TEST(ChatTemplateLimits, EndlessWorkIsStopped) {
  const Json none = Json::object();
  const auto stopped = [&](const std::string& source) {
    const std::string out = render(must_parse(source), none);
    EXPECT_EQ(out.rfind("error: t:1: ", 0), 0u) << source << ": " << out.substr(0, 100);
    EXPECT_EQ(out.find('\n'), std::string::npos);
  };
  stopped("{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}");
  stopped("{{ range(100001) }}");
  stopped("{{ 'a' * 1000000000000 }}");
  stopped("{{ [0] * 1000000000000 }}");
  stopped("{{ 'x' | center(1000000000000) }}{{ '%999999999999d' % 1 }}");
  stopped("{{ '%999999999999d' % 1 }}");
  stopped("{{ 'x'.ljust(1000000000000) }}");
  stopped("{{ '{:>999999999999}'.format(1) }}");
  stopped("{{ [1] | tojson(indent=999999999999) }}");
  stopped("{{ 'a' | indent(999999999999) }}");
  stopped("{{ [1] | batch(999999999999, 0) | list }}");
  stopped("{{ 2 ** 1000000000 }}");
  stopped(
      "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x "
      "%}{% endfor %}");
  stopped(
      "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x.replace('a', "
      "ns.x) %}{% endfor %}");
  stopped(
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% "
      "endfor %}{{ ns.x }}");
  stopped(
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% "
      "endfor %}{{ ns.x | tojson }}");
  stopped(
      "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] "
      "%}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}");
  stopped(
      "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor "
      "%}");
  stopped(
      "{% set ns = namespace(x=(1,)) %}{% for i in range(60) %}{% set ns.x = (ns.x, ns.x) %}"
      "{% endfor %}{{ {ns.x: 1} }}");
  stopped("{{ ('a' * 3000000).find('a' * 1500000 ~ 'b') }}");
  // More pieces, or changes of origin, than steps, of a text that is not long.
  stopped("{{ ('a' ~ 1) * 12000000 }}");
  for (const char* pieces : {".replace('x', 1 | string)", ".split(' ')", ".split()", " | indent"}) {
    stopped(std::string("{{ ('x \\n' * 12000000)") + pieces + " | length }}");
  }
  stopped("{{ ('a' * 1500000 ~ 'b') in 'a' * 3000000 }}");
  stopped("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}");
  stopped("{% macro f(x) %}{{ f([[[[[[[[x]]]]]]]]) }}{% endmacro %}{{ f(1) }}");
  stopped("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}");
}

TEST(ChatTemplateLimits, CirclesOfReferencesAreReleased) {
  EXPECT_EQ(render(must_parse("{% set ns = namespace() %}{% set ns.me = ns %}{% macro f() %}{% "
                              "endmacro %}{% set ns.f = f %}"
                              "{% set ns.c = cycler(ns, f) %}{% for i in [1] %}{% set ns.l = loop "
                              "%}{% set ns.m = loop.changed(loop) %}{% endfor %}{{ ns.l.index }}"),
                   Json::object()),
            "1");
}

// Seen without a leak checker too: the heap does not grow with the number of renderings.
TEST(ChatTemplateLimits, CirclesOfReferencesDoNotPileUp) {
  const ChatTemplate chat = must_parse(
      "{% set ns = namespace() %}{% set ns.me = ns %}{% for i in range(10) %}"
      "{% set ns.m = loop.changed(loop) %}{% endfor %}");
  const auto in_use = [&](int renderings) {
    for (int i = 0; i < renderings; ++i) EXPECT_EQ(render(chat, Json::object()), "");
    return mallinfo2().uordblks;
  };
  const size_t before = in_use(100);
  EXPECT_LT(in_use(1000), before + size_t{100} * 1000);
}

TEST(ChatTemplateLimits, DeepSourceIsRefusedWhenParsed) {
  const auto refused = [](const std::string& source) {
    const Result<ChatTemplate> out = ChatTemplate::parse(source, "t");
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().message.find('\n'), std::string::npos);
    EXPECT_LT(out.error().message.size(), 300u);
  };
  const auto repeat = [](std::string_view part, size_t n) {
    std::string out;
    for (size_t i = 0; i < n; ++i) out += part;
    return out;
  };
  constexpr size_t kMany = 20000;
  for (const char* open :
       {"(", "[", "{1:", "-", "not ", "x(", "x[", "x if ", "x|f(", "1 if 1 else "}) {
    refused("{{ " + repeat(open, kMany));
    refused("{{ " + repeat(open, kMany) + " 1 }}");
  }
  refused("{{ x" + repeat(".a", kMany) + " }}");
  refused("{{ x" + repeat(" + x", kMany) + " }}");
  refused("{{ x" + repeat(" or x", kMany) + " }}");
  refused("{{ x" + repeat(" is x", kMany) + " }}");
  refused("{{ x" + repeat("|f", kMany) + " }}");
  refused(repeat("{% if x %}", kMany));
  refused(repeat("{% for x in y %}", kMany) + repeat("{% endfor %}", kMany));
}

TEST(ChatTemplateLimits, DeepDataIsRenderedOrRefused) {
  std::string text = "1";
  for (int i = 0; i < 500; ++i) text = "[" + text + "]";
  const Result<Json> deep = parse_json("{\"x\": " + text + "}", "deep");
  ASSERT_TRUE(deep);
  EXPECT_EQ(render(must_parse("{{ x | tojson }}"), *deep), text);
  EXPECT_EQ(render(must_parse("{{ x }}"), *deep), text);
  EXPECT_EQ(render(must_parse("{{ x == x[0] }}"), *deep), "False");
}

TEST(ChatTemplate, ErrorsNameTheTemplateAndItsLine) {
  const Json none = Json::object();
  EXPECT_EQ(render(must_parse("a\n\n{{ x.y }}"), none), "error: t:3: 'x' is undefined");
  EXPECT_EQ(render(must_parse("{{ raise_exception('no\ngo') }}"), none), "error: t:1: no go");
  EXPECT_EQ(ChatTemplate::parse("a\n{% if x %}", "t").error().message,
            "t:2: unexpected end of template; the innermost open block is 'if' (line 2)");
  EXPECT_EQ(ChatTemplate::parse("{% include 'x' %}", "t").error().message,
            "t:1: the tag 'include' is not supported in a chat template");
  EXPECT_EQ(ChatTemplate::parse("\xFF", "t").error().message, "t: the template is not valid UTF-8");
  EXPECT_EQ(render(must_parse("{{ [1] | random }}"), none),
            "error: t:1: the filter 'random' is not supported");
  EXPECT_EQ(render(must_parse("{{ [].append(1) }}"), none),
            "error: t:1: 'list object' has no attribute 'append'");
  EXPECT_EQ(render(must_parse("x"), Json::array()),
            "error: t: the variables of a template must be a JSON object");
}

// --- where templates are found ---

class TemplateFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "minim_template_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ + "/" + name) << text;
  }
  std::string found() {
    const Result<ChatTemplate> chat = load_chat_template(dir_);
    return chat ? render(*chat, Json::object()) : chat.error().message;
  }
  std::string dir_;
};

TEST_F(TemplateFolder, OwnFileWinsOverTheEntriesInJson) {
  write("tokenizer_config.json", R"({"chat_template": "config"})");
  EXPECT_EQ(found(), "config");
  write("chat_template.json", R"({"chat_template": "json"})");
  EXPECT_EQ(found(), "json");
  write("chat_template.jinja", "jinja");
  EXPECT_EQ(found(), "jinja");
}

TEST_F(TemplateFolder, DefaultOfSeveralNamedTemplatesIsTaken) {
  write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]})");
  EXPECT_EQ(found(), "d");
}

TEST_F(TemplateFolder, AbsentAndMalformedEntriesSayWhatWasWanted) {
  EXPECT_EQ(found(), dir_ +
                         ": no chat template; looked at chat_template.jinja, chat_template.json "
                         "and the \"chat_template\" of tokenizer_config.json");
  write("tokenizer_config.json", "{}");
  EXPECT_NE(found().find("no chat template; looked at"), std::string::npos);
  for (const char* bad : {R"({"chat_template": 1})", R"({"chat_template": [1]})",
                          R"({"chat_template": [{"name": "x", "template": "y"}]})",
                          R"({"chat_template": [{"name": "default"}]})", "[]"}) {
    write("tokenizer_config.json", bad);
    EXPECT_NE(found().find("wanted \"chat_template\": a string"), std::string::npos) << found();
  }
  write("tokenizer_config.json", "{");
  EXPECT_NE(found().find("not JSON"), std::string::npos);
  write("chat_template.jinja", "{{");
  EXPECT_NE(found().find("chat_template.jinja:1: "), std::string::npos) << found();
}

}  // namespace
}  // namespace minim
