// SPDX-License-Identifier: MIT OR Apache-2.0
// Advice on the pages of regions. Any thread.
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/queue_pair_options.hpp>
#include <verbs/device/verb_error.hpp>
#include <verbs/memory/region_state.hpp>

#include <string>

namespace lend {

namespace {

ibv_advise_mr_advice raw_of(Advice advice) noexcept {
  switch (advice) {
    case Advice::prefetch: break;
    case Advice::prefetch_to_write: return IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    case Advice::prefetch_present: return IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
  }
  return IBV_ADVISE_MR_ADVICE_PREFETCH;
}

Error refused(verbs::DomainHandle const& domain, int errno_value) {
  // What libibverbs and the kernel answer where there is no such call.
  bool const has_none =
      errno_value == EOPNOTSUPP || errno_value == ENOSYS || errno_value == EPROTONOSUPPORT;
  return verbs::verb_error(has_none ? Errc::unsupported : Errc::system_failed, domain.provider(),
                           "ibv_advise_mr", errno_value,
                           has_none ? domain.context->name + " takes no advice on memory."
                                    : "The region may be pinned, or not in use by this device.");
}

}  // namespace

Result<void> ProtectionDomain::advise(Advice advice, std::span<GatherElement const> elements,
                                      AdviseUntil until) const {
  if (elements.empty() || elements.size() > elements_max)
    return Error{Errc::invalid_argument, "advice on " + std::to_string(elements.size()) +
                                             " elements; it must be 1 to " +
                                             std::to_string(elements_max)};
  ibv_sge entries[elements_max];
  std::uint32_t count = 0;
  for (auto const& element : elements) {
    verbs::RegionState const* const region = element.region;
    if (region == nullptr || !region->contains(element.range))
      return verbs::element_error(region, element.range, count, elements.size());
    if (region->domain != handle_)
      return Error{Errc::invalid_argument, "element " + std::to_string(count) +
                                               " is of a region of another protection domain"};
    if (element.range.length > UINT32_MAX)
      return Error{Errc::invalid_argument,
                   "element " + std::to_string(count) + " has " +
                       std::to_string(element.range.length) +
                       " bytes; advice is on less than 4 GiB each: cut it by chunks()"};
    verbs::fill_element(entries[count++], *region, element.range);
  }
  std::uint32_t const flags =
      until == AdviseUntil::done ? std::uint32_t{IBV_ADVISE_MR_FLAG_FLUSH} : 0u;
  int const result =
      handle_->provider().advise_mr(handle_->raw.get(), raw_of(advice), flags, entries, count);
  if (result != 0) return refused(*handle_, verbs::errno_of(result));
  return success();
}

}  // namespace lend
