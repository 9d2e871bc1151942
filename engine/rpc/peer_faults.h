/* Faults injected at the frame layer (base/fault_point.h): frames that are lost, come twice, or
 * come late. The engine's own messages and the links of the service are spared, which stand for a
 * transport that loses nothing: a lost frame is a lost request or answer. Nothing in release. */
#ifndef LP_RPC_PEER_FAULTS_H
#define LP_RPC_PEER_FAULTS_H

#include "base/fault_point.h"
#include "rpc/peer.h"

#ifdef LP_FAULTS

/* What is to happen to the frame that came. With INJECT_DELAY it has been kept, and comes by
 * peer_take_late. */
fault_kind peer_fault(peer *peer, const frame *frame, const uint8_t *data, size_t length);
/* A link has been made. */
void peer_faults_link(peer *peer);
/* A link went down: frames kept of it are gone. */
void peer_faults_forget(peer *peer);
/* Takes up a frame that was kept; defined in peer.c. */
void peer_take_late(peer *peer, const uint8_t *data, size_t length);

#else

static inline fault_kind peer_fault(peer *peer, const frame *frame, const uint8_t *data,
                                    size_t length) {
  (void)peer;
  (void)frame;
  (void)data;
  (void)length;
  return INJECT_NOTHING;
}

static inline void peer_faults_link(peer *peer) {
  (void)peer;
}

static inline void peer_faults_forget(peer *peer) {
  (void)peer;
}

#endif
#endif
