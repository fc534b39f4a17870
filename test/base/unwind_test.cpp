// SPDX-License-Identifier: MIT OR Apache-2.0
// Why a scope is left, also inside a destructor that runs while something else unwinds.
#include "support/catch.hpp"

#include <lend/base/unwind.hpp>

#include <stdexcept>

namespace lend {
namespace {

/// Notes at its end whether an exception ended it.
class Scope {
 public:
  explicit Scope(bool& unwound) : unwound_{unwound} {}
  Scope(Scope const&) = delete;
  Scope& operator=(Scope const&) = delete;
  ~Scope() { unwound_ = detector_.is_unwinding(); }

 private:
  bool& unwound_;
  UnwindDetector detector_;
};

/// Opens scopes in its destructor: one that ends well, one that throws inside.
struct OpensScopes {
  bool& well;
  bool& thrown;
  OpensScopes(bool& well_flag, bool& thrown_flag) : well{well_flag}, thrown{thrown_flag} {}
  OpensScopes(OpensScopes const&) = delete;
  OpensScopes& operator=(OpensScopes const&) = delete;
  ~OpensScopes() {
    { Scope const scope{well}; }
    try {
      Scope const scope{thrown};
      throw std::runtime_error{"inner"};
    } catch (std::runtime_error const&) {
    }
  }
};

TEST_CASE("a scope that ends well is not unwinding", "[base]") {
  bool unwound = true;
  { Scope const scope{unwound}; }
  CHECK(!unwound);
}

TEST_CASE("a scope that an exception ends is unwinding", "[base]") {
  bool unwound = false;
  try {
    Scope const scope{unwound};
    throw std::runtime_error{"x"};
  } catch (std::runtime_error const&) {
  }
  CHECK(unwound);
}

TEST_CASE("a scope in a destructor tells its own end from an unrelated unwind", "[base]") {
  bool well = true;
  bool thrown = false;
  try {
    OpensScopes const opens{well, thrown};
    throw std::runtime_error{"outer"};
  } catch (std::runtime_error const&) {
  }
  CHECK(!well);
  CHECK(thrown);
}

TEST_CASE("a scope made while handling an exception is not unwinding", "[base]") {
  bool unwound = true;
  try {
    throw std::runtime_error{"x"};
  } catch (std::runtime_error const&) {
    Scope const scope{unwound};
  }
  CHECK(!unwound);
}

}  // namespace
}  // namespace lend
