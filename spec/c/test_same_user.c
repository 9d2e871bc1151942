/* Who may use a run's control socket: its user, and root. */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/listener.h"
#include "test.h"

enum { NOBODY = 65534 };

static int listening;
static struct sockaddr_un place = {.sun_family = AF_UNIX};

/* A connection made by the user `uid`; accepted here. */
static int connection_of(uid_t uid) {
  pid_t child = fork();
  if (child == 0) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (uid != getuid() && setuid(uid) != 0) _exit(1);
    _exit(connect(fd, (struct sockaddr *)&place, sizeof place) != 0);
  }
  int fd = accept(listening, NULL, NULL), status;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return fd;
}

static void our_own_user_may(void) {
  int fd = connection_of(getuid());
  CHECK(listener_same_user(fd));
  close(fd);
}

static void others_may_not(void) {
  if (getuid() != 0) return; /* only root can become somebody else */
  int fd = connection_of(NOBODY);
  CHECK(!listener_same_user(fd));
  close(fd);
}

static void what_is_no_unix_socket_may_not(void) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  CHECK(!listener_same_user(ends[0]));
  close(ends[0]);
  close(ends[1]);
}

int main(void) {
  snprintf(place.sun_path, sizeof place.sun_path, "/tmp/lp-same-user-%d", (int)getpid());
  listening = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(bind(listening, (struct sockaddr *)&place, sizeof place) == 0);
  CHECK(chmod(place.sun_path, 0777) == 0 && listen(listening, 5) == 0);
  RUN(our_own_user_may);
  RUN(others_may_not);
  RUN(what_is_no_unix_socket_may_not);
  unlink(place.sun_path);
  close(listening);
  return TEST_END();
}
