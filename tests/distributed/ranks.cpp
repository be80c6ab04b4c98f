// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/distributed/ranks.h"

#include <arpa/inet.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "reprise/partition/process_group.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to us

namespace reprise::testing {
namespace {

constexpr const char* kIsRank = "REPRISE_TEST_IS_RANK";

// A port that is nobody else's as long as this lives. Bound and not listened at, so that a socket
// that may share addresses can still listen there.
class ReservedPort {
 public:
  ReservedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int yes = 1;
    ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket_, any, length) == 0 && ::getsockname(socket_, any, &length) == 0) {
      port_ = ntohs(address.sin_port);
    }
  }
  ~ReservedPort() { ::close(socket_); }
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;

  int port() const { return port_; }

 private:
  const int socket_;
  int port_ = 0;
};

class RankProcess {
 public:
  RankProcess(const std::string& test, int rank, int size, int port)
      : output_(::testing::TempDir() + "reprise_rank." + std::to_string(::getpid()) + "." +
                std::to_string(rank)) {
    std::vector<std::string> variables = {std::string(kIsRank) + "=1",
                                          "RANK=" + std::to_string(rank),
                                          "WORLD_SIZE=" + std::to_string(size),
                                          "LOCAL_RANK=" + std::to_string(rank),
                                          "MASTER_ADDR=127.0.0.1",
                                          "MASTER_PORT=" + std::to_string(port),
                                          "OMP_NUM_THREADS=1"};
    std::vector<char*> environment;
    for (std::string& variable : variables) {
      environment.push_back(variable.data());
    }
    for (char** variable = environ; *variable != nullptr; ++variable) {
      environment.push_back(*variable);
    }
    environment.push_back(nullptr);
    std::string program = "/proc/self/exe";
    std::string filter = "--gtest_filter=" + test;
    std::string brief = "--gtest_brief=1";
    char* arguments[] = {program.data(), filter.data(), brief.data(), nullptr};
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_addopen(&files, 1, output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                       0600);
    ::posix_spawn_file_actions_adddup2(&files, 1, 2);
    EXPECT_EQ(::posix_spawn(&pid_, program.c_str(), &files, nullptr, arguments, environment.data()),
              0);
    ::posix_spawn_file_actions_destroy(&files);
  }
  ~RankProcess() {
    if (!status_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    std::remove(output_.c_str());
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  bool has_ended() {
    int status = 0;
    if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) {
      status_ = status;
    }
    return status_.has_value();
  }
  bool was_killed() const {
    return status_ && WIFSIGNALED(*status_) && WTERMSIG(*status_) == SIGKILL;
  }
  bool has_succeeded() const {
    return status_ && WIFEXITED(*status_) && WEXITSTATUS(*status_) == 0;
  }

  std::string output() const {
    std::ostringstream text;
    text << std::ifstream(output_).rdbuf();
    return text.str();
  }

 private:
  const std::string output_;
  pid_t pid_ = -1;
  std::optional<int> status_;
};

bool have_ended(std::vector<std::unique_ptr<RankProcess>>& ranks) {
  bool have = true;
  for (const auto& rank : ranks) {
    have = rank->has_ended() && have;
  }
  return have;
}

void start_ranks(const std::string& test, int size, const RankOptions& options) {
  const ReservedPort port;
  std::vector<std::unique_ptr<RankProcess>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<RankProcess>(test, rank, size, port.port()));
  }
  const auto deadline = std::chrono::steady_clock::now() + options.time_limit;
  while (!have_ended(ranks) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (int rank = 0; rank < size; ++rank) {
    RankProcess& process = *ranks[static_cast<std::size_t>(rank)];
    const bool is_right = options.killed == rank ? process.was_killed() : process.has_succeeded();
    EXPECT_TRUE(is_right) << "rank " << rank << " of " << size
                          << (process.has_ended() ? " failed:\n" : " did not end in time:\n")
                          << process.output();
  }
}

}  // namespace

void on_ranks(int size, const std::function<void(Rank&)>& body, const RankOptions& options) {
  if (!has_gloo()) {
    GTEST_SKIP() << "Reprise was built without Gloo";
  }
  if (std::getenv(kIsRank) == nullptr) {  // NOLINT(concurrency-mt-unsafe)
    const auto& test = *::testing::UnitTest::GetInstance()->current_test_info();
    start_ranks(std::string(test.test_suite_name()) + "." + test.name(), size, options);
    return;
  }
  Rank rank{.group = init_process_group_from_env({.timeout = options.group_timeout})};
  rank.index = rank.group->getRank();
  rank.size = rank.group->getSize();
  torch::manual_seed(0);
  body(rank);
}

}  // namespace reprise::testing
