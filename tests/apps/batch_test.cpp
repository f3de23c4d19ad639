#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "apps/json_lines.h"
#include "program.h"

namespace minim::testing {
namespace {

std::vector<std::string> with_batch(const std::string& input, std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"run", "--model", MINIM_DEMO_MODEL, "--quiet", "--batch", input});
  return flags;
}

Outcome batch(const std::string& lines, std::vector<std::string> flags = {}) {
  return run_minim(with_batch("-", std::move(flags)), {.input = lines});
}

// The answer to one line, whose JSON has "id" left out.
Json answer_to(const std::string& members, std::vector<std::string> flags = {}) {
  const std::vector<Json> lines = batch("{\"id\":1," + members + "}\n", std::move(flags)).lines();
  return lines.size() == 1 ? lines[0] : Json();
}

Json one_by_one(std::vector<std::string> words) {
  words.insert(words.begin(), {"run", "--model", MINIM_DEMO_MODEL, "--quiet", "--json"});
  const std::vector<Json> lines = run_minim(words).lines();
  return lines.size() == 1 ? lines[0] : Json();
}

// What does not depend on time.
Json lasting(const Json& answer) {
  Json out = answer;
  out.erase("timings");
  out["usage"].erase("cached_tokens");  // what was computed before depends on time
  return out;
}

std::vector<Json> lasting_lines(const std::string& text) {
  std::vector<Json> out;
  for (const Json& line : Outcome{0, text, {}}.lines()) out.push_back(lasting(line));
  return out;
}

std::string many_lines(int n, int max_tokens) {
  std::string out;
  for (int i = 0; i < n; ++i) {
    Json line{{"id", i},
              {"prompt", "What is " + std::to_string(i) + " + 30?"},
              {"seed", i},
              {"ignore_eos", true},
              {"max_tokens", 1 + (i * 7) % max_tokens}};
    out += dump_json(line) + "\n";
  }
  return out;
}

TEST(Batch, AnswersComeInOrderAndAreThoseThatRunGivesOneByOne) {
  const Outcome outcome =
      batch(R"({"id":"long","prompt":"What is 12 + 30?","thinking":"enabled","temperature":0})"
            "\n"
            R"({"id":2,"prompt":"Hello","seed":5,"temperature":3,"top_p":1,"max_tokens":30})"
            "\n\n"
            R"({"prompt":"Hello","seed":6,"temperature":3,"top_p":1,"top_k":50,"max_tokens":30})"
            "\n"
            R"({"id":[4],"messages":[{"role":"user","content":"Hello"}],"temperature":0})");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const std::vector<Json> lines = outcome.lines();
  ASSERT_EQ(lines.size(), 4u);
  const std::vector<Json> alone = {
      one_by_one({"--thinking", "enabled", "--greedy", "What is 12 + 30?"}),
      one_by_one(
          {"--seed", "5", "--temperature", "3", "--top-p", "1", "--max-tokens", "30", "Hello"}),
      one_by_one({"--seed", "6", "--temperature", "3", "--top-p", "1", "--top-k", "50",
                  "--max-tokens", "30", "Hello"}),
      one_by_one({"--greedy", "Hello"})};
  const std::vector<Json> ids = {"long", 2, nullptr, Json::array({4})};
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["id"], ids[i]);
    for (const char* key : {"text", "reasoning", "tool_calls", "tokens", "finish_reason", "seed"}) {
      EXPECT_EQ(lines[i][key], alone[i][key]) << i << " " << key;
    }
    EXPECT_EQ(lines[i]["usage"]["prompt_tokens"], alone[i]["usage"]["prompt_tokens"]);
    EXPECT_EQ(lines[i]["usage"]["completion_tokens"], alone[i]["tokens"].size());
    EXPECT_TRUE(lines[i]["timings"].contains("decode_seconds"));
  }
  EXPECT_NE(lines[1]["tokens"], lines[2]["tokens"]);
}

TEST(Batch, HowManyRunAtOnceChangesNoAnswer) {
  const std::string lines = many_lines(40, 12);
  const Outcome one = batch(lines, {"--parallel", "1"});
  const Outcome many = batch(lines, {"--parallel", "7"});
  ASSERT_EQ(one.code, 0) << one.err;
  ASSERT_EQ(lasting_lines(one.out).size(), 40u);
  EXPECT_EQ(lasting_lines(one.out), lasting_lines(many.out));
}

