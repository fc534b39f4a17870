// SPDX-License-Identifier: MIT OR Apache-2.0
// One end of a connection, or of datagrams, in plain C and written against libibverbs' manual
// pages: what somebody who never heard of lend would write. One thread.
//
//   verbs_peer DEVICE                 only looks whether that device will do: 77 with the reason
//   verbs_peer DEVICE PSN RC|UC|UD    with a stream socket as standard input, for both directions
//
// It says a line about itself, QPN PSN LID GID MTU ADDRESS LENGTH RKEY, and then answers each line it
// is told with one of its own. It ends with its standard input.
//
//   connect QPN PSN LID GID MTU    ok; of UD: where all sends go
//   fill AT LENGTH SEED FROM       ok; bytes FROM and on of the pattern SEED
//   check AT LENGTH SEED FROM      ok, or: differs at BYTE
//   put AT BYTES                   ok
//   get AT LENGTH                  BYTES
//   receive ID PIECES              ok, or: refused ERRNO
//   send ID PIECES [OPTION...]     likewise; options are imm=N and inline
//   write ID PIECES to=ADDRESS key=RKEY [OPTION...]
//   read ID PIECES to=ADDRESS key=RKEY
//   wait                           ID STATUS OPCODE BYTES IMMEDIATE; the last is - for none
//
// PIECES are AT:LENGTH,AT:LENGTH... of its memory, or - for none. GID, RKEY and BYTES are
// hexadecimal; of BYTES there are 200 at most.
#define _POSIX_C_SOURCE 200809L

#include <infiniband/verbs.h>

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum {
  skipped = 77,
  memory_bytes = 16 << 20,
  depth = 64,
  pieces_max = 4,
  inline_bytes = 64,
  queue_key = 0x1ed,
  wait_seconds = 30,
  line_bytes_max = 200,
  port = 1,
};

static struct ibv_context* context;
static struct ibv_pd* domain;
static struct ibv_cq* completions;
static enum ibv_qp_type service = IBV_QPT_RC;
static struct ibv_qp* queue_pair;
static struct ibv_ah* destination;  // of UD, with its number
static uint32_t destination_number;
static struct ibv_mr* region;
static unsigned char* memory;
static struct ibv_port_attr port_attributes;
static union ibv_gid gid;
static int gid_index;
static uint32_t packet_sequence_number;

