/* See orphans.h. The kernel gives orphans to the first thread of the adopting process, so they are
 * among the children of that thread (/proc/PID/task/PID/children): what other threads have
 * started, node processes included, is not even looked at. Without that file nobody is reaped. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "process/orphans.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"

static struct {
  pthread_mutex_t lock;
  list awaited;
  buffer ended; /* numbers of those that had ended when they were looked at last */
} ours = {.lock = PTHREAD_MUTEX_INITIALIZER, .awaited = {&ours.awaited, &ours.awaited}};

void awaited_begin(void) {
  pthread_mutex_lock(&ours.lock);
}

void awaited_end(awaited *child, pid_t pid) {
  child->pid = pid;
  list_init(&child->link);
  if (pid > 0) list_push(&ours.awaited, &child->link);
  pthread_mutex_unlock(&ours.lock);
}

void awaited_forget(awaited *child) {
  pthread_mutex_lock(&ours.lock);
  list_remove(&child->link);
  pthread_mutex_unlock(&ours.lock);
}

static bool is_awaited(pid_t pid) {
  for (const list *each = ours.awaited.next; each != &ours.awaited; each = each->next)
    if (list_entry(each, const awaited, link)->pid == pid) return true;
  return false;
}

static bool had_ended(pid_t pid) {
  const pid_t *list = (const pid_t *)(const void *)ours.ended.data;
  for (size_t i = 0; i < ours.ended.length / sizeof *list; i++)
    if (list[i] == pid) return true;
  return false;
}

/* A child (P_ALL: any) has ended and is not reaped yet. */
static bool has_ended(idtype_t kind, pid_t pid) {
  siginfo_t info = {0};
  return waitid(kind, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

static bool read_children(buffer *out) {
  char path[64];
  ssize_t length = -1;
  snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  while (buffer_reserve(out, 4096) && (length = read(file, out->data + out->length, 4095)) > 0)
    out->length += (size_t)length;
  close(file);
  if (length == 0) out->data[out->length] = 0; /* else it may end within a number */
  return length == 0;
}

/* Reaps those of `children` (numbers with spaces between) that had ended before; the others that
 * have ended are left in `now`. */
static void look_at(const char *children, buffer *now) {
  char *rest;
  for (long number; (number = strtol(children, &rest, 10)) > 0; children = rest) {
    pid_t pid = (pid_t)number;
    if (is_awaited(pid) || !has_ended(P_PID, pid)) continue;
    if (had_ended(pid))
      waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOHANG);
    else
      buffer_append(now, &pid, sizeof pid); /* without memory it is seen again */
  }
}

void orphans_reap(void) {
  buffer children = {0}, now = {0};
  pthread_mutex_lock(&ours.lock);
  if (has_ended(P_ALL, 0) && read_children(&children)) look_at((char *)children.data, &now);
  buffer_fini(&ours.ended);
  ours.ended = now;
  pthread_mutex_unlock(&ours.lock);
  buffer_fini(&children);
}
