// SPDX-License-Identifier: MIT OR Apache-2.0
// Two processes exchange messages: one sends the other a file. The near side sends commands as
// short texts, which the far side executes.
#include "file_transfer.hpp"
#include "line.hpp"
#include "peer_process.hpp"

#include <unistd.h>
#include <cstdio>
#include <sstream>
#include <string_view>

namespace {

constexpr char usage[] =
    "two_processes [FILE]                start a peer process, send it FILE\n"
    "two_processes --listen HOST:PORT    be the peer of the process that connects\n"
    "two_processes --connect HOST:PORT [FILE]\n"
    "                                    send FILE to the peer that listens there\n"
    "\n"
    "FILE is this program itself unless given. LEND_DEVICE=card|software|soft|NAME chooses the\n"
    "device. `lend bench` measures how fast two processes are.\n";

struct Options {
  std::string listen{};
  std::string connect{};
  std::string file = "/proc/self/exe";
};

std::optional<Options> parse(std::vector<std::string> const& arguments) {
  Options options;
  bool file_given = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    auto const& argument = arguments[i];
    bool const takes_value = argument == "--listen" || argument == "--connect";
    if (takes_value && i + 1 == arguments.size()) return {};
    if (argument == "--listen") {
      options.listen = arguments[++i];
    } else if (argument == "--connect") {
      options.connect = arguments[++i];
    } else if (argument.starts_with("--") || file_given) {
      return {};
    } else {
      options.file = argument;
      file_given = true;
    }
  }
  bool const listens = !options.listen.empty();
  if (listens && (file_given || !options.connect.empty())) return {};
  return options;
}

/// Does what the near side says until it says "bye". What it says is checked before it is done.
lend::Result<void> obey(Line& line) {
  for (;;) {
    LEND_TRY(order, hear(line));
    std::istringstream words{order};
    std::string verb;
    std::uint64_t bytes = 0;
    words >> verb >> bytes;
    if (verb == "bye") return lend::success();
    if (verb != "file" || bytes == 0)
      return lend::Error{lend::Errc::incompatible_peer,
                         "the peer says something unknown: " + order};
    LEND_TRYV(receive_file(line, bytes));
  }
}

/// The far side.
lend::Result<void> wait_for_orders(std::string const& address) {
  LEND_TRY(prepared, PreparedLine::open());
  LEND_TRY(listener, lend::Listener::open(address));
  std::printf("listening at %s on %s\n", listener.address().c_str(),
              prepared.device.name().c_str());
  LEND_TRY(channel,
           listener.accept(std::move(prepared.channel), lend::within(std::chrono::minutes{1})));
  Line line{std::move(channel), std::move(prepared.memory)};
  return obey(line);
}

/// The near side.
lend::Result<void> give_orders(std::string const& address, SourceFile& file) {
  LEND_TRY(prepared, PreparedLine::open());
  LEND_TRY(channel, lend::connect(address, std::move(prepared.channel), lend::within(patience)));
  Line line{std::move(channel), std::move(prepared.memory)};
  auto const kind = lend::name_of(prepared.device.kind());
  std::printf("connected to %s over %s (%.*s)\n", address.c_str(), prepared.device.name().c_str(),
              int(kind.size()), kind.data());

  LEND_TRY(delivery, send_file(line, file));
  std::printf("sent %s, %s in %.3f s; the peer confirms checksum %016llx\n", file.path().c_str(),
              readable_bytes(file.size()).c_str(), delivery.took.count(),
              static_cast<unsigned long long>(delivery.checksum));
  return say(line, "bye");
}

/// Starts the far side as a process of its own, then is the near side.
lend::Result<void> be_both(SourceFile& file) {
  std::vector<std::string> arguments{"two_processes", "--listen", "127.0.0.1:0"};
  LEND_TRY(peer, PeerProcess::start(std::move(arguments)));
  LEND_TRY(greeting, peer.next_line());  // "listening at ADDRESS on DEVICE"
  std::istringstream words{greeting};
  std::string listening, at, address;
  words >> listening >> at >> address;
  std::printf("process %d started its peer, process %d\n", int(getpid()), int(peer.id()));

  LEND_TRYV(give_orders(address, file));
  while (auto const said = peer.next_line())
    std::printf("the peer says: %s\n", said.value().c_str());
  return peer.finish();
}

lend::Result<void> run(Options const& options) {
  if (!options.listen.empty()) return wait_for_orders(options.listen);
  LEND_TRY(file, SourceFile::open(options.file));  // before anybody else is troubled
  if (!options.connect.empty()) return give_orders(options.connect, file);
  return be_both(file);
}

}  // namespace

int main(int count, char** arguments) {
  auto const options = parse({arguments + 1, arguments + count});
  if (!options) {
    std::fputs(usage, stderr);
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a reader of the pipe gets each line at once
  auto const done = run(*options);
  if (!done) std::fprintf(stderr, "two_processes: %s\n", done.error().describe().c_str());
  return done ? 0 : 1;
}