static void fail(char const* what) {
  fprintf(stderr, "verbs_peer: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void say(char const* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  int const length = vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  line[length] = '\n';
  if (send(0, line, (size_t)length + 1, MSG_NOSIGNAL) != length + 1) exit(1);
}

static unsigned char pattern(size_t i, unsigned seed) {
  return (unsigned char)(seed + i * 31 + (i >> 8) * 7);
}

static void open_device(char const* name) {
  int count = 0;
  struct ibv_device** const devices = ibv_get_device_list(&count);
  for (int i = 0; i < count && context == NULL; ++i)
    if (strcmp(ibv_get_device_name(devices[i]), name) == 0) context = ibv_open_device(devices[i]);
  if (devices != NULL) ibv_free_device_list(devices);
  if (context == NULL) {
    printf("libibverbs knows no device %s here\n", name);
    exit(skipped);
  }
  if (context->device->transport_type == IBV_TRANSPORT_IWARP) {
    printf("%s is connected by rdma_cm only\n", name);
    exit(skipped);
  }
}

/// The first address of IPv4, or else the first there is.
static void choose_gid(void) {
  static unsigned char const nothing[16];
  static unsigned char const mapped[12] = {[10] = 0xff, [11] = 0xff};
  bool found = false;
  for (int i = 0; i < port_attributes.gid_tbl_len; ++i) {
    union ibv_gid entry;
    if (ibv_query_gid(context, port, i, &entry) != 0) continue;
    if (memcmp(entry.raw, nothing, sizeof nothing) == 0) continue;
    bool const is_ipv4 = memcmp(entry.raw, mapped, sizeof mapped) == 0;
    if (found && !is_ipv4) continue;
    found = true;
    gid = entry;
    gid_index = i;
    if (is_ipv4) return;
  }
}

static void make_everything(void) {
  if (ibv_query_port(context, port, &port_attributes) != 0) fail("ibv_query_port");
  choose_gid();
  domain = ibv_alloc_pd(context);
  if (domain == NULL) fail("ibv_alloc_pd");
  if (posix_memalign((void**)&memory, 4096, memory_bytes) != 0) fail("posix_memalign");
  memset(memory, 0, memory_bytes);
  region = ibv_reg_mr(domain, memory, memory_bytes,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  if (region == NULL) fail("ibv_reg_mr");
  completions = ibv_create_cq(context, 2 * depth, NULL, NULL, 0);
  if (completions == NULL) fail("ibv_create_cq");
  struct ibv_qp_init_attr wanted = {
      .send_cq = completions,
      .recv_cq = completions,
      .cap = {depth, depth, pieces_max, pieces_max, inline_bytes},
      .qp_type = service,
      .sq_sig_all = 1,
  };
  queue_pair = ibv_create_qp(domain, &wanted);
  if (queue_pair == NULL) fail("ibv_create_qp");
  struct ibv_qp_attr attributes = {
      .qp_state = IBV_QPS_INIT,
      .port_num = port,
      .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
      .qkey = queue_key,
  };
  if (service == IBV_QPT_RC) attributes.qp_access_flags |= IBV_ACCESS_REMOTE_READ;
  if (ibv_modify_qp(queue_pair, &attributes,
                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                        (service == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)) != 0)
    fail("ibv_modify_qp to INIT");
}

static void introduce(void) {
  char text[33];
  for (int i = 0; i < 16; ++i) snprintf(text + 2 * i, 3, "%02x", gid.raw[i]);
  say("%" PRIu32 " %" PRIu32 " %d %s %d %" PRIuPTR " %d %" PRIx32, queue_pair->qp_num,
      packet_sequence_number, port_attributes.lid, text, 128 << port_attributes.active_mtu,
      (uintptr_t)memory, memory_bytes, region->rkey);
}

static void connect_to(char const* arguments) {
  uint32_t number = 0, sequence = 0, mtu = 0;
  uint16_t lid = 0;
  char text[33] = "";
  if (sscanf(arguments, "%" SCNu32 " %" SCNu32 " %" SCNu16 " %32s %" SCNu32, &number, &sequence,
             &lid, text, &mtu) != 5)
    fail("connect was not understood");
  struct ibv_qp_attr attributes = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = IBV_MTU_256,
      .dest_qp_num = number,
      .rq_psn = sequence,
      .max_dest_rd_atomic = 4,
      .min_rnr_timer = 12,  // 0.64 ms
      .ah_attr = {.dlid = lid,
                  .port_num = port,
                  .is_global = port_attributes.link_layer == IBV_LINK_LAYER_ETHERNET,
                  .grh = {.sgid_index = (uint8_t)gid_index, .hop_limit = 64}},
  };
  while (attributes.path_mtu < IBV_MTU_4096 && (128u << attributes.path_mtu) < mtu)
    ++attributes.path_mtu;
  for (int i = 0; i < 16; ++i) sscanf(text + 2 * i, "%2hhx", &attributes.ah_attr.grh.dgid.raw[i]);
  int mask = IBV_QP_STATE;
  if (service == IBV_QPT_UD) {
    destination = ibv_create_ah(domain, &attributes.ah_attr);
    if (destination == NULL) fail("ibv_create_ah");
    destination_number = number;
  } else {
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  }
  if (service == IBV_QPT_RC) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (ibv_modify_qp(queue_pair, &attributes, mask) != 0) fail("ibv_modify_qp to RTR");
  attributes = (struct ibv_qp_attr){
      .qp_state = IBV_QPS_RTS,
      .sq_psn = packet_sequence_number,
      .max_rd_atomic = 4,
      .retry_cnt = 6,
      .rnr_retry = 7,  // without end
      .timeout = 14,   // 67 ms
  };
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (service == IBV_QPT_RC)
    mask |= IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT;
  if (ibv_modify_qp(queue_pair, &attributes, mask) != 0) fail("ibv_modify_qp to RTS");
  say("ok");
}

/// The value after `name` among the options, or `otherwise`.
static uint64_t option(char const* options, char const* name, int base, uint64_t otherwise) {
  char const* const at = strstr(options, name);
  return at == NULL ? otherwise : strtoull(at + strlen(name), NULL, base);
}

static int parse_pieces(char* text, struct ibv_sge* pieces) {
  int count = 0;
  char* rest = NULL;
  for (char* one = strtok_r(text, ",", &rest); one != NULL; one = strtok_r(NULL, ",", &rest)) {
    size_t at = 0, length = 0;
    if (sscanf(one, "%zu:%zu", &at, &length) != 2 || count == pieces_max) continue;
    pieces[count++] = (struct ibv_sge){(uintptr_t)memory + at, (uint32_t)length, region->lkey};
  }
  return count;
}

static void post(char const* operation, char const* arguments) {
  uint64_t id = 0;
  char text[128] = "";
  int used = 0;
  if (sscanf(arguments, "%" SCNu64 " %127s%n", &id, text, &used) != 2)
    fail("a request was not understood");
  char const* const options = arguments + used;
  struct ibv_sge pieces[pieces_max];
  int const count = parse_pieces(text, pieces);
  int result = 0;
  if (strcmp(operation, "receive") == 0) {
    struct ibv_recv_wr request = {.wr_id = id, .sg_list = pieces, .num_sge = count};
    struct ibv_recv_wr* bad = NULL;
    result = ibv_post_recv(queue_pair, &request, &bad);
  } else {
    bool const has_immediate = strstr(options, "imm=") != NULL;
    struct ibv_send_wr request = {.wr_id = id, .sg_list = pieces, .num_sge = count};
    if (strcmp(operation, "read") == 0)
      request.opcode = IBV_WR_RDMA_READ;
    else if (strcmp(operation, "write") == 0)
      request.opcode = has_immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    else
      request.opcode = has_immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
    if (has_immediate) request.imm_data = htonl((uint32_t)option(options, "imm=", 10, 0));
    if (strstr(options, "inline") != NULL) request.send_flags |= IBV_SEND_INLINE;
    if (request.opcode != IBV_WR_SEND && request.opcode != IBV_WR_SEND_WITH_IMM) {
      request.wr.rdma.remote_addr = option(options, "to=", 10, 0);
      request.wr.rdma.rkey = (uint32_t)option(options, "key=", 16, 0);
    } else if (service == IBV_QPT_UD) {
      request.wr.ud.ah = destination;
      request.wr.ud.remote_qpn = destination_number;
      request.wr.ud.remote_qkey = queue_key;
    }
    struct ibv_send_wr* bad = NULL;
    result = ibv_post_send(queue_pair, &request, &bad);
    // What was inline is the program's again.
    if (result == 0 && (request.send_flags & IBV_SEND_INLINE) != 0)
      for (int i = 0; i < count; ++i) memset((void*)(uintptr_t)pieces[i].addr, 0, pieces[i].length);
  }
  if (result == 0)
    say("ok");
  else
    say("refused %d", result);
}

static void wait_for_completion(void) {
  time_t const limit = time(NULL) + wait_seconds;
  struct ibv_wc done;
  int found = 0;
  while (found == 0 && time(NULL) <= limit) found = ibv_poll_cq(completions, 1, &done);
  if (found < 0) fail("ibv_poll_cq");
  if (found == 0)
    say("nothing");
  else if (done.status != IBV_WC_SUCCESS)
    say("%" PRIu64 " %d - - -", done.wr_id, done.status);
  else if ((done.wc_flags & IBV_WC_WITH_IMM) != 0)
    say("%" PRIu64 " 0 %d %" PRIu32 " %" PRIu32, done.wr_id, done.opcode, done.byte_len,
        ntohl(done.imm_data));
  else
    say("%" PRIu64 " 0 %d %" PRIu32 " -", done.wr_id, done.opcode,
        (done.opcode & IBV_WC_RECV) != 0 ? done.byte_len : 0);
}

static void fill_or_check(bool fill, char const* arguments) {
  size_t at = 0, length = 0, from = 0;
  unsigned seed = 0;
  if (sscanf(arguments, "%zu %zu %u %zu", &at, &length, &seed, &from) != 4)
    fail("bytes were not understood");
  for (size_t i = 0; i < length; ++i) {
    if (fill) {
      memory[at + i] = pattern(from + i, seed);
    } else if (memory[at + i] != pattern(from + i, seed)) {
      say("differs at %zu", i);
      return;
    }
  }
  say("ok");
}

static void put(char const* arguments) {
  size_t at = 0;
  int used = 0;
  if (sscanf(arguments, "%zu%n", &at, &used) != 1) fail("bytes were not understood");
  char const* text = arguments + used;
  int two = 0;
  for (; sscanf(text, "%2hhx%n", &memory[at], &two) == 1; text += two) ++at;
  say("ok");
}

static void get(char const* arguments) {
  size_t at = 0, length = 0;
  char text[2 * line_bytes_max + 1];
  if (sscanf(arguments, "%zu %zu", &at, &length) != 2 || length > line_bytes_max)
    fail("bytes were not understood");
  for (size_t i = 0; i < length; ++i) snprintf(text + 2 * i, 3, "%02x", memory[at + i]);
  say("%s", text);
}

static void obey(char* line) {
  char word[16] = "";
  int used = 0;
  sscanf(line, "%15s%n", word, &used);
  char const* const arguments = line + used;
  if (strcmp(word, "connect") == 0)
    connect_to(arguments);
  else if (strcmp(word, "fill") == 0 || strcmp(word, "check") == 0)
    fill_or_check(word[0] == 'f', arguments);
  else if (strcmp(word, "put") == 0)
    put(arguments);
  else if (strcmp(word, "get") == 0)
    get(arguments);
  else if (strcmp(word, "wait") == 0)
    wait_for_completion();
  else
    post(word, arguments);
}

int main(int count, char** arguments) {
  if (count != 2 && count != 4) return 2;
  open_device(arguments[1]);
  if (count == 2) return 0;
  packet_sequence_number = (uint32_t)strtoul(arguments[2], NULL, 10);
  if (strcmp(arguments[3], "UC") == 0) service = IBV_QPT_UC;
  if (strcmp(arguments[3], "UD") == 0) service = IBV_QPT_UD;
  make_everything();
  introduce();
  FILE* const input = fdopen(0, "r");
  char line[512];
  while (input != NULL && fgets(line, sizeof line, input) != NULL) obey(line);
  ibv_destroy_qp(queue_pair);
  if (destination != NULL) ibv_destroy_ah(destination);
  ibv_destroy_cq(completions);
  ibv_dereg_mr(region);
  free(memory);
  ibv_dealloc_pd(domain);
  return ibv_close_device(context) == 0 ? 0 : 1;
}