TEST(Batch, FlagsAreTheDefaultsOfEveryLine) {
  const Outcome outcome = batch(
      "{\"prompt\":\"Hello\"}\n{\"prompt\":\"Hello\",\"max_tokens\":2,\"temperature\":null}\n",
      {"--greedy", "--max-tokens", "4", "--system", "Be brief."});
  ASSERT_EQ(outcome.lines().size(), 2u) << outcome.err;
  const Json alone =
      one_by_one({"--greedy", "--max-tokens", "4", "--system", "Be brief.", "Hello"});
  EXPECT_EQ(outcome.lines()[0]["tokens"], alone["tokens"]);
  EXPECT_EQ(outcome.lines()[0]["finish_reason"], "length");
  EXPECT_EQ(outcome.lines()[1]["tokens"].size(), 2u);
}

TEST(Batch, ABadLineHasAnErrorInItsPlaceAndTheOthersAreAnswered) {
  const Outcome outcome = batch(
      "nonsense\n{\"id\":1,\"prompt\":\"Hello\"}\n{\"id\":2,\"promt\":\"Hello\"}\n[1]\n"
      "{\"id\":3,\"prompt\":\"Hello\",\"temperature\":-1}\n{\"id\":4,\"tokens\":[1]}\n",
      {"--max-tokens", "3"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_NE(outcome.err.find("4 of 6"), std::string::npos) << outcome.err;
  const std::vector<Json> lines = outcome.lines();
  ASSERT_EQ(lines.size(), 6u);
  const std::vector<Json> ids = {nullptr, 1, 2, nullptr, 3, 4};
  const std::vector<std::string> words = {"line 1", "", "promt", "line 4", "temperature", ""};
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["id"], ids[i]);
    ASSERT_EQ(lines[i].contains("error"), !words[i].empty()) << dump_json(lines[i]);
    if (words[i].empty()) continue;
    EXPECT_EQ(lines[i]["error"]["code"], "invalid");
    const std::string message = lines[i]["error"]["message"];
    EXPECT_NE(message.find(words[i]), std::string::npos) << message;
    EXPECT_NE(message.find("line " + std::to_string(i + 1)), std::string::npos) << message;
  }
}

TEST(Batch, AFileWithoutAnyReadableLineIsOneError) {
  expect_refusal(batch("this\nis\nno JSON\n"), 1,
                 {"no line of standard input can be read", "line 1"});
  const Outcome nothing = batch("");
  EXPECT_EQ(nothing.code, 0) << nothing.err;
  EXPECT_EQ(nothing.out, "");
  expect_refusal(run_minim(with_batch("/no/such/file", {})), 1, {"/no/such/file"});
}

TEST(Batch, AStopStringEndsTheTextWhereverTokensBegin) {
  const std::string greeting =
      "Hello! I am minim's demo model. Ask me about minim, a sum, or a text.";
  ASSERT_EQ(answer_to(R"("prompt":"Hello","temperature":0)")["text"], greeting);
  const size_t all = answer_to(R"("prompt":"Hello","temperature":0)")["tokens"].size();
  // Every text of four characters that stands there: some begin or end inside a token.
  std::string lines;
  std::vector<std::string> stops;
  for (size_t at = 1; at + 4 < greeting.size(); at += 3) {
    stops.push_back(greeting.substr(at, 4));
    lines += dump_json(Json{{"id", at},
                            {"prompt", "Hello"},
                            {"temperature", 0},
                            {"stop", Json::array({"not there", stops.back()})}}) +
             "\n";
  }
  const std::vector<Json> answers = batch(lines).lines();
  ASSERT_EQ(answers.size(), stops.size());
  for (size_t i = 0; i < stops.size(); ++i) {
    EXPECT_EQ(answers[i]["text"], greeting.substr(0, greeting.find(stops[i]))) << stops[i];
    EXPECT_EQ(answers[i]["finish_reason"], "stop");
    EXPECT_LT(answers[i]["tokens"].size(), all);
  }
}

