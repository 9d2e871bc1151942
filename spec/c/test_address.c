/* Addresses as text and as socket addresses. */
#include "net/address.h"

#include <netinet/in.h>
#include <sys/un.h>

#include "test.h"

static address parsed;
static fault why;

static lp_status parse(const char *text) {
  memset(&why, 0, sizeof why);
  return address_parse(text, &parsed, &why);
}

static int parses_as(const char *text, address_kind kind, const char *name, int port) {
  return parse(text) == LP_OK && parsed.kind == kind && !strcmp(parsed.name, name) &&
         parsed.port == port;
}

static int is_refused(const char *text) {
  return parse(text) == LP_INVALID_ARGUMENT && why.status == LP_INVALID_ARGUMENT &&
         strstr(why.text, text) != NULL;
}

static int survives_formatting(const char *text) {
  char again[ADDRESS_NAME + 16];
  if (parse(text)) return 0;
  address_format(&parsed, again, sizeof again);
  return !strcmp(text, again);
}

static void reads_every_form(void) {
  CHECK(parses_as("unix:/run/a b:c", ADDRESS_UNIX, "/run/a b:c", 0));
  CHECK(parses_as("unix:relative", ADDRESS_UNIX, "relative", 0));
  CHECK(parses_as("tcp:127.0.0.1:0", ADDRESS_TCP, "127.0.0.1", 0));
  CHECK(parses_as("tcp:example.org:65535", ADDRESS_TCP, "example.org", 65535));
  CHECK(parses_as("tcp:[::1]:80", ADDRESS_TCP, "::1", 80));
  CHECK(parses_as("inproc:x", ADDRESS_INPROC, "x", 0));
}

static void refuses_everything_else_and_quotes_it(void) {
  const char *const bad[] = {"",
                             "unix",
                             "unix:",
                             "inproc:",
                             "http://x",
                             "tcp:",
                             "tcp:host",
                             "tcp:host:",
                             "tcp::80",
                             "tcp:[]:80",
                             "tcp:h:65536",
                             "tcp:h:-1",
                             "tcp:h:+1",
                             "tcp:h: 1",
                             "tcp:h:1x",
                             "tcp:::1:80",
                             "tcp:[::1:80",
                             "tcp:::1]:80",
                             "tcp:h:000080",
                             "UNIX:/x"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CHECK(is_refused(bad[i]));
    if (test_failed_now) fprintf(stderr, "  at \"%s\"\n", bad[i]);
  }
}

static void bounds_the_length(void) {
  char text[400] = "unix:";
  memset(text + 5, 'x', 255);
  CHECK(parse(text) == LP_OK && strlen(parsed.name) == 255);
  text[5 + 255] = 'x';
  CHECK(parse(text) == LP_INVALID_ARGUMENT);
  memcpy(text, "tcp:", 4);
  memcpy(text + 270, ":80", 4);
  memset(text + 261, 'x', 9);
  CHECK(parse(text) == LP_INVALID_ARGUMENT);
  CHECK(address_parse(text, &parsed, NULL) == LP_INVALID_ARGUMENT);
}

static void formatting_is_the_inverse(void) {
  CHECK(survives_formatting("unix:/run/x"));
  CHECK(survives_formatting("tcp:localhost:1"));
  CHECK(survives_formatting("tcp:[fe80::1]:8080"));
  CHECK(survives_formatting("inproc:name"));
  char small[6];
  parse("unix:/run/x");
  address_format(&parsed, small, sizeof small);
  CHECK(!strcmp(small, "unix:"));
}

static void resolves_numbers_and_localhost_only(void) {
  struct sockaddr_storage where;
  socklen_t length;
  parse("tcp:localhost:258");
  CHECK(address_resolve(&parsed, &where, &length, &why) == LP_OK);
  struct sockaddr_in *four = (struct sockaddr_in *)(void *)&where;
  CHECK(four->sin_family == AF_INET && four->sin_port == htons(258));
  CHECK(four->sin_addr.s_addr == htonl(INADDR_LOOPBACK));
  parse("tcp:[::1]:7");
  CHECK(address_resolve(&parsed, &where, &length, &why) == LP_OK);
  CHECK(where.ss_family == AF_INET6 && length == sizeof(struct sockaddr_in6));
  parse("tcp:example.org:7");
  CHECK(address_resolve(&parsed, &where, &length, &why) == LP_INVALID_ARGUMENT);
  CHECK(strstr(why.text, "example.org") != NULL);
  parse("inproc:x");
  CHECK(address_resolve(&parsed, &where, &length, &why) == LP_INVALID_ARGUMENT);
}

static void a_path_of_107_bytes_is_the_longest(void) {
  struct sockaddr_storage where;
  socklen_t length;
  address at = {.kind = ADDRESS_UNIX};
  memset(at.name, 'p', 107);
  CHECK(address_resolve(&at, &where, &length, &why) == LP_OK);
  CHECK(!strcmp(((struct sockaddr_un *)(void *)&where)->sun_path, at.name));
  at.name[107] = 'p';
  CHECK(address_resolve(&at, &where, &length, &why) == LP_INVALID_ARGUMENT);
  CHECK(strstr(why.text, "108 bytes") != NULL);
}

int main(void) {
  RUN(reads_every_form);
  RUN(refuses_everything_else_and_quotes_it);
  RUN(bounds_the_length);
  RUN(formatting_is_the_inverse);
  RUN(resolves_numbers_and_localhost_only);
  RUN(a_path_of_107_bytes_is_the_longest);
  return TEST_END();
}
