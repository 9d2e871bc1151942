/* See overview.h. Here: counts and times, of methods, links and the node; what its bounds are
 * and how often they were met. Times are in seconds. */
#include "rpc/connecting.h"
#include "rpc/overview.h"

/* ---- times ------------------------------------------------------------------ */

static void put_times(const histogram *times, writer *out) {
  static const struct {
    const char *name;
    double share;
  } quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}};
  writer_key(out, "latency");
  writer_map(out);
  writer_put_integer(out, "count", (int64_t)times->count);
  writer_put_number(out, "sum", (double)times->sum * 1e-9);
  if (times->count) {
    writer_put_number(out, "mean", (double)times->sum / (double)times->count * 1e-9);
    writer_put_number(out, "min", (double)times->least * 1e-9);
    for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++)
      writer_put_number(out, quantiles[i].name,
                        (double)histogram_quantile(times, quantiles[i].share) * 1e-9);
    writer_put_number(out, "max", (double)times->greatest * 1e-9);
  }
  writer_close(out);
}

/* Calls and errors of all methods, their times added, and each by itself. */
static void put_methods(const char *key, const meters *meters, writer *out) {
  uint64_t calls = 0, errors = 0;
  histogram all = {0};
  writer_key(out, key);
  writer_map(out);
  writer_key(out, "methods");
  writer_map(out);
  for (int i = 0; i < METER_SLOTS; i++) {
    for (const meter *each = meters->slots[i]; each; each = each->next) {
      if (each->calls == 0) continue;
      calls += each->calls;
      errors += each->errors;
      writer_key(out, each->name);
      writer_map(out);
      writer_put_integer(out, "calls", (int64_t)each->calls);
      writer_put_integer(out, "errors", (int64_t)each->errors);
      if (each->times) {
        put_times(each->times, out);
        histogram_add(&all, each->times);
      }
      writer_close(out);
    }
  }
  writer_close(out);
  writer_put_integer(out, "calls", (int64_t)calls);
  writer_put_integer(out, "errors", (int64_t)errors);
  put_times(&all, out);
  writer_close(out);
  histogram_fini(&all);
}

/* ---- links ------------------------------------------------------------------ */

static void put_direction(const char *key, const link_meter *meter, writer *out) {
  writer_key(out, key);
  writer_map(out);
  writer_put_integer(out, "calls", (int64_t)meter->calls);
  writer_put_integer(out, "errors", (int64_t)meter->errors);
  if (meter->times) put_times(meter->times, out);
  writer_close(out);
}

static void put_link(peer *peer, int64_t now, writer *out) {
  size_t early = peer->connecting ? peer->connecting->early.bytes.length : 0;
  writer_map(out);
  writer_put_text(out, "peer", peer->name);
  writer_put_text(out, "state", peer_state_name(peer));
  if (peer->wire.pipe) writer_put_text(out, "kind", "memory");
  if (peer->wire.stream) writer_put_text(out, "kind", "socket");
  writer_put_boolean(out, "accepted", peer->accepted);
  if (peer->foreign) writer_put_boolean(out, "bare", true);
  put_direction("made", &peer->made, out);
  put_direction("served", &peer->served, out);
  writer_put_integer(out, "sent_bytes", (int64_t)peer->made.bytes);
  writer_put_integer(out, "received_bytes", (int64_t)peer->served.bytes);
  writer_put_integer(out, "queued_bytes", (int64_t)(link_queued(&peer->wire) + early));
  writer_put_integer(out, "credit", peer->window);
  writer_put_integer(out, "credit_bytes", peer->window_bytes);
  writer_put_integer(out, "pending", peer->pending_count);
  writer_put_integer(out, "handling", peer->handling);
  if (peer->active_at) writer_put_number(out, "silent", overview_seconds(peer->active_at, now));
  writer_close(out);
}

/* ---- bounds ----------------------------------------------------------------- */

/* `limit` 0: there is none; `used` below 0: it is of one link or message, see there. */
static void put_bound(const rpc *rpc, bound which, const char *name, int64_t limit, int64_t used,
                      writer *out) {
  writer_key(out, name);
  writer_map(out);
  if (limit > 0) writer_put_integer(out, "limit", limit);
  if (used >= 0) writer_put_integer(out, "used", used);
  writer_put_integer(out, "met", (int64_t)rpc->met[which]);
  writer_close(out);
}

static void put_bounds(const rpc *rpc, writer *out) {
  writer_key(out, "bounds");
  writer_map(out);
  put_bound(rpc, BOUND_PENDING, "max_pending", rpc->max_held, rpc->held_count, out);
  put_bound(rpc, BOUND_PENDING_BYTES, "max_pending_bytes", (int64_t)rpc->max_held_bytes,
            (int64_t)rpc->held_bytes, out);
  put_bound(rpc, BOUND_ANSWERS, "answer_bytes", (int64_t)rpc->max_answer_bytes, -1, out);
  put_bound(rpc, BOUND_BARE, "edge_calls", rpc->terms.calls, -1, out);
  put_bound(rpc, BOUND_EDGE, "room_of_others", 0, -1, out);
  put_bound(rpc, BOUND_MESSAGE, "message_bytes", (int64_t)rpc->codec.limits.message_bytes, -1, out);
  writer_close(out);
}

static int64_t count_calls(const meters *meters) {
  uint64_t calls = 0;
  for (int i = 0; i < METER_SLOTS; i++)
    for (const meter *each = meters->slots[i]; each; each = each->next) calls += each->calls;
  return (int64_t)calls;
}

void overview_totals(const rpc *rpc, writer *out) {
  overview_begin(rpc, out);
  writer_put_integer(out, "in", count_calls(&rpc->served));
  writer_put_integer(out, "out", count_calls(&rpc->made));
  writer_close(out);
}

void overview_stats(const rpc *rpc, writer *out) {
  int64_t now = clock_now();
  overview_begin(rpc, out);
  put_methods("served", &rpc->served, out);
  put_methods("made", &rpc->made, out);
  writer_put_integer(out, "refused", (int64_t)rpc->refused);
  writer_put_integer(out, "expired", (int64_t)rpc->expired);
  writer_key(out, "links");
  writer_array(out);
  for (const list *each = rpc->peers.next; each != &rpc->peers; each = each->next)
    put_link(list_entry(each, peer, link), now, out);
  writer_close(out);
  put_bounds(rpc, out);
  writer_close(out);
}