TEST(Batch, NoSamplingKeyIsWithoutEffect) {
  const std::string hello = R"("prompt":"Hello","temperature":0)";
  const Json plain = answer_to(hello);
  const std::vector<int32_t> tokens = plain["tokens"];
  const std::string second = std::to_string(tokens[1]);
  for (const std::string& changed : std::vector<std::string>{
           R"("logit_bias":{")" + second + R"(":-100})", R"("bad_words":[[)" + second + "]]",
           R"("bad_words":["Hello"])", R"("allowed_token_ids":[5,6,7],"max_tokens":9)",
           R"("stop_token_ids":[)" + second + "]", R"("max_tokens":3)",
           R"("min_tokens":40,"max_tokens":45)", R"("ignore_eos":true,"max_tokens":45)",
           R"("repetition_penalty":5,"max_tokens":45)", R"("presence_penalty":40,"max_tokens":45)",
           R"("frequency_penalty":40,"max_tokens":45)", R"("regex":"[a-c]{3}")",
           R"("choice":["yes","no"])", R"("json_schema":{"type":"integer"},"max_tokens":9)",
           R"("response_format":{"type":"json_object"},"max_tokens":9)",
           R"("effort":"high","max_tokens":9)", R"("grammar":"root ::= \"ab\"")"}) {
    const Json answer = answer_to(hello + "," + changed);
    ASSERT_TRUE(answer.contains("tokens")) << changed << dump_json(answer);
    EXPECT_NE(answer["tokens"], plain["tokens"]) << changed;
  }
  EXPECT_EQ(answer_to(hello + R"(,"stop_token_ids":[)" + second + "]")["tokens"].size(), 2u);
  EXPECT_EQ(answer_to(hello + R"(,"regex":"[a-c]{3}")")["text"].get<std::string>().size(), 3u);
  const std::string warm = R"("prompt":"Hello","temperature":3,"top_p":1,"max_tokens":40)";
  const Json random = answer_to(warm);
  for (const char* changed : {R"("seed":1)", R"("top_k":2)", R"("min_p":0.5)"}) {
    EXPECT_NE(answer_to(warm + "," + changed)["tokens"], random["tokens"]) << changed;
  }
  const std::string narrow = R"("prompt":"Hello","temperature":3,"top_p":0.1,"max_tokens":40)";
  EXPECT_NE(answer_to(narrow)["tokens"], random["tokens"]);
}

