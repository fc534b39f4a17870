// SPDX-License-Identifier: MIT OR Apache-2.0
// The terms of each end are the private data of its side. One thread at a time.
#include <lend/cm/connector.hpp>
#include <lend/cm/transport.hpp>
#include <lend/transport/prepared.hpp>
#include <transport/by_kind.hpp>

#include <utility>

namespace lend {

Result<AnyTransport> cm_accept_transport(CmListener& listener, ProtectionDomain const& domain,
                                         TransportOptions const& options, Deadline deadline) {
  return transport::prepare_and(
      options, domain, [&]<class Kind>(PreparedTransport<Kind> prepared) -> Result<Kind> {
        LEND_TRY(request, listener.next(deadline));
        auto const fits = prepared.check(request.peer().private_data);
        if (!fits) {
          static_cast<void>(std::move(request).reject(fits.error().message()));
          return fits.error();
        }
        auto const terms = prepared.terms();
        LEND_TRY(connected, std::move(request).accept(prepared.take_queue_pair(), deadline, terms));
        return std::move(prepared).adopt(std::move(connected.queue_pair),
                                         connected.peer.private_data);
      });
}

Result<AnyTransport> cm_connect_transport(std::string_view address, ProtectionDomain const& domain,
                                          TransportOptions const& options, Deadline deadline,
                                          CmOptions cm) {
  if (!cm.private_data.empty())
    return Error{Errc::invalid_argument,
                 "the private data of a transport's connection are its terms; send the program's "
                 "own data as its first message"};
  return transport::prepare_and(
      options, domain, [&]<class Kind>(PreparedTransport<Kind> prepared) -> Result<Kind> {
        auto const terms = prepared.terms();
        cm.private_data = terms;
        LEND_TRY(connected, cm_connect(address, prepared.take_queue_pair(), deadline, cm));
        return std::move(prepared).adopt(std::move(connected.queue_pair),
                                         connected.peer.private_data);
      });
}

}  // namespace lend