TEST(Batch, WrongValuesAreRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {R"("temperature":"hot")", "temperature"},
      {R"("top_p":0)", "top_p"},
      {R"("top_k":-1)", "top_k"},
      {R"("top_k":18446744073709551615)", "top_k"},
      {R"("seed":-1)", "seed"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("min_tokens":1.5)", "min_tokens"},
      {R"("n":2)", "\"n\""},
      {R"("logprobs":21)", "logprobs"},
      {R"("stop":[""])", "stop"},
      {R"("stop":7)", "stop"},
      {R"("stop_token_ids":[99999999])", "token 0"},
      {R"("ignore_eos":1)", "ignore_eos"},
      {R"("logit_bias":{"x":1})", "logit_bias"},
      {R"("logit_bias":{"1":101})", "logit_bias"},
      {R"("logit_bias":[1])", "logit_bias"},
      {R"("bad_words":[[]])", "bad_words"},
      {R"("bad_words":[3])", "bad_words"},
      {R"("thinking":"perhaps")", "thinking"},
      {R"("thinking":"enabled","effort":"low")", "effort"},
      {R"("regex":"a","choice":["b"])", "one format"},
      {R"("regex":"(")", "line 1"},
      {R"("choice":[])", "choice"},
      {R"("response_format":{"type":"xml"})", "response_format"},
      {R"("tool_choice":"required")", "tools"},
      {R"("tools":[{"type":"function"}])", "tools[0]"},
      {R"("ignore_eos":true,"regex":"a")", "ignore_eos"},
      {R"("tokens":[1])", "one of"}};
  std::string lines = "{\"prompt\":\"Hello\",\"max_tokens\":1}\n";
  for (const auto& [members, name] : wrong)
    lines = "{\"prompt\":\"Hello\"," + members + "}\n" + lines;
  const std::vector<Json> answers = batch(lines).lines();
  ASSERT_EQ(answers.size(), wrong.size() + 1);
  for (size_t i = 0; i < wrong.size(); ++i) {
    const Json& answer = answers[wrong.size() - 1 - i];
    ASSERT_TRUE(answer.contains("error")) << wrong[i].first;
    const std::string message = answer["error"]["message"];
    const std::string name = wrong[i].second == "line 1" ? "line" : wrong[i].second;
    EXPECT_NE(message.find(name), std::string::npos) << wrong[i].first << ": " << message;
  }
  EXPECT_EQ(answers.back()["tokens"].size(), 1u);
}

TEST(Batch, LogprobsBelongToTheirTokens) {
  const Json answer = answer_to(
      R"("prompt":"Hello","temperature":0,"max_tokens":6,"logprobs":3,"prompt_logprobs":2)");
  const size_t n_prompt = answer["usage"]["prompt_tokens"];
  ASSERT_EQ(answer["logprobs"].size(), 6u);
  ASSERT_EQ(answer["prompt_logprobs"].size(), n_prompt);
  EXPECT_TRUE(answer["prompt_logprobs"][0].is_null());
  for (size_t i = 0; i < 6; ++i) {
    const Json& row = answer["logprobs"][i];
    EXPECT_EQ(row["token"], answer["tokens"][i]);
    EXPECT_EQ(row["top"].size(), 3u);
    EXPECT_EQ(row["top"][0]["token"], row["token"]);  // greedy
    EXPECT_EQ(row["top"][0]["logprob"], row["logprob"]);
  }
}

class BatchFile : public ::testing::Test {
 protected:
  // Starts a batch to out, kills it once some lines are there, and says how many.
  size_t start_and_end(const std::string& input, int signal) {
    const Running running(with_batch(input, {"--output", out_}));
    for (int i = 0; i < 6000 && lines_in(slurp(out_)) < 5; ++i) usleep(10000);
    kill(running.id(), signal);
    code_ = running.wait().code;
    return lines_in(slurp(out_));
  }
  static size_t lines_in(const std::string& text) {
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  }

  TempFolder folder_;
  std::string in_ = folder_ / "in.jsonl", out_ = folder_ / "out.jsonl";
  int code_ = 0;
};

TEST_F(BatchFile, AKilledBatchGoesOnBehindItsLastWholeLine) {
  constexpr int kLines = 150;
  write_file(in_, many_lines(kLines, 60));
  const size_t before = start_and_end(in_, SIGKILL);
  EXPECT_EQ(code_, 128 + SIGKILL);
  ASSERT_GE(before, 5u);
  ASSERT_LT(before, static_cast<size_t>(kLines)) << "the batch ended before it could be killed";
  const std::string whole = slurp(out_).substr(0, slurp(out_).rfind('\n') + 1);
  write_file(out_, whole + "{\"id\":" + std::to_string(before) + ",\"text\":\"Hel");
  const Outcome rest = run_minim(with_batch(in_, {"--output", out_}));
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(rest.out, "");
  EXPECT_EQ(slurp(out_).substr(0, whole.size()), whole);
  EXPECT_EQ(lasting_lines(slurp(out_)), lasting_lines(batch(slurp(in_)).out));
  // Nothing is left to do, and nothing is done.
  const std::string complete = slurp(out_);
  EXPECT_EQ(run_minim(with_batch(in_, {"--output", out_})).code, 0);
  EXPECT_EQ(slurp(out_), complete);
}

TEST_F(BatchFile, AnInterruptLeavesWhatCanBeContinued) {
  write_file(in_, many_lines(150, 60));
  const size_t before = start_and_end(in_, SIGINT);
  EXPECT_EQ(code_, 128 + SIGINT);
  ASSERT_LT(before, 150u);
  EXPECT_EQ(slurp(out_).back(), '\n');
  EXPECT_EQ(run_minim(with_batch(in_, {"--output", out_})).code, 0);
  EXPECT_EQ(lines_in(slurp(out_)), 150u);
}

TEST_F(BatchFile, AFileThatIsNotOfThisBatchStaysAsItIs) {
  write_file(in_, "{\"id\":\"a\",\"prompt\":\"Hello\"}\n{\"id\":\"b\",\"prompt\":\"Hello\"}\n");
  ASSERT_EQ(run_minim(with_batch(in_, {"--output", out_, "--max-tokens", "2"})).code, 0);
  const std::string answers = slurp(out_);
  ASSERT_EQ(lines_in(answers), 2u);
  const std::string other = folder_ / "other.jsonl";
  for (const char* lines :
       {"{\"id\":\"a\",\"prompt\":\"Hello\"}\n",
        "{\"id\":\"x\",\"prompt\":\"Hello\"}\n{\"id\":\"b\",\"tokens\":[1]}\n"}) {
    write_file(other, lines);
    expect_refusal(run_minim(with_batch(other, {"--output", out_})), 1, {"out.jsonl"});
    EXPECT_EQ(slurp(out_), answers);
  }
  for (const char* text : {"my diary", "my diary\n", "{\"id\":\"a\"}\n"}) {
    write_file(other, text);
    expect_refusal(run_minim(with_batch(in_, {"--output", other})), 1, {"other.jsonl"});
    EXPECT_EQ(slurp(other), text);
  }
  const std::string input = slurp(in_);  // the input as its own output
  expect_refusal(run_minim(with_batch(in_, {"--output", in_})), 1, {"in.jsonl"});
  EXPECT_EQ(slurp(in_), input);
}

TEST_F(BatchFile, ErrorsBeforeAnInterruptionCount) {
  write_file(in_, "{\"id\":1,\"prompt\":7}\n{\"id\":2,\"prompt\":\"Hello\",\"max_tokens\":2}\n");
  EXPECT_EQ(run_minim(with_batch(in_, {"--output", out_})).code, 1);
  expect_refusal(run_minim(with_batch(in_, {"--output", out_})), 1, {"1 of 2"});
}

TEST_F(BatchFile, TheContextIsSizedToTheLongestLine) {
  std::string long_prompt;
  for (int i = 0; i < 700; ++i) long_prompt += "Hello ";
  write_file(in_, "{\"id\":1,\"prompt\":\"Hello\"}\n" +
                      dump_json(Json{{"id", 2}, {"prompt", long_prompt}, {"max_tokens", 2}}) +
                      "\n");
  EXPECT_EQ(run_minim(with_batch(in_, {})).code, 0);
  const Outcome small = run_minim(with_batch(in_, {"--context", "256"}));
  EXPECT_EQ(small.code, 1);
  EXPECT_EQ(small.lines()[1]["error"]["code"], "exhausted");
  EXPECT_TRUE(small.lines()[0].contains("tokens"));
}

TEST(Batch, AnAnswerDoesNotWaitForTheNextLine) {
  const TempFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const Running running(with_batch("-", {"--max-tokens", "2"}), {.input_path = pipe});
  std::ofstream lines(pipe);
  lines << "{\"id\":1,\"prompt\":\"Hello\"}\n" << std::flush;
  EXPECT_TRUE(running.wait_for_output(1));
  lines << "{\"id\":2,\"prompt\":\"Hello\"}\n" << std::flush;
  lines.close();
  const Outcome outcome = running.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.lines().size(), 2u);
}

TEST(Batch, FlagsThatDoNotGoWithItAreRefused) {
  expect_refusal(batch("", {"Hello"}), 2, {"--batch"});
  expect_refusal(batch("", {"--file", "x"}), 2, {"--file"});
  expect_refusal(run_minim({"run", "--output", "x", "Hello"}), 2, {"--output", "--batch"});
  expect_refusal(run_minim({"run", "--parallel", "3", "Hello"}), 2, {"--parallel", "--batch"});
  expect_refusal(batch("", {"--parallel", "0"}), 2, {"parallel"});
}

TEST(JsonLines, ALineThatIsTooLongIsLeftOutAsAWhole) {
  auto stream = std::make_unique<std::istringstream>(
      "{\"a\":1}\n" + std::string(kMaxInputBytes + 100000, ' ') + "{\"b\":1}\n{\"c\":1}\n");
  JsonLines lines = JsonLines::of(std::move(stream), "test");
  EXPECT_TRUE((*lines.next())->value.contains("a"));
  const auto too_long = lines.next();
  ASSERT_FALSE(too_long);
  EXPECT_NE(too_long.error().message.find("line 2"), std::string::npos);
  const auto third = lines.next();
  ASSERT_TRUE(third);
  EXPECT_TRUE((*third)->value.contains("c"));
  EXPECT_NE((*third)->where.find("line 3"), std::string::npos);
  EXPECT_FALSE((*lines.next()).has_value());
}

}  // namespace
}  // namespace minim::testing
